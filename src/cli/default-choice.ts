// Who decides where a role's own policy cannot: the default cost with the weights of the configuration.
import type { RouterConfig } from '../config/index.ts';
import { linearCost, seededRng } from '../plugin/index.ts';
import { DefaultChoice } from '../scheduling/index.ts';

/** @param seed of ties between candidates. */
export function defaultChoice(config: RouterConfig, seed: number): DefaultChoice {
  const { router } = config;
  const cost = linearCost({
    overlap_score_credit: router.overlapScoreCredit,
    overlap_score_credit_decay: router.overlapScoreCreditDecay,
    prefill_load_scale: router.prefillLoadScale,
    decode_active_request_weight: router.decodeActiveRequestWeight,
    host_cache_hit_weight: router.hostCacheHitWeight,
    disk_cache_hit_weight: router.diskCacheHitWeight,
    router_temperature: router.routerTemperature,
  });
  return new DefaultChoice(cost, seededRng(seed));
}
