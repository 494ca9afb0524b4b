// Runs requests through a router composed over a virtual fleet and keeps every envelope that goes out, as the object that was sent:
// a plugin that still holds a part of it would change it.
import { replayRouters } from '../../src/cli/replay-router.ts';
import type { EngineTransport } from '../../src/engines/index.ts';
import { encodeEventBatch } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import type { DecisionRecord } from '../../src/observe/index.ts';
import type { KvHint, PointsmanError } from '../../src/plugin/index.ts';
import { DEFAULT_ENGINE_SETTINGS, VirtualFleet, VirtualTime } from '../../src/simulator/index.ts';
import { SHELL_MODEL, ShellDoor } from './shell-door.ts';
import type { ShellRequest } from './shell-workload.ts';

/** What a run brought about, in the order of the requests. */
export interface HostileRun {
  /** Envelopes of the dispatched requests. */
  readonly hints: readonly (KvHint | null)[];
  /** What each hint policy did. */
  readonly policies: NonNullable<DecisionRecord['hints']>['policies'];
  /** How each worker was chosen. */
  readonly chosenBy: readonly string[];
  readonly errors: readonly PointsmanError[];
  /** Time of the last arrival; ms. */
  readonly lastsMs: number;
}

const WORKERS = 4;

/** Runs a workload to its end under a policy file. */
export async function runBeside(setup: {
  readonly workload: readonly ShellRequest[];
  readonly policy: string;
  readonly seed: number;
}): Promise<HostileRun> {
  const time = new VirtualTime();
  const engine = {
    ...DEFAULT_ENGINE_SETTINGS,
    model: SHELL_MODEL,
    kvBlocks: 300,
    actions: ['kv.fetch@1.0', 'acme.good@1.0', 'acme.bad@1.0'],
  };
  const fleet = new VirtualFleet({
    time,
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    engines: Array.from({ length: WORKERS }, () => engine),
  });
  const hints: (KvHint | null)[] = [];
  const transport: EngineTransport = {
    dispatch(request, sink) {
      hints.push(request.hint);
      return fleet.dispatch(request, sink);
    },
    close: () => undefined,
  };
  const router = await replayRouters(
    (source, problem) => {
      throw new Error(source.render(problem));
    },
    // What hostile plugins do to the log is looked at elsewhere.
    () => undefined,
  )({
    choice: { kind: 'policy', file: setup.policy },
    seed: setup.seed,
    clock: time,
    transport,
    model: SHELL_MODEL,
    blockSize: engine.blockSize,
    workers: fleet.workers,
  });
  for (const { id } of fleet.workers) {
    const link = router.eventLink(id);
    if (link !== null) fleet.connectEvents(id, { owner: link.owner, sink: link.sink });
  }
  const door = new ShellDoor(router.road, router.decisions, time);
  for (const [index, request] of setup.workload.entries()) {
    time.plan(request.at, 'arrival', () => door.arrive(index, request));
  }
  while (time.nextAt() !== null) time.step();
  const heard = door.settled();
  await router.close();
  const decisions = heard.flatMap(({ decision }) => decision ?? []);
  return {
    hints,
    policies: decisions.flatMap((decision) => decision.hints?.policies ?? []),
    chosenBy: decisions.map(({ pick }) => pick.by),
    errors: heard.flatMap(({ error }) => error ?? []),
    lastsMs: setup.workload.at(-1)?.at ?? 0,
  };
}
