// Built-in policies, for the host to register.
export { deviceAwareWeighted } from './device-aware-weighted/policy.ts';
export { direct } from './direct/policy.ts';
export { dynamoDefaultCostFn } from './dynamo-default-cost-fn/policy.ts';
export { dynamoTwoTierCostFn } from './dynamo-two-tier-cost-fn/policy.ts';
export { kvFetch } from './kv-fetch/policy.ts';
export { kvReleaseSession } from './kv-release-session/policy.ts';
export { kvRetainSession } from './kv-retain-session/policy.ts';
export { kvcr } from './kvcr/policy.ts';
export { leastLoaded } from './least-loaded/policy.ts';
export { passThrough } from './pass-through/policy.ts';
export { pointsmanExpectedTime } from './pointsman-expected-time/policy.ts';
export { pointsmanTunedCost } from './pointsman-tuned-cost/policy.ts';
export { powerOfTwo } from './power-of-two/policy.ts';
export { random } from './random/policy.ts';
export { roundRobin } from './round-robin/policy.ts';
