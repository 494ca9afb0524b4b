// A bad event stream over real wires: engines in processes of their own that drop, double and overtake their event messages and evict
// all the while, one of them killed and started again. What is asked for again makes the index true; where nothing can be asked, it
// is said.
import { afterEach, expect, it } from 'vitest';
import { warningsOf, workersOf } from './support/event-streams.ts';
import {
  complete,
  completeOn,
  decisionOf,
  eventually,
  promptOf,
  routerYaml,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

const FAULTS = ['--event-faults', 'drop=0.3,duplicate=0.05,reorder=0.05'];
/** 20 full blocks and a rest that fills no further one. */
const TOKENS = 330;
const CACHED = 320;
/** Room for 20 such prompts. */
const POOL = ['--kv-blocks', '420'];
const PROMPTS = 30;
/** The last of them are held by every engine, the first by none. */
const HELD = 8;
const WORKERS = [1, 2, 3];

/** Serves once every stream stands. */
async function serveHeard(yaml: string): Promise<Serving> {
  const router = await serve({ 'router.yaml': yaml });
  await eventually('every event stream stands', async () =>
    (await warningsOf(router)).length === 0 ? true : undefined,
  );
  return router;
}

const prompt = (worker: number, nth: number) => promptOf(100 * worker + nth, TOKENS);

/** Prompts of a worker's own, more than it has room for. */
async function fill(router: Serving, worker: number, from: number, to: number): Promise<void> {
  for (let nth = from; nth < to; nth += 1) await completeOn(router, worker, prompt(worker, nth));
}

/** What is predicted for a prompt on a worker, and what its engine reports. */
async function predictedAndReported(router: Serving, worker: number, nth: number) {
  const { requestId } = await completeOn(router, worker, prompt(worker, nth));
  const { prediction, report } = await decisionOf(router, requestId);
  return [prediction?.cached_tokens, report?.cached_tokens];
}

it('with replay every worker comes to exact, and every prediction is what the engine reports', async () => {
  const [first, second, third] = await Promise.all(WORKERS.map(() => simulators(1, ...POOL, ...FAULTS)));
  const engines = [first, second, third].flatMap((spawned) => spawned?.engines ?? []);
  const router = await serveHeard(routerYaml(engines, ''));
  const before = (await workersOf(router))[1]?.epoch;
  expect(before).not.toBeNull();

  // The second engine dies with half of its prompts told, while the others serve on.
  const others = Promise.all([1, 3].map((worker) => fill(router, worker, 0, PROMPTS)));
  await fill(router, 2, 0, PROMPTS / 2);
  second?.kill();
  await second?.exited;
  await simulators(1, ...POOL, ...FAULTS, '--port', new URL(engines[1]?.url ?? '').port);
  await eventually('the second worker is known anew', async () => {
    const worker = (await workersOf(router))[1];
    return worker?.state === 'ready' && worker.epoch !== before ? true : undefined;
  });
  await fill(router, 2, 0, PROMPTS);
  await others;

  // The last messages of an engine may be lost without a trace until it says more: so every round begins with a new prompt.
  let seed = 10_000;
  await eventually('every prediction is what the engine reports', async () => {
    for (const worker of WORKERS) await completeOn(router, worker, promptOf(seed++, 33));
    for (const { stream } of await workersOf(router)) if (stream.state !== 'exact') return undefined;
    for (const worker of WORKERS) {
      for (let nth = PROMPTS - HELD; nth < PROMPTS; nth += 1) {
        const [predicted, reported] = await predictedAndReported(router, worker, nth);
        expect(reported).toBe(CACHED);
        if (predicted !== reported) return undefined;
      }
    }
    return true;
  });
  // What they evicted is known as well: removals were lost as often as stores.
  for (const worker of WORKERS) expect(await predictedAndReported(router, worker, 0)).toEqual([0, 0]);

  for (const { stream } of await workersOf(router)) {
    expect(stream.missed_batches).toBe(0);
    expect(stream.replayed_batches).toBeGreaterThan(0);
  }
  expect((await warningsOf(router)).filter((line) => line.includes('KV events'))).toEqual([]);
});

it('without replay it says which workers are stale, in /workers, /ready and in the decision', async () => {
  const forgetful = await simulators(1, ...POOL, ...FAULTS, '--event-history', '0');
  const unasked = await simulators(1, ...POOL, ...FAULTS);
  const [one, two] = [forgetful.engines[0], unasked.engines[0]];
  if (one === undefined || two === undefined) throw new Error('no engines');
  // The second engine repeats what it is asked for, but nobody named where.
  const router = await serveHeard(routerYaml([one, { url: two.url, kvEvents: two.kv_events }], ''));
  await Promise.all([1, 2].map((worker) => fill(router, worker, 0, PROMPTS)));
  const workers = await eventually('both workers are stale', async () => {
    const said = await workersOf(router);
    return said.every(({ stream }) => stream.state === 'stale') ? said : undefined;
  });
  for (const { stream } of workers) {
    expect(stream).toMatchObject({ replay_endpoint: null, replayed_batches: 0 });
    expect(stream.missed_batches).toBeGreaterThan(0);
  }
  const warnings = await warningsOf(router);
  for (const worker of [1, 2]) {
    expect(warnings).toContainEqual(
      expect.stringMatching(
        new RegExp(
          `^[0-9]+ batches of KV events of worker ${worker} rank 0 were missed: what it has cached is not fully known; name its replay endpoint under kv_events, so that it is asked for them$`,
        ),
      ),
    );
  }
  const { requestId } = await complete(router.url, prompt(1, PROMPTS - 1), {}, ',"model":"tiny"');
  const { index } = await decisionOf(router, requestId);
  expect(index?.stale_workers).toEqual([1, 2]);
});
