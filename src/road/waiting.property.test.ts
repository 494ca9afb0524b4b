// Requests that wait, for their classification and then for their hints, under whatever happens meanwhile: also what doors do from
// inside a call of theirs.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { HintStageResult, ThreadedHintStage } from '../host/index.ts';
import { createSoloRuntime } from '../host/index.ts';
import {
  type ClassifierEvent,
  type ClassifyAnswer,
  defineRequestClassifier,
  defineWorkerSelectionPolicy,
  linearCost,
  NO_LOG,
  PointsmanError,
  RateLimited,
} from '../plugin/index.ts';
import { BLOCK, PARTITION, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';

const ACTIONS = [
  'classified',
  'classified',
  'classified',
  'hinted',
  'hinted',
  'hinted',
  'heard',
  'heard',
  'refused',
  'failed',
  'hinted',
  'head',
  'tokens',
  'finished',
  'engine fails',
  'abort',
  'pause',
  'heard',
] as const;
type Action = (typeof ACTIONS)[number];
const action = fc.record({ do: fc.constantFrom<Action>(...ACTIONS), which: fc.nat(30) });
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      id: fc.constantFrom('a', 'b', null),
      /** What the door does when it hears something of the request. */
      within: fc.option(action, { freq: 2 }),
      again: fc.boolean(),
    }),
  },
  { weight: 10, arbitrary: action },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom('lost' as const, 'add' as const), which: fc.nat(2) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('settle' as const, 'settle' as const, 'minute' as const),
      which: fc.constant(0),
    }),
  },
);

const NO_HINTS: HintStageResult = { hint: null, capable: true, policies: [], actionPolicies: [] };
const definition = defineWorkerSelectionPolicy({ type: 'cost', create: () => ({ cost: linearCost() }) });
const isEnd = (heard: string): boolean => heard.startsWith('finished') || heard.startsWith('failed');

it('end once each, are told of to the classifier in order, and leave nothing behind', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const answers: { resolve(value: ClassifyAnswer): void; reject(thrown: unknown): void }[] = [];
      const handlers: (() => void)[] = [];
      const events: ClassifierEvent[] = [];
      const hints: { hinted: (() => void) | null }[] = [];
      const stage: ThreadedHintStage = {
        start(_, hinted) {
          const entry: { hinted: (() => void) | null } = { hinted: () => hinted(NO_HINTS) };
          hints.push(entry);
          return {
            pending: true,
            cancel() {
              entry.hinted = null;
            },
          };
        },
      };
      const road = await testRoad({
        workers: [1n, 2n, 3n].map((id) => workerSpec(id)),
        concurrentRequests: 12,
        classifier: {
          definition: defineRequestClassifier({
            type: 'mine',
            create: () => ({
              classify: () =>
                new Promise((resolve, reject) => answers.push({ resolve: resolve as () => void, reject })),
              onEvent(event) {
                events.push(event);
                return new Promise<void>((resolve) => handlers.push(resolve));
              },
            }),
          }),
        },
        async runtime({ fleet, clock }) {
          const runtime = await createSoloRuntime({
            selection: { definition },
            onCommitFailure: 'degrade',
            partition: PARTITION,
            role: 'aggregated',
            blockSize: BLOCK,
            clock,
            seed: 7,
            log: NO_LOG,
            fleet,
          });
          return { ...runtime, hintStage: null, threadedHints: stage };
        },
      });
      const { transport, fleet, clock } = road;
      const requests: { sink: RecordingSink; abort(): void; pause(): void; aborted: boolean }[] = [];
      const take = <T>(list: T[], at: number): T | undefined =>
        list.splice(at % Math.max(1, list.length), 1)[0];
      const act = (what: Action, which: number): void => {
        const request = requests[which % Math.max(1, requests.length)];
        const engine = transport.dispatched[which % Math.max(1, transport.dispatched.length)]?.sink;
        if (what === 'classified') take(answers, which)?.resolve(undefined);
        else if (what === 'refused') take(answers, which)?.reject(new RateLimited(1));
        else if (what === 'failed') take(answers, which)?.reject(new Error('no'));
        else if (what === 'hinted') take(hints, which)?.hinted?.();
        else if (what === 'head') engine?.head(200, {}, []);
        else if (what === 'tokens') engine?.tokens(3);
        else if (what === 'finished') engine?.finished(REPORT);
        else if (what === 'engine fails') engine?.failed(new PointsmanError('PM_ENGINE_LOST', 'x'));
        else if (what === 'abort') request?.abort();
        else if (what === 'pause') request?.pause();
        else handlers.shift()?.();
      };
      const arrive = (
        id: string | null,
        within: { do: Action; which: number } | null,
        again: boolean,
      ): void => {
        const sink = new RecordingSink();
        const entry = { sink, aborted: false, abort: (): void => undefined, pause: (): void => undefined };
        requests.push(entry);
        let armed = true;
        sink.also = (call) => {
          if (within !== null && armed) {
            armed = false;
            act(within.do, within.which);
          }
          if (again && (call === 'failed' || call === 'finished')) arrive(id, null, false);
        };
        const { ticket } = road.arrive({ ...(id === null ? {} : { requestId: id }) }, sink);
        entry.abort = () => {
          if (!sink.heard.some(isEnd)) entry.aborted = true;
          ticket.abort();
        };
        entry.pause = () => ticket.pause();
      };
      for (const one of steps) {
        if (one.do === 'arrive') arrive(one.id, one.within, one.again);
        else if (one.do === 'lost') fleet.remove(BigInt(one.which + 1));
        else if (one.do === 'add') {
          if (fleet.worker(BigInt(one.which + 1)) === null) fleet.add(workerSpec(BigInt(one.which + 1)));
        } else if (one.do === 'minute') clock.advanceTo(clock.now() + 60_000);
        else if (one.do === 'settle') await new Promise((resolve) => setImmediate(resolve));
        else act(one.do, one.which);
        if (one.do === 'classified') await new Promise((resolve) => setImmediate(resolve));
        for (const { sink, aborted } of requests) {
          const ends = sink.heard.filter(isEnd).length;
          expect(ends).toBeLessThanOrEqual(aborted ? 0 : 1);
        }
      }
      for (const request of requests) request.sink.also = null;
      for (const request of requests) request.abort();
      while (handlers.length > 0 || road.road.unsettled()) {
        handlers.shift()?.();
        await new Promise((resolve) => setImmediate(resolve));
      }
      road.expectIdle();
      for (const { sink, aborted } of requests)
        expect(sink.heard.filter(isEnd).length + Number(aborted)).toBe(1);
      // One life after the other under an id, each with one end.
      for (const id of new Set(events.map(({ requestId }) => requestId))) {
        const kinds = events.filter(({ requestId }) => requestId === id).map(({ kind }) => kind);
        expect(`${kinds.join(' ')} `).toMatch(/^((sent )?(responding )?(completed|aborted) )*$/);
      }
      // Nothing hangs: as many come in as at the start.
      const heard: string[] = [];
      for (let more = 0; more < 12; more += 1) {
        const sink = new RecordingSink();
        sink.also = (call) => heard.push(call);
        road.arrive({ requestId: `more ${more}` }, sink);
      }
      expect(heard).toEqual([]);
    }),
    { numRuns: 300 },
  );
});
