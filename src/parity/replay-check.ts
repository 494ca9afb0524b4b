// Asks a replay endpoint for a batch that was just heard: an engine that keeps its history has it, word for word.
import { decodeEventBatch, type KvEventReplay } from '../events/index.ts';

/** The newest batch that was heard live. */
export interface HeardBatch {
  readonly sequence: number;
  /** Seconds by the engine's clock; null = it has none that can be used. */
  readonly timestamp: number | null;
}

/** What the endpoint made of it. */
export type ReplayVerdict =
  | { readonly kind: 'kept' }
  /** No answer. */
  | { readonly kind: 'none' }
  /** Answered without the batch, or with another under its number. */
  | { readonly kind: 'old'; readonly problem: string };

/** Batches asked for before the one that was heard, so that an answer that begins late shows. */
const BACK = 2;

/**
 * Asks; the answer is called once. Returns what gives the question up.
 * @param heard asked for again; more may have come since.
 */
export function checkReplay(
  replay: KvEventReplay,
  { sequence, timestamp }: HeardBatch,
  answer: (verdict: ReplayVerdict) => void,
): () => void {
  const from = Math.max(0, sequence - BACK);
  let newest = -1;
  let batches = 0;
  let problem: string | null = null;
  let isKept = false;
  return replay.replay(from, {
    batch(number, payload) {
      batches += 1;
      newest = Math.max(newest, number);
      if (number !== sequence) return;
      const kept = timestampOf(payload);
      if (kept === timestamp || timestamp === null) isKept = true;
      else problem = `its batch ${sequence} is another one`;
    },
    ended() {
      if (isKept) answer({ kind: 'kept' });
      else if (problem !== null) answer({ kind: 'old', problem });
      else if (batches === 0)
        answer({ kind: 'old', problem: `it has none of batches ${from} to ${sequence}` });
      else answer({ kind: 'old', problem: `its newest batch is ${newest}, and ${sequence} was heard` });
    },
    failed: () => answer({ kind: 'none' }),
  });
}

function timestampOf(payload: Uint8Array): number | null {
  try {
    return decodeEventBatch(payload).timestamp;
  } catch {
    return Number.NaN;
  }
}
