// The state that a parity monitor keeps per rank.
import type { FindingCode } from './finding-table.ts';
import { PredictionAudit } from './prediction-audit.ts';
import { RankEvidence } from './rank-evidence.ts';
import type { ReplayVerdict } from './replay-check.ts';
import { VerdictCounts } from './verdict-counts.ts';

/** A replay endpoint is asked after so many live batches. */
export const REPLAY_AFTER = 4;

/** No findings. */
export const NO_CODES: readonly FindingCode[] = [];

/** What a monitor keeps of one (worker, rank). */
export interface WatchedRank {
  readonly evidence: RankEvidence;
  readonly verdicts: VerdictCounts;
  readonly audit: PredictionAudit;
  /** Prompts that wait to be judged: plain ones, salted ones, those of adapters. */
  readonly waiting: [number, number, number];
  /** Prompts of each kind to let pass before the next one is judged, and those still to pass. */
  readonly skip: [number, number, number];
  readonly toSkip: [number, number, number];
  /** Prompts that agreed in a row. */
  agreed: number;
  /** Prompts in a row of which it has blocks, answered without a word on cached tokens. */
  unreported: number;
  /** Prompts to let pass before the engine is asked for the ids that it sees. */
  toAsk: number;
  /** Whether most of what it announces is not of the prompts that it is sent. */
  misleads: boolean;
  replay: ReplayVerdict | null;
  /** Live batches at which the replay endpoint is asked next. */
  replayDue: number;
  cancelReplay: (() => void) | null;
  codes: readonly FindingCode[];
}

/** A rank of which nothing is known. */
export function newWatchedRank(): WatchedRank {
  return {
    evidence: new RankEvidence(),
    verdicts: new VerdictCounts(),
    audit: new PredictionAudit(),
    waiting: [0, 0, 0],
    skip: [0, 0, 0],
    toSkip: [0, 0, 0],
    agreed: 0,
    unreported: 0,
    toAsk: 0,
    misleads: false,
    replay: null,
    replayDue: REPLAY_AFTER,
    cancelReplay: null,
    codes: NO_CODES,
  };
}
