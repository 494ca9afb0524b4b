// The seed shared by all routers that hash as NVIDIA Dynamo's does.
import type { U64 } from './types.ts';

/** Seed of local hashes without adapter and cache salt, and of every chain step: 1337. */
export const ROUTER_SEED: U64 = { lo: 1337, hi: 0 };
