// A whole router over simulated engines in virtual time, and clients of several classes that send more than the engines can take.
import type { ComposedRouter } from '../../src/cli/compose-router.ts';
import { composeReplayRouter } from '../../src/cli/replay-router.ts';
import { parseConfig } from '../../src/config/index.ts';
import { encodeEventBatch } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import { type PointsmanError, seededRng } from '../../src/plugin/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  type SimulatedEngineSettings,
  VirtualFleet,
} from '../../src/simulator/index.ts';
import { givenRequest } from './road-request.ts';
import { WatchedTime } from './watched-time.ts';

const MODEL = 'tiny';
/** Once a second the sizes of everything that could grow are taken down. */
const SAMPLE_MS = 1000;

/** Clients of one class. */
export interface Clients {
  readonly policyClass: string;
  /** Mean pause between two requests, ms. */
  readonly pauseMs: number;
  /** Prompt tokens, from and to. */
  readonly tokens: readonly [number, number];
}

/** What is run. */
export interface OverloadSetup {
  readonly yaml: string;
  readonly workers: number;
  readonly engine: Partial<SimulatedEngineSettings>;
  readonly clients: readonly Clients[];
  readonly durationMs: number;
  readonly outputTokens: number;
  readonly seed: number;
}

/** One request as its client saw it; times in ms, −1 = never. */
export interface Sent {
  readonly policyClass: string;
  readonly tokens: number;
  readonly sentAt: number;
  bookedAt: number;
  endedAt: number;
  error: PointsmanError | null;
}

/** What of a class waits, from this moment on. */
export interface Waiting {
  readonly at: number;
  readonly policyClass: string;
  readonly requests: number;
  readonly tokens: number;
}

/** Sizes at one moment. */
export interface Sizes {
  readonly at: number;
  readonly waiting: number;
  readonly bookings: number;
  /** Runs in the tree of active prompts. */
  readonly prefixRuns: number;
  /** Timers of router and engines. */
  readonly timers: number;
}

/** What came of it. */
export interface OverloadRun {
  readonly sent: readonly Sent[];
  readonly waiting: readonly Waiting[];
  /** One per second while requests are sent. */
  readonly sizes: readonly Sizes[];
  /** Once everything is over. */
  readonly atTheEnd: Omit<Sizes, 'at'>;
}

/** Sends for so long, then lets everything that is under way end. */
export async function overload(setup: OverloadSetup): Promise<OverloadRun> {
  const time = new WatchedTime();
  const hasher = createBlockHasher();
  const settings = { ...DEFAULT_ENGINE_SETTINGS, ...setup.engine };
  const fleet = new VirtualFleet({
    time,
    hasher,
    encode: encodeEventBatch,
    engines: Array.from({ length: setup.workers }, () => settings),
  });
  const loaded = parseConfig(setup.yaml, 'policy.yaml');
  const cores: ComposedRouter[] = [];
  const router = await composeReplayRouter(
    loaded,
    {
      choice: { kind: 'mode', mode: 'kv' },
      seed: setup.seed,
      clock: time,
      transport: fleet,
      model: MODEL,
      blockSize: settings.blockSize,
      workers: fleet.workers,
    },
    {
      warn: (line) => {
        throw new Error(line);
      },
      onComposed: (core) => void cores.push(core),
    },
  );
  for (const { id } of fleet.workers) fleet.connectEvents(id, router.eventLink(id));
  const sent: Sent[] = [];
  const sizes: Sizes[] = [];
  const waiting: Waiting[] = [];
  const counts = new Map<string, Omit<Waiting, 'at' | 'policyClass'>>();
  const count = ({ policyClass, tokens }: Sent, change: 1 | -1): void => {
    const before = counts.get(policyClass) ?? { requests: 0, tokens: 0 };
    const after = { requests: before.requests + change, tokens: before.tokens + change * tokens };
    counts.set(policyClass, after);
    waiting.push({ at: time.now(), policyClass, ...after });
  };
  for (const [at, clients] of setup.clients.entries()) {
    const rng = seededRng(setup.seed * 100 + at);
    const next = (from: number): void => {
      const when = from + clients.pauseMs * (0.5 + rng.next());
      if (when >= setup.durationMs) return;
      time.plan(when, 'arrival', () => {
        const [least, most] = clients.tokens;
        const tokens = least + Math.floor(rng.next() * (most - least + 1));
        arrive(clients.policyClass, tokens);
        next(when);
      });
    };
    next(0);
  }
  const arrive = (policyClass: string, tokens: number): void => {
    const number = sent.length;
    const one: Sent = { policyClass, tokens, sentAt: time.now(), bookedAt: -1, endedAt: -1, error: null };
    sent.push(one);
    const prompt = Uint32Array.from({ length: tokens }, (_, at) => number * 4096 + (at % 4096));
    let waits = false;
    router.road.arrive(
      givenRequest(`r${number}`, prompt, { policyClass, maxOutputTokens: setup.outputTokens }),
      {
        booked() {
          one.bookedAt = time.now();
          if (waits) count(one, -1);
        },
        head() {},
        data() {},
        tokens() {},
        finished() {
          one.endedAt = time.now();
        },
        failed(error) {
          one.error = error;
          one.endedAt = time.now();
          if (waits && one.bookedAt < 0) count(one, -1);
        },
        waits: () => true,
      },
    );
    waits = one.bookedAt < 0 && one.endedAt < 0;
    if (waits) count(one, 1);
  };
  const look = (): Omit<Sizes, 'at'> => ({
    waiting: [...counts.values()].reduce((sum, { requests }) => sum + requests, 0),
    bookings: router.road.activeBookings(),
    prefixRuns: cores[0]?.scheduler.loads.prefixRuns ?? 0,
    timers: time.wakeUps().length,
  });
  const sample = (): void => {
    sizes.push({ at: time.now(), ...look() });
    if (time.now() < setup.durationMs) time.plan(time.now() + SAMPLE_MS, 'timer', sample);
  };
  time.plan(0, 'timer', sample);
  while (time.step());
  const atTheEnd = look();
  await router.close();
  fleet.close();
  return { sent, waiting, sizes, atTheEnd };
}
