// Random lives of sessions on a road with waiting hint stages, second tries and workers that come and go: whoever is bound hard goes to its
// worker or nowhere, every request ends once, and in the end nothing is booked, nothing waits and nothing is bound.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createSoloRuntime, type HintStageResult } from '../host/index.ts';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  NO_LOG,
  PointsmanError,
  pickWorker,
} from '../plugin/index.ts';
import { PARTITION, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const WORKERS = [1n, 2n, 3n];
const NO_HINT: HintStageResult = { hint: null, capable: true, policies: [], actionPolicies: [] };
const FAILURES = ['PM_ENGINE_LOST', 'PM_ENGINE_REFUSED', 'PM_ENGINE_FAILED'] as const;

const at = fc.nat(1000);
const op = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      session: fc.constantFrom(null, 'a', 'b'),
      pin: fc.option(fc.constantFrom(...WORKERS), { nil: null, freq: 8 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('answer' as const, 'finish', 'abort'), at }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('fail' as const), at, code: fc.constantFrom(...FAILURES) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('state' as const),
      worker: fc.constantFrom(...WORKERS),
      state: fc.constantFrom('ready' as const, 'draining', 'suspect', 'gone'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 0, 10, 2000) }),
  },
);

async function life(mode: 'hard' | 'soft', waits: boolean, exclusive: boolean) {
  const answers: { hinted: (result: HintStageResult) => void; open: boolean }[] = [];
  const definition = defineWorkerSelectionPolicy({
    type: 'rotating',
    exclusiveAffinity: exclusive,
    create: () => {
      let turn = 0;
      return { picker: pickWorker({ pick: ({ count }) => turn++ % count }) };
    },
  });
  const road = await testRoad({
    workers: WORKERS.map((id) => workerSpec(id)),
    affinity: { mode, ttlMs: 1000 },
    retries: { retries: 2, ratio: 1 },
    runtime: async ({ fleet, clock }) => ({
      ...(await createSoloRuntime({
        selection: { definition },
        hints: [{ definition: defineHintPolicy({ type: 'h', create: () => ({ buildHints: () => [] }) }) }],
        partition: PARTITION,
        role: 'aggregated',
        blockSize: 16,
        clock,
        seed: 7,
        log: NO_LOG,
        fleet,
      })),
      threadedHints: !waits
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
  return { ...road, answers };
}

it.each([
  ['hard', true],
  ['hard', false],
  ['soft', true],
  ['soft', false],
] as const)('sessions on a road, bound %s, hint stages that wait: %s', async (mode, waits) => {
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(op, { maxLength: 60, size: 'max' }), async (exclusive, ops) => {
      const { arrive, answers, transport, clock, fleet, affinity, decisions, expectIdle } = await life(
        mode,
        waits,
        exclusive,
      );
      const open: { end: () => void; over: boolean }[] = [];
      const underWay = () => transport.dispatched.filter(({ sink }) => !ended.has(sink));
      const ended = new Set<object>();
      const some = <T>(from: readonly T[], index: number): T | undefined =>
        from[index % Math.max(1, from.length)];
      const answer = (one: (typeof answers)[number] | undefined): void => {
        if (one === undefined || !one.open) return;
        one.open = false;
        one.hinted(NO_HINT);
      };
      const close = (
        index: number,
        how: (sink: (typeof transport.dispatched)[number]['sink']) => void,
      ): void => {
        const engine = some(underWay(), index);
        if (engine === undefined) return;
        ended.add(engine.sink);
        how(engine.sink);
      };
      for (const next of ops) {
        switch (next.do) {
          case 'arrive': {
            const sink = new RecordingSink();
            const request = arrive(
              {
                session: next.session === null ? null : { sessionId: next.session, agentHeaders: {} },
                ...(next.pin !== null && {
                  constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId: next.pin, rank: null } },
                }),
              },
              sink,
            );
            const one = { end: () => request.ticket.abort(), over: false };
            open.push(one);
            sink.also = (call) => {
              if (call === 'finished' || call === 'failed') {
                expect(one.over).toBe(false);
                one.over = true;
              }
            };
            break;
          }
          case 'answer':
            answer(
              some(
                answers.filter((one) => one.open),
                next.at,
              ),
            );
            break;
          case 'finish':
            close(next.at, (sink) => sink.finished(REPORT));
            break;
          case 'fail':
            close(next.at, (sink) => sink.failed(new PointsmanError(next.code, 'it failed')));
            break;
          case 'abort':
            some(open, next.at)?.end();
            break;
          case 'state':
            fleet.setState(next.worker, next.state);
            break;
          case 'advance':
            clock.advanceTo(clock.now() + next.ms);
            break;
        }
      }
      for (const { affinity: bound, pick } of decisions?.list(10_000, {}) ?? []) {
        if (bound === null || bound.target === null) continue;
        const went = pick.worker_id === bound.target.worker_id && pick.dp_rank === bound.target.dp_rank;
        if (mode === 'hard') expect(went).toBe(true);
        else if (bound.outcome === 'kept' || bound.outcome === 'moved')
          expect(bound.outcome).toBe(went ? 'kept' : 'moved');
      }
      for (const one of open) one.end();
      clock.advanceTo(clock.now());
      expectIdle();
      clock.advanceTo(clock.now() + 2000);
      expect(affinity.size).toBe(0);
      expect(affinity.waiting).toBe(0);
    }),
    { numRuns: 60 },
  );
});
