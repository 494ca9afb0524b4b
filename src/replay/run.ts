// One run: a trace through one router onto a fleet of simulated engines, in virtual time.

import {
  DEFAULT_EVENT_HISTORY,
  type EngineRestart,
  type SimulatedEngineSettings,
  type SimulatedRole,
  VirtualFleet,
  type VirtualFleetOptions,
  VirtualTime,
} from '../simulator/index.ts';
import { ObservedTransport } from './observed-transport.ts';
import { type Arrivals, ReplayDoor } from './replay-door.ts';
import { REPLAY_MODEL, RequestDoor } from './request-door.ts';
import { RunCollector } from './run-collector.ts';
import { connectEvents, eventReport } from './run-events.ts';
import { SessionDoor } from './session-door.ts';
import type { SessionPlan } from './session-plan.ts';
import { SessionTally } from './session-tally.ts';
import type { Trace } from './trace.ts';
import type {
  ComposeReplayRouter,
  PolicyFault,
  ReplayRouter,
  RoutingChoice,
  RunReport,
  RunWall,
} from './types.ts';

/** Steps between two looks at the outside world (progress, interruption). */
const STEPS_PER_TURN = 4096;

/** What a run needs. */
export interface RunOptions {
  readonly name: string;
  readonly trace: Trace | SessionPlan;
  readonly choice: RoutingChoice;
  readonly workers: number;
  /** Role of each worker; absent = all serve whole requests. */
  readonly roles?: readonly SimulatedRole[];
  readonly engine: SimulatedEngineSettings;
  /** Divides the trace's arrival times, of sessions their starts and think times. */
  readonly speedup: number;
  readonly seed: number;
  /** Share of the requests, of those sent first, whose latencies are not counted. */
  readonly warmUp?: number;
  /** Routers that share nothing; absent = one. */
  readonly routers?: number;
  /** Hand events over decoded instead of as bytes. */
  readonly fastEvents: boolean;
  /** Deliver no events at all. */
  readonly cutEvents: boolean;
  /** What goes wrong with live event messages; null = nothing. */
  readonly eventFaults: VirtualFleetOptions['eventFaults'];
  readonly restarts: readonly EngineRestart[];
  /** Engines keep what they published and repeat it on demand. */
  readonly eventReplay: boolean;
  readonly compose: ComposeReplayRouter;
  readonly hasher: VirtualFleetOptions['hasher'];
  readonly encode: VirtualFleetOptions['encode'];
  /** The machine's clock in ms, for wall figures only. */
  readonly wallClock: () => number;
  readonly progress: (done: number, total: number) => void;
  readonly signal: AbortSignal;
}

/** A run that is ready to start: its router is composed, so that a wrong policy is known before anything runs. */
export interface PreparedRun {
  /** @throws PM_REPLAY_STUCK; the signal's reason when it is aborted. */
  run(): Promise<{ readonly report: RunReport; readonly wall: RunWall }>;
  /** The engines; they stay as the run left them until `close`. */
  readonly fleet: VirtualFleet;
  /** Frees router and fleet, whether it ran or not. */
  close(): Promise<void>;
}

