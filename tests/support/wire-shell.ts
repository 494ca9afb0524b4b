// Leads the wire shell through the moments of a virtual run. HTTP, ZeroMQ events and the control channel between engines are the
// real ones, but engines and router read a clock that stands still until everything that belongs to a moment has arrived. So the
// network costs no time, and nothing depends on how fast the machine is.
import { composeRouter } from '../../src/cli/compose-router.ts';
import { EventSubscriptions } from '../../src/cli/event-subscriptions.ts';
import { loadConfig, type RouterConfig } from '../../src/config/index.ts';
import { createHttpTransport, DIALECTS } from '../../src/engines/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import { NO_METRICS } from '../../src/observe/index.ts';
import { type Logger, NO_LOG } from '../../src/plugin/index.ts';
import { type SimulatorAddress, startSimulators } from '../../src/simulator/index.ts';
import { type HeardRequest, SHELL_MODEL, ShellDoor } from './shell-door.ts';
import type { ShellMoment, ShellSetup, ShellState } from './virtual-shell.ts';
import { WatchedTime } from './watched-time.ts';

/** A shell's times pass through other additions, so the last bits may differ; ms. */
const ROUNDING_MS = 1e-6;
const SAME_MS = 1e-4;

/** How long a moment may take to arrive before the run counts as another one, real ms. */
const PATIENCE_MS = 20_000;

/** Runs the workload; rejects at the first moment that the wire shell does not reach. */
export async function runWireShell(
  setup: ShellSetup,
  moments: readonly ShellMoment[],
): Promise<readonly HeardRequest[]> {
  const { workers, engine, policy, seed, workload } = setup;
  const time = new WatchedTime();
  const simulators = await startSimulators({
    count: workers,
    settings: engine,
    hasher: createBlockHasher(),
    clock: time,
  });
  const transport = createHttpTransport({ dialects: DIALECTS, metrics: NO_METRICS });
  const loaded = loadConfig(policy);
  const router = await composeRouter({
    config: await withWorkers(loaded.config, engine.blockSize, simulators.engines),
    source: loaded.source,
    clock: time,
    seed,
    transportFor: () => transport,
    metrics: NO_METRICS,
    log: SILENT_OR_WRONG,
  });
  const { events, decisions } = router;
  if (events === null || decisions === null) throw new Error('the policy needs an index and a record');
  const subscriptions = new EventSubscriptions({
    fleet: router.fleet,
    sink: events,
    clock: time,
    log: SILENT_OR_WRONG,
  });
  try {
    subscriptions.start();
    await until(() => subscriptions.status().every(({ connected }) => connected));
    const door = new ShellDoor(router.road, decisions, time);
    const slots = simulators.engines.map((_, index) => router.fleet.slotOf(BigInt(index + 1), 0));
    const state = async (asksLoad: boolean, expected: ShellState): Promise<ShellState> => ({
      heads: door.heads,
      tokens: door.tokens,
      ended: door.ended,
      batches: slots.map((slot) => events.feed(slot)?.batches ?? 0),
      load: asksLoad ? await loads(simulators.engines) : expected.load,
      wakeUps: rounded(time.wakeUps(), expected.wakeUps),
    });
    for (const { at, arrivals, state: expected } of moments) {
      const now = arrivals.length > 0 ? at : at + ROUNDING_MS;
      time.runUntil(now);
      for (const index of arrivals) door.arrive(index, workload[index]!);
      await until(
        async () => {
          time.runUntil(now);
          return same(await state(arrivals.length > 0, expected), expected);
        },
        async () => `at ${at} ms: ${text(await state(true, expected))} instead of ${text(expected)}`,
      );
    }
    return door.settled();
  } finally {
    subscriptions.close();
    transport.close();
    await router.close();
    await simulators.close(0);
  }
}

/** A warning is a fault here: the two routers are configured alike and nothing goes wrong, though an engine may refuse a hint. */
const SILENT_OR_WRONG: Logger = {
  ...NO_LOG,
  warn: (message) => {
    if (message === 'an engine rejects an action of a hint policy') return;
    throw new Error(message);
  },
  error: (message) => {
    throw new Error(message);
  },
};

/** The policy's configuration over the engines, as they advertise themselves. */
async function withWorkers(
  config: RouterConfig,
  blockSize: number,
  engines: readonly SimulatorAddress[],
): Promise<RouterConfig> {
  const workers = engines.map(async ({ url }, index) => ({
    id: BigInt(index + 1),
    model: SHELL_MODEL,
    url,
    dialect: 'sim',
    role: 'aggregated' as const,
    ranks: { first: 0, count: 1 },
    kvEvents: {},
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
    device: null,
    adapters: [],
    capabilities: (await json(`${url}/kv_hints/capabilities`)) as Record<string, unknown>,
    path: [],
  }));
  const model = {
    name: SHELL_MODEL,
    servedAs: SHELL_MODEL,
    aliases: [],
    blockSize,
    tokens: { source: 'estimate' as const },
    routingGroup: 'default',
  };
  return {
    ...config,
    // Where a request may be tried again, heads are held back; here they are timed.
    limits: { ...config.limits, retries: 0 },
    models: new Map([[SHELL_MODEL, model]]),
    workers: await Promise.all(workers),
  };
}

function loads(engines: readonly SimulatorAddress[]): Promise<number[]> {
  return Promise.all(
    engines.map(async ({ url }) => ((await json(`${url}/load`)) as { server_load: number }).server_load),
  );
}

async function json(url: string): Promise<unknown> {
  return (await fetch(url)).json();
}

/** Expected times where the found ones equal them but for rounding. */
function rounded(found: readonly number[], expected: readonly number[]): number[] {
  return found.map((at, index) => {
    const wanted = expected[index];
    return wanted !== undefined && Math.abs(at - wanted) < SAME_MS ? wanted : at;
  });
}

function same(found: ShellState, expected: ShellState): boolean {
  return text(found) === text(expected);
}

function text({ heads, tokens, ended, batches, load, wakeUps }: ShellState): string {
  return JSON.stringify({ heads, tokens, ended, batches, load, wakeUps });
}

async function until(
  condition: () => boolean | Promise<boolean>,
  problem: () => Promise<string> = async () => 'the event streams do not connect',
): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(await problem());
    await new Promise((resolve) => setImmediate(resolve));
  }
}
