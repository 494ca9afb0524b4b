// A whole router, as configuration makes it, over engines that a test plays: for what only the composed parts show.
import { composeRouter } from '../../src/cli/compose-router.ts';
import { parseConfig } from '../../src/config/index.ts';
import type { EngineReport, EngineRequest, EngineSink } from '../../src/engines/index.ts';
import { createMetrics, type DecisionRecord } from '../../src/observe/index.ts';
import { ManualClock, NO_LOG, type PointsmanError, type WorkerRank } from '../../src/plugin/index.ts';
import { NO_CONSTRAINTS, type RoadRequest, type RoadTicket } from '../../src/road/index.ts';
import { countedTokens, givenRequest } from './road-request.ts';

/** A request that went in, and what came of it. */
export interface Sent {
  readonly id: string;
  readonly ticket: RoadTicket;
  /** Where it was booked last; null = nowhere. */
  readonly worker: WorkerRank | null;
  /** The engine's end of its first try; null = it reached none. */
  readonly engine: EngineSink | null;
  readonly error: PointsmanError | null;
  readonly ended: boolean;
  record(): DecisionRecord | null;
}

/** What an engine was sent. */
export interface SentLeg {
  readonly request: EngineRequest;
  readonly sink: EngineSink;
  readonly aborts: number;
}

/** What engines report at the end. */
export const ANSWERED: EngineReport = {
  promptTokens: 32,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
};

/**
 * A router for the model `tiny` in blocks of 16.
 * @param yaml further sections of its configuration.
 * @param roomSeed as of `ComposeRouterOptions`.
 * @param workers further keys of each worker, in flow style; ids count from 1.
 * @param definitions policies at hand.
 */
export async function scriptedFleet(
  yaml: string,
  workers: readonly string[],
  roomSeed?: number,
  definitions: readonly object[] = [],
) {
  const rows = workers.map(
    (keys, at) =>
      `  - { id: ${at + 1}, url: "http://127.0.0.1:${9001 + at}", dialect: sim${keys === '' ? '' : `, ${keys}`} }`,
  );
  const list = rows.length === 0 ? ' []' : `\n${rows.join('\n')}`;
  const { config, source } = parseConfig(
    `models: { tiny: { block_size: 16, tokens: { source: estimate } } }\nworkers:${list}\n${yaml}`,
    'router.yaml',
  );
  const clock = new ManualClock(1000);
  const metrics = createMetrics();
  let dispatched: EngineSink | null = null;
  const legs: SentLeg[] = [];
  const core = await composeRouter({
    config,
    source,
    clock,
    metrics,
    log: NO_LOG,
    ...(roomSeed === undefined ? {} : { roomSeed }),
    definitions,
    seed: config.router.seed === 0 ? 1 : config.router.seed,
    transportFor: () => ({
      dispatch(request, sink) {
        dispatched = sink;
        const leg = { request, sink, aborts: 0 };
        legs.push(leg);
        return {
          abort() {
            leg.aborts += 1;
          },
          pause() {},
          resume() {},
        };
      },
      close() {},
    }),
  });
  let arrivals = 0;
  /** Sends a request of 32 tokens that no other shares, unless told otherwise; `waits` = its client stays connected. */
  const arrive = (changes: Partial<RoadRequest> = {}, waits = true): Sent => {
    arrivals += 1;
    const id = changes.requestId ?? `r${arrivals}`;
    const heard = {
      worker: null as WorkerRank | null,
      error: null as PointsmanError | null,
      ended: false,
      decision: '',
    };
    const tokens = countedTokens(32, arrivals * 1000);
    dispatched = null;
    const ticket = core.road.arrive(givenRequest(id, tokens, changes), {
      booked: (chosen, decision) => {
        heard.worker = chosen;
        heard.decision = decision;
      },
      head() {},
      data() {},
      tokens() {},
      finished: () => {
        heard.ended = true;
      },
      failed: (error) => {
        heard.error = error;
        heard.ended = true;
      },
      waits: () => waits,
    });
    const engine = dispatched;
    return {
      id,
      ticket,
      engine,
      get worker() {
        return heard.worker;
      },
      get error() {
        return heard.error;
      },
      get ended() {
        return heard.ended;
      },
      record: () => core.decisions?.get(heard.decision) ?? null,
    };
  };
  /** Requests per worker, idle ones included. */
  const shares = (sent: readonly Sent[]): number[] =>
    workers.map((_, at) => sent.filter(({ worker }) => worker?.workerId === BigInt(at + 1)).length);
  return { core, clock, metrics, arrive, shares, legs };
}

/** Constraints of a request that is pinned to a worker. */
export const pinnedTo = (workerId: bigint) => ({
  ...NO_CONSTRAINTS,
  pinnedWorker: { workerId, rank: null },
});
