// The door of a replay: sends the trace's requests into the road at their time and listens to the answers.
import { PointsmanError } from '../plugin/index.ts';
import { NO_CONSTRAINTS, type ResponseSink } from '../road/index.ts';
import type { SimulatedEngineSettings, VirtualTime } from '../simulator/index.ts';
import { Distribution } from './distribution.ts';
import type { RunCollector } from './run-collector.ts';
import { type PromptShape, promptTokens, type Trace } from './trace.ts';
import type { ReplayRouter } from './types.ts';

/** Name of the one model of a replay. */
export const REPLAY_MODEL = 'replay';

/** What the door takes from a run. */
export interface ReplayDoorOptions {
  readonly name: string;
  readonly trace: Trace;
  readonly engine: SimulatedEngineSettings;
  readonly speedup: number;
  readonly wallClock: () => number;
}

/** Sends the trace's requests into the road, one after the other. */
export class ReplayDoor {
  readonly decisionMicros = new Distribution();
  readonly #options: ReplayDoorOptions;
  readonly #time: VirtualTime;
  readonly #router: ReplayRouter;
  readonly #collector: RunCollector;
  readonly #shape: PromptShape;
  /** `timing: none`: the next request comes only when this one is finished. */
  readonly #oneByOne: boolean;
  #next = 0;
  #planned = false;

  constructor(options: ReplayDoorOptions, time: VirtualTime, router: ReplayRouter, collector: RunCollector) {
    this.#options = options;
    this.#time = time;
    this.#router = router;
    this.#collector = collector;
    this.#shape = options.engine.cacheModel === 'block-list' ? 'whole-blocks' : 'cut';
    this.#oneByOne = options.engine.timing === 'none';
  }

  /** Lets the next thing happen. */
  step(): void {
    this.#planArrival();
    if (this.#time.step()) return;
    throw new PointsmanError(
      'PM_REPLAY_STUCK',
      `replay ${this.#options.name}: nothing is left to happen, but only ${this.#collector.ended} of ${this.#options.trace.requests} requests have ended`,
    );
  }

  #planArrival(): void {
    const { trace, speedup } = this.#options;
    if (this.#planned || this.#next === trace.requests) return;
    if (this.#oneByOne && this.#collector.ended < this.#next) return;
    const request = this.#next;
    this.#next += 1;
    this.#planned = true;
    this.#time.plan(trace.arrivals[request]! / speedup, 'arrival', () => {
      this.#planned = false;
      this.#arrive(request);
      this.#planArrival();
    });
  }

  #arrive(request: number): void {
    const { trace, engine, wallClock } = this.#options;
    const tokens = promptTokens(trace, request, this.#shape);
    const outputTokens = engine.cacheModel === 'block-list' ? 0 : trace.outputLengths[request]!;
    const startedAt = wallClock();
    this.#router.road.arrive(
      {
        requestId: `r${request}`,
        door: 'replay',
        partition: { model: REPLAY_MODEL, routingGroup: 'default' },
        role: 'aggregated',
        servedAs: REPLAY_MODEL,
        api: 'completions',
        body: null,
        stream: true,
        tokens,
        tokensSource: 'given',
        maxOutputTokens: outputTokens,
        expectedOutputTokens: null,
        loraName: null,
        cacheSalt: null,
        session: trace.sessions.get(request) ?? null,
        constraints: NO_CONSTRAINTS,
        incomingHint: null,
        tokenizeMicros: 0,
      },
      this.#answerSink(tokens.length),
    );
    this.decisionMicros.add((wallClock() - startedAt) * 1000);
  }

  #answerSink(inputTokens: number): ResponseSink {
    const time = this.#time;
    const collector = this.#collector;
    const arrivedAt = time.now();
    let worker = -1;
    let predictedTokens: number | null = null;
    let admittedAt = arrivedAt;
    let firstTokenAt = -1;
    let lastTokenAt = -1;
    let rejected = false;
    let awaitedTokens: number | null = null;
    return {
      booked: (chosen, decisionId) => {
        worker = Number(chosen.workerId) - 1;
        const { decisions } = this.#router;
        const decision = decisions.get(decisionId);
        predictedTokens = decision?.prediction?.cached_tokens ?? null;
        // A booking given up for its commit stands before the one that counts.
        const bookings =
          decision?.attempt === 1 ? [decision] : decisions.ofRequest(decision?.request_id ?? '');
        for (const one of bookings) awaitedTokens = collector.booked(one, inputTokens);
        collector.dispatched(worker, inputTokens);
      },
      head: (status) => {
        admittedAt = time.now();
        rejected = status !== 200;
      },
      data: () => undefined,
      tokens: () => {
        const now = time.now();
        if (firstTokenAt < 0) firstTokenAt = now;
        else collector.gap(now - lastTokenAt);
        lastTokenAt = now;
      },
      finished: (report) => {
        if (rejected) collector.rejected();
        else {
          collector.completed({
            worker,
            inputTokens,
            predictedTokens,
            arrivedAt,
            admittedAt,
            firstTokenAt,
            finishedAt: time.now(),
            report,
            awaitedTokens,
          });
        }
      },
      failed: ({ details }) =>
        typeof details.refusal === 'string' ? collector.refused() : collector.failed(),
      // An overloaded fleet may let requests wait for as long as it likes.
      waits: () => true,
    };
  }
}
