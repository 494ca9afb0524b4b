// Runs the hint policies of a role for one booking and builds the envelope. Fails open: whatever a policy does costs at most its own
// actions, never the booking.
import type { RankCapabilities } from '../fleet/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, type CommittedKvCopy, errorText, type Logger } from '../plugin/index.ts';
import { BookingCopyLocations, type HintFleet } from './copy-locations.ts';
import { HintContexts } from './hint-context.ts';
import {
  failedCommit,
  HintComplaints,
  HintDraft,
  isFailure,
  NOTHING_TO_RUN,
  notCapable,
  type Verdict,
} from './hint-draft.ts';
import type { DropReason } from './hint-output.ts';
import type { InProcessHint } from './role-creation.ts';
import type { CommitOutcome, CopyCommit, HintBooking, HintStage, HintStageResult } from './types.ts';
import { explainThrown, HINT_MEMBERS } from './undeclared-input.ts';

/** What the stage works with. */
export interface HintStagePorts {
  readonly fleet: HintFleet;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** What the policies of one run share. */
interface StageRun {
  readonly booking: HintBooking;
  readonly rank: RankCapabilities;
  readonly draft: HintDraft;
  /** Null where nobody reads them. */
  readonly copyLocations: BookingCopyLocations | null;
}

/** The stage of one role in one partition. */
export class RoleHintStage implements HintStage {
  readonly #hints: readonly InProcessHint[];
  readonly #ports: HintStagePorts;
  readonly #complaints: HintComplaints;
  readonly #contexts = new HintContexts();
  readonly #readsCopies: boolean;

  constructor(hints: readonly InProcessHint[], ports: HintStagePorts) {
    this.#hints = hints;
    this.#readsCopies = hints.some(({ reads }) => reads.copyLocations);
    this.#ports = ports;
    this.#complaints = new HintComplaints(ports.log);
  }

  get idle(): boolean {
    return this.#hints.length === 0;
  }

  run(booking: HintBooking): HintStageResult {
    const commit = booking.commit ?? null;
    const rank = rankCapabilities(this.#ports.fleet, booking);
    if (rank?.routerHint !== true) return notCapable(commit);
    if (this.idle && commit === null && booking.incomingHint === null) return NOTHING_TO_RUN;
    const draft = new HintDraft(this.#ports.metrics, this.#complaints);
    const copyLocations =
      commit !== null || this.#readsCopies ? new BookingCopyLocations(this.#ports.fleet, booking) : null;
    const run: StageRun = { booking, rank, draft, copyLocations };
    let sender: InProcessHint | null = null;
    let outcome: CommitOutcome | null = null;
    if (commit !== null) {
      // First of all, trusted callers included: engines follow the first fetch they read.
      sender = this.#hints.find((hint) => hint.sends) ?? null;
      outcome = this.#sendCommitted(commit, sender, run);
      if (outcome.failure === 'source_gone') sender = null;
    }
    const givenUp = outcome !== null && outcome.failure !== null && commit?.stopOnFailure === true;
    const incoming = givenUp ? null : booking.incomingHint;
    const kept = incoming !== null && draft.takeIncoming(incoming, rank.actions);
    if (!givenUp) for (const hint of this.#hints) if (hint !== sender) this.#runPolicy(hint, run, null);
    copyLocations?.close();
    const own = booking.messageId ?? booking.requestId;
    return draft.result(givenUp ? null : kept ? incoming.message_id : own, outcome);
  }

  /** Has the sender send a committed copy, its source looked at again. Without a source it has not run yet. */
  #sendCommitted(commit: CopyCommit, sender: InProcessHint | null, run: StageRun): CommitOutcome {
    if (sender === null) return failedCommit(commit, 'no_sender');
    const copy = run.copyLocations?.committed(commit) ?? null;
    if (copy === null) return failedCommit(commit, 'source_gone');
    const failure = this.#runPolicy(sender, run, copy);
    const { source, prefixBlocks, additionalBlocks } = copy;
    return { source, prefixBlocks, additionalBlocks, failure };
  }

  /** Runs one policy; answers why nothing of it is in the envelope, or null when something is. */
  #runPolicy(
    hint: InProcessHint,
    { booking, rank, draft, copyLocations }: StageRun,
    committed: CommittedKvCopy | null,
  ): DropReason | 'nothing' | 'tripped' | null {
    const { clock } = this.#ports;
    const { guard } = hint;
    if (guard?.admits() === false) {
      draft.skip(hint.name, 'tripped');
      return 'tripped';
    }
    const limits = draft.limitsFor(hint.actions, rank.actions);
    const startedAt = clock.now();
    const guardStartedAt = guard?.begin() ?? 0;
    const context = this.#contexts.of(hint, booking, rank.actions, copyLocations, committed);
    let verdict: Verdict;
    try {
      const output: unknown = hint.policy.buildHints(context as never);
      verdict = this.#complaints.judgeOutput(output, limits, hint.name);
    } catch (thrown) {
      verdict = 'threw';
      this.#complaints.complain(
        hint.name,
        verdict,
        errorText(explainThrown(thrown, hint.inputs, HINT_MEMBERS)),
      );
    }
    const micros = (clock.now() - startedAt) * 1000;
    guard?.end(guardStartedAt, isFailure(verdict, limits.room));
    const missed = copyLocations?.takeMissed() === true;
    const taken = draft.settle(hint.name, verdict, micros, missed ? 'no_copy_source' : null);
    if (taken) return null;
    return typeof verdict === 'string' ? verdict : 'nothing';
  }
}

/** What a booked rank says of hints; null when it says nothing. */
export function rankCapabilities(fleet: HintFleet, booking: HintBooking): RankCapabilities | null {
  return fleet.workerOfSlot(booking.slot)?.capabilities?.ranks.get(booking.rank) ?? null;
}
