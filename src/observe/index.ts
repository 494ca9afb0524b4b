// Decision records, explain, metrics.
export type {
  CandidateRecord,
  CostTerms,
  DecisionReader,
  DecisionRecord,
  IneligibleReason,
  ReleaseReason,
  SentHintRecord,
} from './decision-record.ts';
