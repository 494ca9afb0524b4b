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

it('killed under load and started with its snapshot, it routes within two points of before', async () => {
  const { engines } = await simulators(4);
  const path = join(folder, 'index.snapshot');
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    `snapshot: { path: "${path}", every: 1s }`,
  );
  const first = await serve({ 'router.yaml': yaml });
  await hitRate(first);
  const blocks = 20 * PROMPTS.length;
  await metricReaches(first.admin, 'pointsman_snapshot_rows', blocks);
  const before = await hitRate(first);
  expect(before).toBeGreaterThan(90);
  const load = PROMPTS.map((prompt) => complete(first.url, prompt, {}, ',"model":"tiny"').catch(() => null));
  process.kill(first.pid, 'SIGKILL');
  await Promise.all(load);
  expect(await first.ended).toBe('SIGKILL');

  const second = await serve({ 'router.yaml': yaml });
  expect(await metric(second.admin, 'pointsman_snapshot_restores_total{result="restored"}')).toBe(1);
  expect(await metric(second.admin, 'pointsman_snapshot_owners_total{result="restored"}')).toBe(4);
  expect(await hitRate(second)).toBeGreaterThanOrEqual(before - 2);
  // It found them because it knew, not by chance.
  expect(
    await metric(second.admin, 'pointsman_predicted_cached_tokens_total{model="tiny"}'),
  ).toBeGreaterThanOrEqual(((before - 2) / 100) * TOKENS);
});

it('stopped in order it leaves a snapshot; engines that restarted since are left out of it', async () => {
  const path = join(folder, 'stopped.snapshot');
  const { engines, kill } = await simulators(2);
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    `snapshot: { path: "${path}", every: 1h }`,
  );
  const first = await serve({ 'router.yaml': yaml });
  await hitRate(first);
  await metricReaches(first.admin, 'pointsman_kv_events_total{kind="stored"}', PROMPTS.length);
  expect(existsSync(path)).toBe(false);
  process.kill(first.pid, 'SIGTERM');
  expect(await first.ended).toBeNull();
  expect(existsSync(path)).toBe(true);
  kill();
  const ports = engines.map(({ url }) => new URL(url).port);
  const [port = '0'] = ports.toSorted((a, b) => Number(a) - Number(b));
  await simulators(1, '--port', port);
  const second = await serve({ 'router.yaml': yaml });
  await eventually('the epochs are compared', async () =>
    (await metric(second.admin, 'pointsman_snapshot_owners_total{result="epoch"}')) > 0 ? true : undefined,
  );
});

it('a file that is no snapshot is said in the log, and the router serves', async () => {
  const { engines } = await simulators(1);
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    'snapshot: { path: ./router.yaml }',
  );
  const router = await serve({ 'router.yaml': `${yaml}\n# so it is not overwritten before it was read\n` });
  expect(router.log()).toContain(
    'the snapshot of the prefix index cannot be used: it does not begin as a snapshot does',
  );
  expect((await complete(router.url, PROMPTS[0] ?? [], {}, ',"model":"tiny"')).worker).toBe('1:0');
});
