// Times of kinds of workers as decision records show them.
import type { WorkerTiming } from '../plugin/index.ts';
import type { TimingRecord } from './decision-record.ts';

/** What a policy saw of one kind. */
export function timingRecord(timing: WorkerTiming): TimingRecord {
  return {
    prefill: {
      token_ms: timing.prefillTokenMs,
      attention_ms: timing.prefillAttentionMs,
      pass_ms: timing.prefillPassMs,
      confidence: timing.prefillConfidence,
      observations: timing.prefillObservations,
      error: timing.prefillError,
    },
    decode: {
      ms: timing.decodeMs,
      fill_ms: timing.decodeFillMs,
      confidence: timing.decodeConfidence,
      observations: timing.decodeObservations,
      error: timing.decodeError,
    },
  };
}
