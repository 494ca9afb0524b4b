// Registers the built-in policies, and what they take from the `router` section.
import type { RouterMode, RouterSettings } from '../config/index.ts';
import { dynamoDefaultCostFn, kvcr, kvFetch, leastLoaded, random, roundRobin } from '../policies/index.ts';
import { BUILT_IN_VERSION, type Origin, PolicyCatalog } from './catalog.ts';

/** The policy of a role that names none, and what the name `default` stands for. */
export const DEFAULT_POLICY = 'dynamo-default-cost-fn';

/** Router modes that are a built-in policy of the same name. */
export const PLAIN_MODES: readonly RouterMode[] = ['round-robin', 'random', 'least-loaded'];

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
  for (const definition of [roundRobin, random, leastLoaded, kvFetch]) catalog.add(definition, BUILT_IN);
  return catalog;
}
