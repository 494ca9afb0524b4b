// How long a pass takes. Times are milliseconds. Plain multiplications only, so that every Node version computes the same bits.
import type { TimingName } from '../types.ts';

/** Prompt work of one pass, summed over the requests that got prompt tokens. */
export interface PrefillBatch {
  requests: number;
  /** Σ (tokens computed before + prompt tokens of this pass). */
  totalIsl: number;
  /** Σ tokens computed before. */
  totalPrefix: number;
}

/** The same with what attention over cached tokens costs. */
export interface AttendedBatch extends PrefillBatch {
  /** Σ n · (c + n/2) for n prompt tokens of this pass behind c that were there before: pairs of tokens that attend to each other. */
  attended: number;
}

/** Sums of the requests that get a token in a pass. */
export interface DecodeBatch {
  /** Blocks held by requests. */
  activeBlocks: number;
  /** Pool size; null = unlimited. */
  totalBlocks: number | null;
  /** Σ prompt and output tokens. */
  contextTokens: number;
}

/** Times of an engine. */
export interface PassTimes {
  /** Of the prompt work of a pass; 0 when there is none. */
  prefill(batch: AttendedBatch): number;
  /** Of one decode step. */
  decode(batch: DecodeBatch): number;
}

/** Coefficients of a profile: a prefill takes a · tokens + b · attended + c0; a decode step q · x² + l · x + d, x = context / 2²⁰ tokens. */
interface TimingProfile {
  readonly perTokenMs: number;
  readonly perAttendedMs: number;
  readonly perPassMs: number;
  readonly decode: { readonly square: number; readonly linear: number; readonly base: number };
}

/** Context tokens from which on decoding gets no slower. */
const FULL_CONTEXT = 1_048_576;

/**
 * Profiles by name. Unlike `default` they charge attention over cached tokens, and how long a decode step takes depends on the context
 * and not on the size of the pool. `8b` has the mocker's coefficients; `70b` is a guess at a model some five times as heavy; `smg` is
 * the parametric engine of the SMG mock worker: 8,000 tokens a second, no attention term.
 */
const PROFILES: Readonly<Record<Exclude<TimingName, 'default' | 'none'>, TimingProfile>> = {
  '8b': {
    perTokenMs: 0.01518,
    perAttendedMs: 8.42e-7,
    perPassMs: 16.5,
    decode: { square: -25.74, linear: 54.01, base: 5.74 },
  },
  '70b': {
    perTokenMs: 0.08,
    perAttendedMs: 1.5e-6,
    perPassMs: 20,
    decode: { square: -46.332, linear: 97.218, base: 10.332 },
  },
  smg: {
    perTokenMs: 0.125,
    perAttendedMs: 0,
    perPassMs: 0,
    decode: { square: 0, linear: 21, base: 6 },
  },
};

/** The times of a name; null = every pass takes none. */
export function passTimes(name: TimingName): PassTimes | null {
  if (name === 'none') return null;
  if (name === 'default') {
    return {
      prefill: prefillMs,
      decode: ({ activeBlocks, totalBlocks }) => decodeMs(activeBlocks, totalBlocks),
    };
  }
  const { decode, perAttendedMs, perPassMs, perTokenMs } = PROFILES[name];
  return {
    prefill({ attended, totalIsl, totalPrefix }) {
      const tokens = totalIsl - totalPrefix;
      return tokens === 0 ? 0 : perTokenMs * tokens + perAttendedMs * attended + perPassMs;
    },
    decode({ contextTokens }) {
      const fill = Math.min(1, contextTokens / FULL_CONTEXT);
      return Math.max(1, decode.square * fill * fill + decode.linear * fill + decode.base);
    },
  };
}

/**
 * What an engine that has nothing else to do needs for a prompt of which nothing is cached.
 * @param budget tokens per pass.
 */
export function promptMs(name: TimingName, tokens: number, budget: number): number {
  const times = passTimes(name);
  if (times === null) return 0;
  let total = 0;
  for (let before = 0; before < tokens; before += budget) {
    const added = Math.min(budget, tokens - before);
    total += times.prefill({
      requests: 1,
      totalIsl: before + added,
      totalPrefix: before,
      attended: added * (before + added / 2),
    });
  }
  return total;
}

/**
 * Time of a batch's prompt work by the polynomial of the Dynamo mocker (lib/mocker, polynomial timing), fitted on a real GPU; means are
 * whole numbers, as in the source. 0 when there is none.
 */
export function prefillMs(batch: PrefillBatch): number {
  const { requests } = batch;
  if (requests === 0) return 0;
  const newTokens = Math.floor(batch.totalIsl / requests) - Math.floor(batch.totalPrefix / requests);
  if (newTokens <= 0) return 0;
  const tokens = requests * newTokens;
  return 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;
}

/**
 * Time of one decode step by the mocker's polynomial, at least 1 ms.
 * @param activeBlocks blocks held by requests.
 * @param totalBlocks pool size; null = unlimited, which counts as empty.
 */
export function decodeMs(activeBlocks: number, totalBlocks: number | null): number {
  const fill = totalBlocks === null ? 0 : Math.min(1, activeBlocks / totalBlocks);
  return Math.max(1, -25.74 * fill * fill + 54.01 * fill + 5.74);
}
