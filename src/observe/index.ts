// Decision records, explain, metrics, readiness.
export type { DecisionColumns, DecisionExclusions, DecisionInput } from './decision-input.ts';
export {
  type AffinityRecord,
  type AgentHintsRecord,
  type BookingReader,
  type CandidateRecord,
  type CostTerms,
  type DecisionBooking,
  type DecisionFilter,
  type DecisionReader,
  type DecisionRecord,
  type HandoffRecord,
  type HintOutcome,
  type IneligibleReason,
  NO_DECISIONS,
  type ReleaseReason,
  type SentHintRecord,
} from './decision-record.ts';
export { type DecisionListener, DecisionRing, type DecisionRingOptions } from './decision-ring.ts';
export { renderDecision } from './explain.ts';
export type { MetricName, MetricRow } from './metric-table.ts';
export { type GaugeSample, type MetricLabels, type Metrics, NO_METRICS } from './metrics-port.ts';
export { createMetrics, type ScrapableMetrics } from './prometheus.ts';
export { type Readiness, readyAnswer } from './readiness.ts';
export { ReleasePace, retryAfterSeconds } from './release-pace.ts';
export { type DecisionEnd, recordedReason, type StoredDecision } from './stored-decision.ts';
export { type TextCell, textTable } from './text-table.ts';
