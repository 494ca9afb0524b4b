// Random lives of sessions where more than placing goes on: queues, waits for a first worker, settings that are reloaded, workers that are
// removed and added again under their ids, doors that break or leave when they are called. Every request ends at most once, none waits
// for ever, and in the end nothing is booked, nothing waits and nothing is bound.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../config/index.ts';
import { createSoloRuntime, type HintStageResult } from '../host/index.ts';
import { KeylessSessions } from '../kv/index.ts';
import { defineHintPolicy, NO_LOG, PointsmanError } from '../plugin/index.ts';
import { rotating } from './affinity.fixtures.ts';
import {
  capabilities,
  PARTITION,
  prompt,
  REPORT,
  RecordingSink,
  testRoad,
  workerSpec,
} from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const WORKERS = [1n, 2n, 3n];
const NO_HINT: HintStageResult = { hint: null, capable: true, policies: [], actionPolicies: [] };
const QUEUES = queueSettingsOf(parseConfig('router: { router_queue_threshold: 0 }', 'q.yaml').config);

const at = fc.nat(1000);
const worker = fc.constantFrom(...WORKERS);
const arrival = fc.record({
  do: fc.constant('arrive' as const),
  sessionId: fc.constantFrom(null, 'a', 'b', 'c'),
  parent: fc.constantFrom(null, null, 'p', 'q'),
  pin: fc.option(worker, { nil: null, freq: 8 }),
  breaks: fc.option(fc.constantFrom('booked', 'head', 'tokens'), { nil: null, freq: 5 }),
  leaves: fc.option(fc.constantFrom('booked', 'head'), { nil: null, freq: 5 }),
  queueing: fc.constantFrom('wait' as const, 'wait', 'refuse', 'bypass'),
  seed: fc.nat(3),
});
type Arrival = typeof arrival extends fc.Arbitrary<infer T> ? T : never;
const failure = fc.record({
  do: fc.constant('fail' as const),
  at,
  code: fc.constantFrom('PM_ENGINE_LOST' as const, 'PM_ENGINE_REFUSED', 'PM_ENGINE_FAILED'),
  engine_status: fc.constantFrom(503, 500, 429),
});
const reload = fc.record({
  do: fc.constant('reload' as const),
  mode: fc.constantFrom('off' as const, 'hard', 'soft'),
  ttlMs: fc.constantFrom(10, 1000),
  groupsSubagents: fc.boolean(),
  maxSessions: fc.constantFrom(1, 2, 100),
});
const op = fc.oneof(
  { weight: 8, arbitrary: arrival },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constantFrom('answer' as const, 'finish', 'abort', 'token'), at }),
  },
  { weight: 2, arbitrary: failure },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('remove' as const, 'add', 'drain'), worker }) },
  { weight: 1, arbitrary: reload },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 10, 120, 2000) }),
  },
);

