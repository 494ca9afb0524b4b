// A router that is killed and started again, with and without a snapshot of its prefix index.
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { caughtUp } from './support/event-streams.ts';
import {
  complete,
  decisionOf,
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

const TOKENS = 20 * 16 + 5;
const WORKERS = 4;
const CLIENTS = 12;
/** The engines' first prompts, and those that came later. */
const PROMPTS = Array.from({ length: 96 }, (_, seed) => promptOf(seed + 1, TOKENS));
const LATER = Array.from({ length: 32 }, (_, seed) => promptOf(seed + 1001, TOKENS));

/**
 * Router of these engines. Prefill outweighs whatever runs: else prompts that come at once are spread over workers that do not hold
 * them, and how many hit would tell how busy the moment was instead of what is known.
 */
function yamlOf(engines: readonly { readonly url: string }[], snapshot: string): string {
  const workers = engines.map(({ url }) => ({ url }));
  return routerYaml(workers, snapshot).replace('router: { ', 'router: { prefill_load_scale: 100, ');
}

const ask = (router: Serving, prompt: readonly number[]) =>
  complete(router.url, prompt, {}, ',"model":"tiny"');

/** Percent of the prompts' tokens that engines found cached, asked for by clients at once. */
async function hitRate(router: Serving, prompts: readonly number[][]): Promise<number> {
  const left = prompts.values();
  const clients = Array.from({ length: CLIENTS }, async () => {
    let cached = 0;
    for (const prompt of left) cached += (await ask(router, prompt)).cachedTokens;
    return cached;
  });
  const cached = (await Promise.all(clients)).reduce((sum, tokens) => sum + tokens, 0);
  return (100 * cached) / (prompts.length * TOKENS);
}

/** Clients that ask on and on, a new prompt every other time, until the router is killed under them. */
async function killedUnderLoad(router: Serving): Promise<void> {
  let asked = 0;
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let seed = 10_000 * (client + 1); ; seed += 1) {
      const answer = await ask(
        router,
        seed % 2 === 0 ? promptOf(seed, TOKENS) : (PROMPTS[seed % 96] ?? []),
      ).catch(() => null);
      if (answer === null) return;
      asked += 1;
    }
  });
  await eventually('the load is on', async () => (asked > 3 * CLIENTS ? true : undefined));
  process.kill(router.pid, 'SIGKILL');
  await Promise.all(clients);
  expect(await router.ended).toBe('SIGKILL');
}

/** That it finds what it found before, because it knows where it is, not by chance. */
async function routesAsBefore(router: Serving, before: number): Promise<void> {
  const predicted = 'pointsman_predicted_cached_tokens_total{model="tiny"}';
  const known = await metric(router.admin, predicted);
  const all = [...PROMPTS, ...LATER];
  expect(await hitRate(router, all)).toBeGreaterThanOrEqual(before - 2);
  const share = ((await metric(router.admin, predicted)) - known) / (all.length * TOKENS);
  expect(100 * share).toBeGreaterThanOrEqual(before - 2);
}

/** The hit rate once everything is cached and known. */
async function warmHitRate(router: Serving): Promise<number> {
  return eventually('all prompts are known', async () => {
    const rate = await hitRate(router, [...PROMPTS, ...LATER]);
    return rate > 95 ? rate : undefined;
  });
}

it('killed under load, it routes as before with its snapshot and what engines repeat of the time since', async () => {
  const { engines } = await simulators(WORKERS);
  const path = join(folder, 'index.snapshot');
  const yaml = yamlOf(engines, `snapshot: { path: "${path}", every: 1s }`);
  const first = await serve({ 'router.yaml': yaml });
  await hitRate(first, PROMPTS);
  await metricReaches(first.admin, 'pointsman_snapshot_rows', 20 * PROMPTS.length);
  copyFileSync(path, `${path}.early`);
  await hitRate(first, LATER);
  const before = await warmHitRate(first);
  await killedUnderLoad(first);
  // As if it had died before it could write another one.
  copyFileSync(`${path}.early`, path);

  const second = await serve({ 'router.yaml': yaml });
  expect(await metric(second.admin, 'pointsman_snapshot_restores_total{result="restored"}')).toBe(1);
  expect(await metric(second.admin, 'pointsman_snapshot_owners_total{result="restored"}')).toBe(WORKERS);
  for (const { stream } of await caughtUp(second)) {
    expect(stream.missed_batches).toBe(0);
    expect(stream.replayed_batches).toBeGreaterThan(0);
  }
  await routesAsBefore(second, before);
});

it('killed under load without a snapshot, it routes as before with what engines repeat', async () => {
  const { engines } = await simulators(WORKERS);
  const yaml = yamlOf(engines, '');
  const first = await serve({ 'router.yaml': yaml });
  await hitRate(first, [...PROMPTS, ...LATER]);
  const before = await warmHitRate(first);
  await killedUnderLoad(first);

  const second = await serve({ 'router.yaml': yaml });
  let repeated = 0;
  for (const { stream } of await caughtUp(second)) {
    expect(stream.missed_batches).toBe(0);
    repeated += stream.replayed_batches;
  }
  expect(repeated).toBeGreaterThanOrEqual(PROMPTS.length + LATER.length);
  // What it predicts of a worker is what its engine reports, for every prompt.
  for (const prompt of LATER) {
    const answer = await ask(second, prompt);
    const { prediction } = await decisionOf(second, answer.requestId);
    expect([prediction?.cached_tokens, answer.cachedTokens]).toEqual([320, 320]);
  }
  await routesAsBefore(second, before);
});

it('stopped in order it leaves a snapshot; engines that restarted since are left out of it', async () => {
  const path = join(folder, 'stopped.snapshot');
  const { engines, kill } = await simulators(2);
  const yaml = yamlOf(engines, `snapshot: { path: "${path}", every: 1h }`);
  const first = await serve({ 'router.yaml': yaml });
  await hitRate(first, PROMPTS);
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
  const yaml = yamlOf(engines, 'snapshot: { path: ./router.yaml }');
  const router = await serve({ 'router.yaml': `${yaml}\n# so it is not overwritten before it was read\n` });
  expect(router.log()).toContain(
    'the snapshot of the prefix index cannot be used: it does not begin as a snapshot does',
  );
  expect((await ask(router, PROMPTS[0] ?? [])).worker).toBe('1:0');
});
