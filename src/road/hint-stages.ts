// Runs the hint stage of a booking. The stage contains its policies; should it fail itself, the request goes on without a hint.
import type {
  CopyCommit,
  HintBooking,
  HintStage,
  HintStageResult,
  PendingHints,
  RoleRuntime,
  ThreadedHintStage,
} from '../host/index.ts';
import type { StoredDecision } from '../observe/index.ts';
import type { RoadRequest } from './types.ts';

/** Runs a stage that answers at once; null = there is none, or it failed. */
export function runHintStage(stage: HintStage | null, booking: HintBooking): HintStageResult | null {
  try {
    return stage?.run(booking) ?? null;
  } catch {
    return null;
  }
}

/** Starts a stage that may answer later; `hinted` is called only when the answer is pending. */
export function startHintStage(
  stage: ThreadedHintStage,
  booking: HintBooking,
  hinted: (result: HintStageResult) => void,
): HintStageResult | PendingHints | null {
  let failed = false;
  try {
    return stage.start(booking, (result) => {
      if (!failed) hinted(result);
    });
  } catch {
    failed = true;
    return null;
  }
}

/** What the stage of a booking came to whose request ended before the answers were there. */
export function endedEarly(commit: CopyCommit | null): HintStageResult {
  const none = { hint: null, capable: true, policies: [], actionPolicies: [] };
  if (commit === null) return none;
  const { prefixBlocks, additionalBlocks } = commit;
  return { ...none, commit: { source: null, prefixBlocks, additionalBlocks, failure: 'request_ended' } };
}

/** Whether neither a policy nor a caller asks for anything and nobody wants to know whether the rank takes hints. */
export function hasNothingToRun(
  { hintStage, threadedHints = null }: RoleRuntime,
  { incomingHint }: RoadRequest,
  decision: StoredDecision | null,
): boolean {
  if (threadedHints !== null) return false;
  return hintStage === null || (hintStage.idle === true && incomingHint === null && decision === null);
}
