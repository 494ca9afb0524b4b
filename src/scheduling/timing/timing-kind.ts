// The two fits of one kind of worker.
import type { StatedKind } from '../../config/index.ts';
import { DECODE_BEND, type Role, type WorkerTiming } from '../../plugin/index.ts';
import type { BusyPeriod } from '../request-phases.ts';
import { RobustFit } from './robust-fit.ts';

/** What tells a kind apart. */
export type KindLabels = {
  readonly model: string;
  readonly role: Role;
  readonly engine: string;
  /** Empty = not said. */
  readonly device: string;
};

/** Prompt tokens that count as a full KV pool. */
const KV_REFERENCE_TOKENS = 1_048_576;

/**
 * Twice the polynomials of the Dynamo mocker for an 8B model, in ms: per prompt token, per pair, per prompt; per output token, and that as
 * the pool fills. Too slow is better than too fast: see README.md of pointsman-expected-time.
 */
const START_PREFILL = [2 * 1.518344e-2, 2 * 8.419978e-7, 2 * 16.50142] as const;
const START_DECODE = [2 * 5.74, 2 * 54.01] as const;

/** One kind. */
export class TimingKind {
  readonly labels: KindLabels;
  readonly prefill: RobustFit;
  readonly decode: RobustFit;
  /** What an operator states of it; null = nothing. */
  readonly stated: StatedKind | null;

  constructor(labels: KindLabels, stated: StatedKind | null = null) {
    this.labels = labels;
    this.stated = stated;
    this.prefill = new RobustFit([
      stated?.prefillTokenMs ?? START_PREFILL[0],
      stated?.prefillAttentionMs ?? START_PREFILL[1],
      stated?.prefillPassMs ?? START_PREFILL[2],
    ]);
    this.decode = new RobustFit([
      stated?.decodeMs ?? START_DECODE[0],
      stated?.decodeFillMs ?? START_DECODE[1],
    ]);
  }

  /** Prompts were computed without a pause. @returns whether that was learnt from. */
  prefilled({ attention, ms, prompts, tokens }: BusyPeriod): boolean {
    return this.stated?.fixed !== true && this.prefill.observe([tokens, attention, prompts], ms);
  }

  /** Output tokens came `itlMs` apart, with so many prompt tokens booked. @returns whether that was learnt from. */
  decoded(itlMs: number, promptTokens: number): boolean {
    if (this.stated?.fixed === true) return false;
    const fill = Math.min(1, promptTokens / KV_REFERENCE_TOKENS);
    return this.decode.observe([1, fill * (1 - DECODE_BEND * fill)], itlMs);
  }

  /** What policies see of it now. */
  timing(): WorkerTiming {
    const { prefill, decode } = this;
    return Object.freeze({
      prefillTokenMs: prefill.coefficient(0),
      prefillAttentionMs: prefill.coefficient(1),
      prefillPassMs: prefill.coefficient(2),
      decodeMs: decode.coefficient(0),
      decodeFillMs: decode.coefficient(1),
      kvReferenceTokens: KV_REFERENCE_TOKENS,
      prefillConfidence: prefill.confidence,
      decodeConfidence: decode.confidence,
      prefillObservations: prefill.observations,
      decodeObservations: decode.observations,
      prefillError: prefill.error,
      decodeError: decode.error,
    });
  }
}
