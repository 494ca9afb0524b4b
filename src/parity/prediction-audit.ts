// Predicted against reported cached tokens of one worker: a window of the newest requests, and what is wrong when the two drift
// apart. Robust: it counts requests that disagree and never averages, so that one long prompt decides nothing.

/** Requests remembered per worker. */
export const AUDIT_WINDOW = 64;

/** Fewest requests that say anything before a drift is named. */
export const AUDIT_LEAST = 6;

/** Share of those requests that must disagree the same way. */
export const AUDIT_SHARE = 0.6;

/** Which way predictions are wrong. */
export type DriftKind =
  /** The engine has less than predicted. */
  | 'over_predicted'
  /** The engine never has anything of what is predicted. */
  | 'never_hits'
  /** The engine has more than predicted. */
  | 'under_predicted';

/** A drift of one worker. */
export interface Drift {
  readonly kind: DriftKind;
  /** Requests of the window that disagree this way. */
  readonly requests: number;
  /** Requests of the window that could have. */
  readonly of: number;
  /** Median of reported minus predicted over those that disagree, tokens. */
  readonly medianTokens: number;
}

/** What the window holds, for status and metrics. */
export interface AuditSummary {
  readonly requests: number;
  readonly predictedTokens: number;
  readonly reportedTokens: number;
}

/** The newest predictions of one worker. Takes no memory per request. */
export class PredictionAudit {
  readonly #predicted = new Float64Array(AUDIT_WINDOW);
  readonly #reported = new Float64Array(AUDIT_WINDOW);
  readonly #tolerance = new Float64Array(AUDIT_WINDOW);
  #next = 0;
  #count = 0;

  /**
   * Takes one answered request.
   * @param predicted cached tokens that were expected, >= 0.
   * @param reported cached tokens by the engine's account, >= 0.
   * @param blockSize tokens per block: engines differ by up to one in what of the last block they count.
   */
  add(predicted: number, reported: number, blockSize: number): void {
    this.#predicted[this.#next] = predicted;
    this.#reported[this.#next] = reported;
    this.#tolerance[this.#next] = blockSize;
    this.#next = (this.#next + 1) % AUDIT_WINDOW;
    this.#count = Math.min(AUDIT_WINDOW, this.#count + 1);
  }

  /** Forgets all: the engine started anew, or was set up anew. */
  clear(): void {
    this.#next = 0;
    this.#count = 0;
  }

  get summary(): AuditSummary {
    let predictedTokens = 0;
    let reportedTokens = 0;
    for (let at = 0; at < this.#count; at += 1) {
      predictedTokens += this.#predicted[at] ?? 0;
      reportedTokens += this.#reported[at] ?? 0;
    }
    return { requests: this.#count, predictedTokens, reportedTokens };
  }

  /** How predictions are wrong; null = they are not, or too few requests say anything. */
  drift(): Drift | null {
    const over: number[] = [];
    const under: number[] = [];
    let expecting = 0;
    let hitting = 0;
    let missed = 0;
    for (let at = 0; at < this.#count; at += 1) {
      const predicted = this.#predicted[at] ?? 0;
      const reported = this.#reported[at] ?? 0;
      const tolerance = this.#tolerance[at] ?? 0;
      if (predicted > 0) expecting += 1;
      if (reported > 0) hitting += 1;
      if (predicted - reported > tolerance || (predicted > 0 && reported === 0))
        over.push(reported - predicted);
      else if (reported - predicted > tolerance || (reported > 0 && predicted === 0))
        under.push(reported - predicted);
      if (predicted > 0 && reported === 0) missed += 1;
    }
    if (expecting >= AUDIT_LEAST && over.length >= AUDIT_SHARE * expecting) {
      const kind = missed === expecting && hitting === 0 ? 'never_hits' : 'over_predicted';
      return { kind, requests: over.length, of: expecting, medianTokens: median(over) };
    }
    if (hitting >= AUDIT_LEAST && under.length >= AUDIT_SHARE * hitting)
      return { kind: 'under_predicted', requests: under.length, of: hitting, medianTokens: median(under) };
    return null;
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}
