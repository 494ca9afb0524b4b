// Sends the requests of a trace at their own times.
import { PointsmanError } from '../plugin/index.ts';
import type { SimulatedEngineSettings, VirtualTime } from '../simulator/index.ts';
import type { RequestDoor } from './request-door.ts';
import type { RunCollector } from './run-collector.ts';
import { type PromptShape, promptTokens, type Trace } from './trace.ts';

/** What lets a run's workload happen. */
export interface Arrivals {
  /** Lets the next thing happen. @throws PM_REPLAY_STUCK */
  step(): void;
}

/** What arrivals take from a run. */
export interface ReplayDoorOptions {
  readonly name: string;
  readonly engine: SimulatedEngineSettings;
  readonly speedup: number;
}

/** Sends the trace's requests into the road, one after the other. */
export class ReplayDoor implements Arrivals {
  readonly #options: ReplayDoorOptions;
  readonly #trace: Trace;
  readonly #time: VirtualTime;
  readonly #door: RequestDoor;
  readonly #collector: RunCollector;
  readonly #shape: PromptShape;
  /** `timing: none`: the next request comes only when this one is finished. */
  readonly #oneByOne: boolean;
  #next = 0;
  #planned = false;

  constructor(
    options: ReplayDoorOptions,
    trace: Trace,
    time: VirtualTime,
    door: RequestDoor,
    collector: RunCollector,
  ) {
    this.#options = options;
    this.#trace = trace;
    this.#time = time;
    this.#door = door;
    this.#collector = collector;
    this.#shape = options.engine.cacheModel === 'block-list' ? 'whole-blocks' : 'cut';
    this.#oneByOne = options.engine.timing === 'none';
  }

  step(): void {
    this.#planArrival();
    if (!this.#time.step()) throw stuck(this.#options.name, this.#collector.ended, this.#trace.requests);
  }

  #planArrival(): void {
    if (this.#planned || this.#next === this.#trace.requests) return;
    if (this.#oneByOne && this.#collector.ended < this.#next) return;
    const request = this.#next;
    this.#next += 1;
    this.#planned = true;
    this.#time.plan(this.#trace.arrivals[request]! / this.#options.speedup, 'arrival', () => {
      this.#planned = false;
      this.#arrive(request);
      this.#planArrival();
    });
  }

  #arrive(request: number): void {
    const trace = this.#trace;
    this.#door.send(
      {
        id: `r${request}`,
        tokens: promptTokens(trace, request, this.#shape),
        outputTokens: this.#options.engine.cacheModel === 'block-list' ? 0 : trace.outputLengths[request]!,
        session: trace.sessions.get(request) ?? null,
      },
      () => undefined,
    );
  }
}

/** Nothing is left to happen before the end. */
export function stuck(name: string, ended: number, requests: number): PointsmanError {
  return new PointsmanError(
    'PM_REPLAY_STUCK',
    `replay ${name}: nothing is left to happen, but only ${ended} of ${requests} requests have ended`,
  );
}
