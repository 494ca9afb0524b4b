// Times of kinds of workers, and of copies between them, as decision records show them.
import type { MeasuredLink, WorkerTiming } from '../plugin/index.ts';
import type { DecisionInput } from './decision-input.ts';
import type { CopyLinkRecord, DecisionRecord, TimingRecord } from './decision-record.ts';

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

/** What a cost saw of copies; nothing where it counts on none. */
export function copyLinkRecord({
  copyLink = null,
  timeCost,
}: Pick<DecisionInput, 'copyLink' | 'timeCost'>): Pick<DecisionRecord, 'copy_link'> {
  return timeCost?.peerCopies === true ? { copy_link: copyLink && linkRecord(copyLink) } : {};
}

function linkRecord({ blockMs, confidence, latencyMs }: MeasuredLink): CopyLinkRecord {
  return { latency_ms: latencyMs, block_ms: blockMs, confidence };
}
