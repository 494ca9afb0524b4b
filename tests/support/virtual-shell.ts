// Runs a workload through the virtual shell and notes the run moment by moment.
import { replayRouters } from '../../src/cli/replay-router.ts';
import { encodeEventBatch } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import { type SimulatedEngineSettings, VirtualFleet } from '../../src/simulator/index.ts';
import { type HeardRequest, SHELL_MODEL, ShellDoor } from './shell-door.ts';
import type { ShellRequest } from './shell-workload.ts';
import { WatchedTime } from './watched-time.ts';

/** What both shells are built from. */
export interface ShellSetup {
  readonly workload: readonly ShellRequest[];
  readonly workers: number;
  readonly engine: SimulatedEngineSettings;
  /** A policy file. */
  readonly policy: string;
  readonly seed: number;
}

/** Where a run stands. */
export interface ShellState {
  readonly heads: number;
  readonly tokens: number;
  readonly ended: number;
  /** KV event batches published, or applied, per worker. */
  readonly batches: readonly number[];
  /** Requests in each engine. */
  readonly load: readonly number[];
  /** When engines wake up next, ascending; ms. */
  readonly wakeUps: readonly number[];
}

/** Something happened at `at`: requests came, or engines woke up. Afterwards the run stood at `state`. */
export interface ShellMoment {
  readonly at: number;
  readonly arrivals: readonly number[];
  readonly state: ShellState;
}

/** A whole run. */
export interface ShellRun {
  readonly heard: readonly HeardRequest[];
  readonly moments: readonly ShellMoment[];
}

/** Runs the workload to its end. */
export async function runVirtualShell(setup: ShellSetup): Promise<ShellRun> {
  const { workload, workers, engine, policy, seed } = setup;
  const time = new WatchedTime();
  const fleet = new VirtualFleet({
    time,
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    engines: Array.from({ length: workers }, () => engine),
  });
  const router = await replayRouters(
    (source, problem) => {
      throw new Error(source.render(problem));
    },
    (run, line) => {
      throw new Error(`${run}: ${line}`);
    },
  )({
    choice: { kind: 'policy', file: policy },
    seed,
    clock: time,
    transport: fleet,
    model: SHELL_MODEL,
    blockSize: engine.blockSize,
    workers: fleet.workers,
  });
  for (const { id } of fleet.workers) {
    const link = router.eventLink(id);
    if (link !== null) fleet.connectEvents(id, { owner: link.owner, sink: link.sink });
  }
  const door = new ShellDoor(router.road, router.decisions, time);
  let arrivals: number[] = [];
  for (const [index, request] of workload.entries()) {
    time.plan(request.at, 'arrival', () => {
      arrivals.push(index);
      door.arrive(index, request);
    });
  }
  const moments: ShellMoment[] = [];
  for (let at = time.nextAt(); at !== null; at = time.nextAt()) {
    while (time.nextAt() === at) time.step();
    const engines = fleet.workers.map(({ id }) => fleet.engine(id));
    const { heads, tokens, ended } = door;
    moments.push({
      at,
      arrivals,
      state: {
        heads,
        tokens,
        ended,
        batches: engines.map(({ events }) => events.batches),
        load: engines.map((one) => {
          const { running, waiting, parked } = one.stats();
          return running + waiting + parked;
        }),
        wakeUps: time.wakeUps(),
      },
    });
    arrivals = [];
  }
  const heard = door.settled();
  await router.close();
  return { heard, moments };
}
