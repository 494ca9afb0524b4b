// The public test kit (`pointsman/testing`).
export { ManualClock, seededRng } from '../plugin/index.ts';
export {
  type HintTrial,
  type HintTrialResult,
  type TrialBooking,
  type TrialCopySource,
  testHintPolicy,
} from './hint-trial.ts';
export {
  type SelectionTrial,
  type SelectionTrialNeeds,
  type SelectionTrialResult,
  type TrialCandidate,
  type TrialDecision,
  testWorkerSelection,
} from './selection-trial.ts';