/** Composes the router of a run over a fleet of its own. @throws whatever `compose` throws. */
export async function prepareRun(options: RunOptions): Promise<PreparedRun> {
  const time = new VirtualTime();
  const workload = workloadOf(options);
  const tally = workload.kind === 'sessions' ? workload.tally : null;
  const collector = new RunCollector(options.workers, options.engine.blockSize, {
    hostTier: options.engine.hostKvBlocks > 0,
    prefillTime: options.engine.timing !== 'default' && options.engine.timing !== 'none',
  });
  const fleet = new VirtualFleet({
    time,
    hasher: options.hasher,
    encode: options.encode,
    engines: Array.from({ length: options.workers }, (_, index) => ({
      ...options.engine,
      role: options.roles?.[index] ?? options.engine.role,
    })),
    eventFaults: options.eventFaults ?? null,
    eventFaultSeed: options.seed,
    restarts: options.restarts,
    eventHistory: options.eventReplay ? DEFAULT_EVENT_HISTORY : 0,
    watchEvents: (events) => {
      tally?.events(events);
      collector.events(events);
    },
  });
  const transport = new ObservedTransport(fleet, collector);
  const routers: ReplayRouter[] = [];
  for (let place = 0; place < (options.routers ?? 1); place += 1) {
    routers.push(
      await options.compose({
        choice: options.choice,
        seed: options.seed + place,
        clock: time,
        transport,
        model: REPLAY_MODEL,
        blockSize: options.engine.blockSize,
        workers: fleet.workers,
      }),
    );
  }
  connectEvents(options, fleet, routers);
  const warmUp = Math.floor((options.warmUp ?? 0) * options.trace.requests);
  const door = new RequestDoor(time, routers, collector, options.wallClock, warmUp);
  const arrivals = arrivalsOf(workload, options, time, door, collector);
  return {
    fleet,
    async run() {
      const startedAt = options.wallClock();
      await runToEnd(options, arrivals, collector, routers);
      return {
        report: {
          ...collector.report(
            options.name,
            options.trace.requests,
            (index) => fleet.engine(BigInt(index + 1)).stats(),
            allFaults(routers),
          ),
          ...(tally && { sessions: tally.report(collector.releases.blocks) }),
          ...(goesWrong(options) ? eventReport(options.workers, routers, collector) : {}),
        },
        wall: {
          name: options.name,
          run_ms: options.wallClock() - startedAt,
          decision_us: door.decisionMicros.summary(),
        },
      };
    },
    async close() {
      for (const router of routers) await router.close();
      fleet.close();
    },
  };
}

/** What a run makes happen. */
type Workload =
  | { readonly kind: 'requests'; readonly trace: Trace }
  | { readonly kind: 'sessions'; readonly plan: SessionPlan; readonly tally: SessionTally };

function workloadOf({ engine, trace }: RunOptions): Workload {
  if (trace.kind === 'requests') return { kind: 'requests', trace };
  return { kind: 'sessions', plan: trace, tally: new SessionTally(trace, engine.blockSize) };
}

function arrivalsOf(
  workload: Workload,
  options: RunOptions,
  time: VirtualTime,
  door: RequestDoor,
  collector: RunCollector,
): Arrivals {
  return workload.kind === 'requests'
    ? new ReplayDoor(options, workload.trace, time, door, collector)
    : new SessionDoor(options, workload.plan, time, door, collector, workload.tally);
}

async function runToEnd(
  options: RunOptions,
  arrivals: Arrivals,
  collector: RunCollector,
  routers: readonly ReplayRouter[],
): Promise<void> {
  const total = options.trace.requests;
  while (collector.ended < total) {
    for (let step = 0; step < STEPS_PER_TURN && collector.ended < total; step += 1) {
      arrivals.step();
      // A request classifier's promises come on at the moment of virtual time that let them.
      for (const { road } of routers) if (road.unsettled()) await promisesRan();
    }
    options.progress(collector.ended, total);
    await promisesRan();
    options.signal.throwIfAborted();
  }
}

/** Whatever promises can do without time going on is done. */
function promisesRan(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Whether events are lost, late or doubled, or engines die. */
function goesWrong({ eventFaults, restarts }: RunOptions): boolean {
  return (eventFaults ?? null) !== null || restarts.length > 0;
}

/** Those of several routers added up. */
function allFaults(routers: readonly ReplayRouter[]): readonly PolicyFault[] {
  const faults = new Map<string, PolicyFault>();
  for (const { count, ...fault } of routers.flatMap((router) => router.policyFaults())) {
    const key = JSON.stringify(fault);
    faults.set(key, { ...fault, count: (faults.get(key)?.count ?? 0) + count });
  }
  return [...faults.values()];
}
