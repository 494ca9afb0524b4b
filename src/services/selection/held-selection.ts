// A selection that waits for its reservation: everything that a replay books by, and how many bytes it keeps.
import type { PromptHashes } from '../../kv/index.ts';
import type { SessionContext } from '../../plugin/index.ts';
import { sessionBytes } from '../../road/index.ts';
import type { Placement } from '../../scheduling/index.ts';
import type { ReadPrompt } from './prompt-fields.ts';
import type { Asked } from './road-requests.ts';

/** What was selected. */
export interface HeldSelection {
  readonly workerId: bigint;
  readonly rank: number;
  readonly prompt: ReadPrompt;
  readonly prefillTokens: number;
  readonly tracksPrefill: boolean;
  readonly sharesBlocks: boolean;
  /** Whether it rests on a copy of blocks. */
  readonly commitsCopy: boolean;
  readonly expectedOutputTokens: number | null;
  readonly session: SessionContext | null;
  readonly policyClass: string | null;
  readonly priority: number;
  readonly strictPriority: number;
}

/**
 * What a selection takes to be replayed, and nothing else of what was asked: lists of constraints may be large, and are not counted.
 * Hashes are copied, as those of the prompt are views of a larger buffer.
 */
export function heldSelection(
  { constraints, expectedOutputTokens, overrides, policyClass, prompt, session }: Asked,
  placement: Pick<Placement, 'workerId' | 'rank' | 'tracksPrefillTokens' | 'commit'>,
  prefillTokens: number,
): HeldSelection {
  const { loraName, promptTokens } = prompt;
  return {
    workerId: placement.workerId,
    rank: placement.rank,
    prompt: { promptTokens, hashes: copied(prompt.hashes), loraName },
    prefillTokens,
    tracksPrefill: placement.tracksPrefillTokens,
    sharesBlocks: overrides.sharesBlocks ?? true,
    expectedOutputTokens,
    session,
    policyClass,
    priority: constraints.priority,
    strictPriority: constraints.strictPriority,
    commitsCopy: placement.commit !== null,
  };
}

function copied({ blocks, local, sequence }: PromptHashes): PromptHashes {
  return { blocks, local: local.slice(), sequence: sequence.slice() };
}

/** Every byte a selection keeps under its key: hashes, and texts as UTF-8, the session's headers with their names. */
export function bytesOf(key: string, { policyClass, prompt, session }: HeldSelection): number {
  const { hashes, loraName } = prompt;
  let bytes = hashes.local.byteLength + hashes.sequence.byteLength;
  for (const text of [key, loraName, policyClass]) bytes += sizeOf(text);
  return bytes + sessionBytes(session);
}

function sizeOf(text: string | null | undefined): number {
  return text == null ? 0 : Buffer.byteLength(text);
}
