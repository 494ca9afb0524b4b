// The prompts of the decision benchmark: each resident in three quarters of its length on one worker, its first tokens those of many.
import type { Rng } from '../src/plugin/index.ts';
import { BLOCK } from './bench-road.ts';

const TOKENS = 4096;
const BLOCKS = TOKENS / BLOCK;
const SHARED_TOKENS = 512;
const SYSTEM_PROMPTS = 8;

/** Tokens of a prompt, prompts, leading blocks of each that one worker has, and workers. */
export const DECISION = { tokens: TOKENS, prompts: 2605, resident: (BLOCKS * 3) / 4, workers: 32 };

/** Distinct prompts. */
export function makePrompts(rng: Rng): Uint32Array[] {
  const random = (count: number) => Uint32Array.from({ length: count }, () => rng.integer(150_000));
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => random(SHARED_TOKENS));
  return Array.from({ length: DECISION.prompts }, () => {
    const tokens = random(TOKENS);
    tokens.set(systems[rng.integer(SYSTEM_PROMPTS)]!);
    return tokens;
  });
}
