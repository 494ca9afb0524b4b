// Registers the built-in policies, and what they take from the `router` section.
import type { RouterSettings } from '../config/index.ts';
import {
  deviceAwareWeighted,
  direct,
  dynamoDefaultCostFn,
  dynamoTwoTierCostFn,
  kvcr,
  kvFetch,
  kvReleaseSession,
  kvRetainSession,
  leastLoaded,
  passThrough,
  pointsmanExpectedTime,
  pointsmanTunedCost,
  powerOfTwo,
  random,
  roundRobin,
} from '../policies/index.ts';
import { BUILT_IN_VERSION, type Origin, PolicyCatalog } from './catalog.ts';

/** The policy of a role that names none, and what the name `default` stands for; any router mode but `kv` is the type of a built-in. */
export const DEFAULT_POLICY = 'dynamo-default-cost-fn';

const BUILT_IN: Origin = { name: 'the built-in policies', version: BUILT_IN_VERSION };

/** A catalog holding the built-ins. */
export function builtinCatalog(router: RouterSettings): PolicyCatalog {
  const catalog = new PolicyCatalog();
  const weights = {
    overlap_score_credit: router.overlapScoreCredit,
    overlap_score_credit_decay: router.overlapScoreCreditDecay,
    prefill_load_scale: router.prefillLoadScale,
    decode_active_request_weight: router.decodeActiveRequestWeight,
    host_cache_hit_weight: router.hostCacheHitWeight,
    disk_cache_hit_weight: router.diskCacheHitWeight,
    router_temperature: router.routerTemperature,
  };
  catalog.add(dynamoDefaultCostFn, BUILT_IN, weights);
  catalog.add(kvcr, BUILT_IN, weights);
  const { encoderCudaToCpuRatio: encoder_cuda_to_cpu_ratio } = router;
  catalog.add(deviceAwareWeighted, BUILT_IN, { encoder_cuda_to_cpu_ratio });
  for (const definition of [
    dynamoTwoTierCostFn,
    roundRobin,
    random,
    powerOfTwo,
    leastLoaded,
    direct,
    pointsmanExpectedTime,
    pointsmanTunedCost,
    kvFetch,
    kvReleaseSession,
    kvRetainSession,
    passThrough,
  ]) {
    catalog.add(definition, BUILT_IN);
  }
  return catalog;
}

/** The types that plugins cannot take. */
export function builtinTypes(router: RouterSettings): readonly string[] {
  const { selections, hints, classifiers } = builtinCatalog(router);
  return [...selections.keys(), ...hints.keys(), ...classifiers.keys()];
}