async function life(mode: 'hard' | 'soft', stagesWait: boolean) {
  const answers: { readonly hinted: (result: HintStageResult) => void; open: boolean }[] = [];
  const road = await testRoad({
    workers: WORKERS.map((id) => workerSpec(id)),
    affinity: { mode, ttlMs: 1000 },
    keyless: new KeylessSessions({ maxBytes: 2 ** 20, maxConversations: 64, ttlMs: 60_000 }),
    retries: { retries: 2, ratio: 1 },
    firstWorkerHold: { waitMs: 100, waiting: 3 },
    queues: QUEUES,
    runtime: async ({ fleet, clock }) => ({
      ...(await createSoloRuntime({
        selection: { definition: rotating(true) },
        hints: [{ definition: defineHintPolicy({ type: 'h', create: () => ({ buildHints: () => [] }) }) }],
        partition: PARTITION,
        role: 'aggregated',
        blockSize: 16,
        clock,
        seed: 7,
        log: NO_LOG,
        fleet,
      })),
      threadedHints: !stagesWait
        ? null
        : {
            start(_booking, hinted) {
              const answer = { hinted, open: true };
              answers.push(answer);
              const cancel = (): void => {
                answer.open = false;
              };
              return { pending: true, cancel };
            },
          },
    }),
  });
  const { arrive, clock, fleet, transport } = road;
  type EngineSink = (typeof transport.dispatched)[number]['sink'];
  const requests: { leave: () => void; ends: number; left: boolean }[] = [];
  const ended = new Set<EngineSink>();
  const some = <T>(from: readonly T[], index: number): T | undefined =>
    from[index % Math.max(1, from.length)];
  const running = (index: number): EngineSink | undefined =>
    some(
      transport.dispatched.filter(({ sink }) => !ended.has(sink)),
      index,
    )?.sink;
  const answer = (one: (typeof answers)[number] | undefined): void => {
    if (one === undefined) return;
    one.open = false;
    one.hinted(NO_HINT);
  };
  const end = (sink: EngineSink | undefined, how: (sink: EngineSink) => void): void => {
    if (sink === undefined) return;
    ended.add(sink);
    how(sink);
  };
  const come = ({ breaks, leaves, parent, pin, queueing, seed, sessionId }: Arrival): void => {
    const sink = new RecordingSink();
    sink.failOn = breaks;
    const request = { leave: (): void => undefined, ends: 0, left: false };
    sink.also = (call) => {
      if (call === 'finished' || call === 'failed') request.ends += 1;
      // A door that broke is told nothing any more.
      if (call === breaks) request.left = true;
      if (call === leaves) request.leave();
    };
    requests.push(request);
    const { ticket } = arrive(
      {
        session:
          sessionId === null
            ? null
            : { sessionId, agentHeaders: {}, ...(parent !== null && { parentSessionId: parent }) },
        tokens: prompt(seed, 64),
        queueing,
        constraints: { ...NO_CONSTRAINTS, pinnedWorker: pin === null ? null : { workerId: pin, rank: null } },
      },
      sink,
    );
    request.leave = () => {
      request.left = true;
      ticket.abort();
    };
  };
  return {
    ...road,
    requests,
    come,
    answer: (index: number) =>
      answer(
        some(
          answers.filter(({ open }) => open),
          index,
        ),
      ),
    leave: (index: number) => some(requests, index)?.leave(),
    finish: (index: number) => end(running(index), (sink) => sink.finished(REPORT)),
    fail: (index: number, error: PointsmanError) => end(running(index), (sink) => sink.failed(error)),
    token(index: number) {
      const sink = running(index);
      sink?.head(200, {}, []);
      sink?.tokens(1);
    },
    /** Workers are there and engines answer, until everybody has ended or nobody does any more. */
    settle() {
      for (const id of WORKERS) {
        if (fleet.worker(id) == null) fleet.add(workerSpec(id), capabilities(id));
        else fleet.setState(id, 'ready');
      }
      for (let round = 0; round < 400 && requests.some(({ ends, left }) => ends === 0 && !left); round += 1) {
        for (const one of answers) if (one.open) answer(one);
        for (const { sink } of [...transport.dispatched])
          if (!ended.has(sink)) end(sink, () => sink.finished(REPORT));
        clock.advanceTo(clock.now() + 1);
      }
    },
  };
}

it.each([
  ['hard', true],
  ['hard', false],
  ['soft', true],
  ['soft', false],
] as const)(
  'sessions that begin %s while all else changes, hint stages that wait: %s',
  async (mode, waits) => {
    await fc.assert(
      fc.asyncProperty(fc.array(op, { maxLength: 80, size: 'max' }), async (ops) => {
        const on = await life(mode, waits);
        const { affinity, clock, fleet, requests } = on;
        for (const next of ops) {
          switch (next.do) {
            case 'arrive':
              on.come(next);
              break;
            case 'answer':
              on.answer(next.at);
              break;
            case 'finish':
              on.finish(next.at);
              break;
            case 'token':
              on.token(next.at);
              break;
            case 'abort':
              on.leave(next.at);
              break;
            case 'fail': {
              const { code, engine_status } = next;
              on.fail(next.at, new PointsmanError(code, 'it failed', { details: { engine_status } }));
              break;
            }
            case 'remove':
              if (fleet.worker(next.worker) != null) fleet.remove(next.worker);
              break;
            case 'add':
              if (fleet.worker(next.worker) == null)
                fleet.add(workerSpec(next.worker), capabilities(next.worker));
              break;
            case 'drain':
              if (fleet.worker(next.worker) != null) fleet.setState(next.worker, 'draining');
              break;
            case 'reload':
              affinity.set(next);
              break;
            case 'advance':
              clock.advanceTo(clock.now() + next.ms);
              break;
          }
        }
        on.settle();
        for (const { ends, left } of requests) {
          expect(left || ends === 1).toBe(true);
          expect(ends).toBeLessThan(2);
        }
        clock.advanceTo(clock.now() + 1);
        on.expectIdle();
        expect(affinity.waiting).toBe(0);
        affinity.set({ mode: 'hard', ttlMs: 10, groupsSubagents: true, maxSessions: 1 });
        clock.advanceTo(clock.now() + 60_000);
        expect(affinity.size).toBe(0);
      }),
      { numRuns: 40 },
    );
  },
);
