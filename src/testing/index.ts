// The public test kit (`pointsman/testing`). The declarations of what is exported import only those of the contract, so that they
// can be copied into an author's folder.
export { ManualClock, seededRng } from '../plugin/index.ts';
export {
  type ClassifierCheck,
  type ClassifierFault,
  type ClassifierProperty,
  checkClassifier,
} from './classifier-properties.ts';
export {
  type ClassifierTrial,
  type ClassifierTrialOptions,
  type TrialClassifyRequest,
  type TrialedRequest,
  type TrialState,
  testClassifier,
} from './classifier-trial.ts';
export {
  type ConversationTraceOptions,
  conversationTrace,
  type TraceRequest,
  type TraceSession,
} from './conversation-trace.ts';
export { checkHintPolicy, type HintCheck, type HintProperty } from './hint-properties.ts';
export {
  type HintTrial,
  type HintTrialResult,
  type OpenHintPolicy,
  openHintPolicy,
  type TrialBooking,
  type TrialCopySource,
  testHintPolicy,
} from './hint-trial.ts';
export type { PropertyFault } from './properties.ts';
export { checkWorkerSelection, type SelectionCheck, type SelectionProperty } from './selection-properties.ts';
export {
  type SelectionTrial,
  type SelectionTrialNeeds,
  type SelectionTrialResult,
  type TrialCandidate,
  type TrialDecision,
  type TrialSelectionRequest,
  testWorkerSelection,
} from './selection-trial.ts';
export {
  replayTrial,
  type TracedAction,
  type TracedDecision,
  type TraceTrial,
  type TraceTrialResult,
  type TrialPolicy,
} from './trace-trial.ts';
export type { TrialSession } from './trial-session.ts';
