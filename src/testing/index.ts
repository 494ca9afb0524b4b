// The public test kit (`pointsman/testing`).
export { ManualClock, seededRng } from '../plugin/index.ts';
