// A router that is killed and started again, with and without a snapshot of its prefix index.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import {
  complete,
  eventually,
  metric,
  metricReaches,
  promptOf,
  routerYaml,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-kept-'));
afterEach(stopAll);
afterAll(() => rmSync(folder, { recursive: true }));

const PROMPTS = Array.from({ length: 24 }, (_, seed) => promptOf(seed + 1, 20 * 16 + 5));
const TOKENS = PROMPTS.length * (20 * 16 + 5);

/** Percent of the prompts' tokens that engines found cached. One after the other: only what is known decides, not who is busy. */
async function hitRate(router: Serving): Promise<number> {
  let cached = 0;
  for (const prompt of PROMPTS) {
    cached += (await complete(router.url, prompt, {}, ',"model":"tiny"')).cachedTokens;
  }
  return (100 * cached) / TOKENS;
}

/** Percent of all prompts' tokens that engines found cached when the prompts come at once: who is busy decides as well. */
async function hitRateUnderLoad(router: Serving): Promise<number> {
  const answers = await Promise.all(PROMPTS.map((prompt) => complete(router.url, prompt, {}, ',"model":"tiny"')));
  return (100 * answers.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0)) / TOKENS;
}
it.each([1,2,3])('probe', async () => {
  const { engines } = await simulators(4);
  const first = await serve({ 'router.yaml': routerYaml(engines.map(({ url }) => ({ url })), '') });
  const out: string[] = [];
  for (let i = 0; i < 8; i += 1) out.push((await hitRateUnderLoad(first)).toFixed(1));
  console.log('concurrent', out.join(' '));
});
