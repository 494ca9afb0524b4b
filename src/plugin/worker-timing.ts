// How long workers of one kind take, as the host has learnt it from their answers.

/**
 * Coefficients of two times, in ms. Computing n prompt tokens after c cached ones takes about
 * `prefillPassMs` + n × (`prefillTokenMs` + `prefillAttentionMs` × (c + n / 2)); one output token, with a share x (0 to 1) of
 * `kvReferenceTokens` prompt tokens booked, takes about `decodeMs` + `decodeFillMs` × x × (1 − {@link DECODE_BEND} × x).
 */
export interface WorkerTiming {
  /** Per prompt token to compute. */
  readonly prefillTokenMs: number;
  /** Per pair of prompt tokens, one looking at the other. */
  readonly prefillAttentionMs: number;
  /** Per prompt, whatever its length. */
  readonly prefillPassMs: number;
  /** Per output token on an idle worker. */
  readonly decodeMs: number;
  readonly decodeFillMs: number;
  readonly kvReferenceTokens: number;
  /** 0 = as it started, nothing learnt or all given; towards 1 the more prompts were seen and the better they fit. */
  readonly prefillConfidence: number;
  /** The same of output tokens. */
  readonly decodeConfidence: number;
  /** Observations that the times of prompts rest on, older ones counting less; 0 = none. */
  readonly prefillObservations: number;
  /** The same of output tokens. */
  readonly decodeObservations: number;
  /** Mean |ln(observed / expected)| of late observations of prompts. */
  readonly prefillError: number;
  /** The same of output tokens. */
  readonly decodeError: number;
}

/** How the time of an output token bends as the KV pool fills: the quadratic of the Dynamo mocker over its slope, 25.74 / 54.01. */
export const DECODE_BEND: number = 25.74 / 54.01;

/** The times of all kinds of workers among the candidates. */
export interface TimingColumns {
  /** At least one; the same for all candidates in most fleets. */
  readonly kinds: readonly WorkerTiming[];
  /** Index into `kinds`, per row. */
  readonly kind: ArrayLike<number>;
}
