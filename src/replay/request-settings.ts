// What options may be that shape a replay of requests at their own times, and what is measured of it.
import { invalid, requireWhole } from './replay-settings.ts';
import type { ReplaySettings } from './types.ts';

/** Routers of one replay. */
const MAX_ROUTERS = 64;
/** Times the different blocks of the trace. */
const MAX_MEMORY = 1000;
const MAX_LOAD = 1000;

/** @throws PM_REPLAY_SETTINGS */
export function checkRequestSettings(settings: ReplaySettings): void {
  const { load, memory, nic_gbps: nicGbps, routers, skip, warm_up: warmUp } = settings;
  if (skip !== undefined) requireWhole('--skip', skip, 0, Number.MAX_SAFE_INTEGER);
  if (routers !== undefined) requireWhole('--routers', routers, 1, MAX_ROUTERS);
  if (memory !== undefined && !(memory > 0 && memory <= MAX_MEMORY)) {
    throw invalid(`--memory is ${memory}; it must be a number above 0, at most ${MAX_MEMORY}`);
  }
  if (warmUp !== undefined && !(warmUp >= 0 && warmUp < 1)) {
    throw invalid(`--warm-up is ${warmUp}; it must be a number from 0, below 1`);
  }
  if (nicGbps !== undefined && !(nicGbps > 0 && nicGbps <= 1e9)) {
    throw invalid(`--nic-gbps is ${nicGbps}; it must be a number above 0, at most 1000000000`);
  }
  if (load === undefined) return;
  if (!(load > 0 && load <= MAX_LOAD)) {
    throw invalid(`--load is ${load}; it must be a number above 0, at most ${MAX_LOAD}`);
  }
  if (settings.timing === 'none') {
    throw invalid('--load counts time of prompts, which take none under --timing none; take another timing');
  }
}
