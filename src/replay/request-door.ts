// Sends requests of a replay into the road and listens to the answers.
import type { SessionContext } from '../plugin/index.ts';
import { NO_CONSTRAINTS, type ResponseSink } from '../road/index.ts';
import type { VirtualTime } from '../simulator/index.ts';
import { Distribution } from './distribution.ts';
import type { CompletedRequest, RunCollector } from './run-collector.ts';
import type { ReplayRouter } from './types.ts';

/** Name of the one model of a replay. */
export const REPLAY_MODEL = 'replay';

/** A request as a trace gives it. */
export interface TracedRequest {
  readonly id: string;
  readonly tokens: Uint32Array;
  readonly outputTokens: number;
  readonly session: SessionContext | null;
}

/** Hears of a request's end; null = it was not answered. */
export type EndOfRequest = (completed: CompletedRequest | null) => void;

/** The door of a run. */
export class RequestDoor {
  readonly decisionMicros = new Distribution();
  readonly #time: VirtualTime;
  readonly #routers: readonly ReplayRouter[];
  readonly #collector: RunCollector;
  readonly #wallClock: () => number;
  readonly #warmUp: number;
  #sent = 0;

  /**
   * @param routers get the requests in turn.
   * @param warmUp so many requests are sent before latencies count.
   */
  constructor(
    time: VirtualTime,
    routers: readonly ReplayRouter[],
    collector: RunCollector,
    wallClock: () => number,
    warmUp: number,
  ) {
    this.#time = time;
    this.#routers = routers;
    this.#collector = collector;
    this.#wallClock = wallClock;
    this.#warmUp = warmUp;
  }

  /** Sends a request now. `ended` hears of it after the collector. */
  send({ id, outputTokens, session, tokens }: TracedRequest, ended: EndOfRequest): void {
    const startedAt = this.#wallClock();
    const router = this.#routers[this.#sent % this.#routers.length]!;
    const isMeasured = this.#sent >= this.#warmUp;
    this.#sent += 1;
    router.road.arrive(
      {
        requestId: id,
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
        session,
        constraints: NO_CONSTRAINTS,
        incomingHint: null,
        tokenizeMicros: 0,
      },
      this.#answerSink(router, tokens.length, isMeasured, ended),
    );
    this.decisionMicros.add((this.#wallClock() - startedAt) * 1000);
  }

  #answerSink(
    { decisions }: ReplayRouter,
    inputTokens: number,
    isMeasured: boolean,
    ended: EndOfRequest,
  ): ResponseSink {
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
        const decision = decisions.booking(decisionId);
        predictedTokens = decision?.prediction?.cached_tokens ?? null;
        // A booking given up for its commit stands before the one that counts.
        const bookings =
          decision?.attempt === 1 ? [decision] : decisions.bookingsOf(decision?.request_id ?? '');
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
        else if (isMeasured) collector.gap(now - lastTokenAt);
        lastTokenAt = now;
      },
      finished: (report) => {
        if (rejected) {
          collector.rejected();
          ended(null);
          return;
        }
        const completed: CompletedRequest = {
          worker,
          inputTokens,
          predictedTokens,
          arrivedAt,
          admittedAt,
          firstTokenAt,
          finishedAt: time.now(),
          report,
          awaitedTokens,
          isMeasured,
        };
        collector.completed(completed);
        ended(completed);
      },
      failed: ({ details }) => {
        if (typeof details.refusal === 'string') collector.refused();
        else collector.failed();
        ended(null);
      },
      // An overloaded fleet may let requests wait for as long as it likes.
      waits: () => true,
    };
  }
}
