// The public test kit (`pointsman/testing`).
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
  type HintTrial,
  type HintTrialResult,
  type TrialBooking,
  type TrialCopySource,
  testHintPolicy,
} from './hint-trial.ts';
export {
  type SelectionTrial,
  type SelectionTrialResult,
  type TrialCandidate,
  type TrialDecision,
  testWorkerSelection,
} from './selection-trial.ts';
