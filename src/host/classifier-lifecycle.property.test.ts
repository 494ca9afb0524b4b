// Whatever road, classifier and clients do in whatever order: every request is asked about at most once, never after its end and never
// before its predecessor of the same id was heard out; events keep their order, one terminal each; every classify call is answered once.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RateLimited } from '../plugin/index.ts';
import { promisesRan, testStage, WORKER } from './classifier.fixtures.ts';
import { EVENT_LIMIT_MS } from './classifier-events.ts';
import type { ClassifierOutcome, RequestLifecycle } from './classifier-types.ts';

const IDS = ['a', 'b', 'c'] as const;

const step = fc.oneof(
  fc.record({ kind: fc.constant('begin' as const), id: fc.constantFrom(...IDS) }),
  fc.record({
    kind: fc.constantFrom('sent', 'responding', 'completed', 'aborted', 'retry'),
    at: fc.nat(4),
  }),
  fc.record({
    kind: fc.constantFrom('resolve', 'reject', 'refuse', 'junk', 'handled', 'handler fails'),
    at: fc.nat(4),
  }),
  fc.record({ kind: fc.constantFrom('settle', 'minute') }),
);

interface Request {
  readonly id: string;
  readonly tag: number;
  readonly lifecycle: RequestLifecycle;
  readonly outcomes: ClassifierOutcome[];
  over: boolean;
}

/** A call of onEvent; `end` settles its promise. */
interface Handler {
  readonly id: string;
  readonly kind: string;
  readonly startedAt: number;
  done: boolean;
  end(fails: boolean): void;
}

const isEnd = (kind: string): boolean => kind === 'completed' || kind === 'aborted';
const wasSkipped = ({ outcomes }: Request): boolean =>
  outcomes.some((one) => one.kind === 'classified' && !one.classification.asked);

it('keeps its promises under any interleaving', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const answers: { resolve(value: unknown): void; reject(thrown: unknown): void }[] = [];
      const handlers: Handler[] = [];
      const requests: Request[] = [];
      const asked: number[] = [];
      // What is thrown inside a classifier is contained: faults are kept instead.
      const faults: string[] = [];
      const must = (holds: boolean, fault: string): void => {
        if (!holds) faults.push(fault);
      };
      const isBusy = ({ startedAt, done }: Handler): boolean =>
        !done && clock.now() - startedAt < EVENT_LIMIT_MS;
      const { begin, clock, events } = await testStage(() => ({
        classify({ inputTokens: tag, requestId }) {
          // Its own entry is made right after `begin`, which may ask at once.
          must(requests[tag]?.over !== true, 'asked after the end');
          must(!asked.includes(tag), 'asked twice');
          asked.push(tag);
          // Whoever had the id before was heard out: its end was told, and the handler is done with it.
          const before = requests.slice(0, tag).filter((request) => request.id === requestId);
          const ends = handlers.filter((handler) => handler.id === requestId && isEnd(handler.kind));
          must(
            ends.length + before.filter(wasSkipped).length === before.length,
            'asked before the end was told',
          );
          must(!ends.some(isBusy), 'asked before the end was heard out');
          return new Promise((resolve, reject) => answers.push({ resolve: resolve as () => void, reject }));
        },
        onEvent({ requestId: id, kind }) {
          must(!handlers.some(isBusy), 'told while still at the event before');
          return new Promise<void>((resolve, reject) => {
            const handler: Handler = {
              id,
              kind,
              startedAt: clock.now(),
              done: false,
              end(fails) {
                handler.done = true;
                if (fails) reject(new Error('no'));
                else resolve();
              },
            };
            handlers.push(handler);
          });
        },
      }));
      const take = <T>(list: T[], at: number): T | undefined =>
        list.splice(at % Math.max(1, list.length), 1)[0];
      const act: Record<string, (at: number) => void> = {
        sent: (at) => requests[at]?.lifecycle.sent(WORKER),
        responding: (at) => requests[at]?.lifecycle.responding(WORKER),
        completed: (at) => end(at, (lifecycle) => lifecycle.completed(WORKER)),
        aborted: (at) => end(at, (lifecycle) => lifecycle.aborted(null, null)),
        retry(at) {
          const request = requests[at];
          if (request?.outcomes.length !== 1) return;
          request.lifecycle.classify((outcome) => request.outcomes.push(outcome));
        },
        resolve: (at) => take(answers, at)?.resolve(undefined),
        reject: (at) => take(answers, at)?.reject(new Error('no')),
        refuse: (at) => take(answers, at)?.reject(new RateLimited(1)),
        junk: (at) => take(answers, at)?.resolve('junk'),
        handled: () => handlers.find(({ done }) => !done)?.end(false),
        'handler fails': () => handlers.find(({ done }) => !done)?.end(true),
      };
      const end = (at: number, how: (lifecycle: RequestLifecycle) => void): void => {
        const request = requests[at];
        if (request === undefined) return;
        request.over = true;
        how(request.lifecycle);
      };
      const start = (id: string): void => {
        const live = requests.some((request) => request.id === id && !request.over);
        const tag = requests.length;
        if (live) {
          expect(() => begin(id)).toThrow('a request with the same id is under way');
          return;
        }
        const { lifecycle, outcomes } = begin(id, { promptTokens: tag });
        requests.push({ id, tag, lifecycle, outcomes, over: false });
      };
      for (const one of steps) {
        if ('id' in one) start(one.id);
        // Rather the latest requests: those before are over.
        else if ('at' in one) act[one.kind]?.(Math.max(0, requests.length - 1 - one.at));
        else if (one.kind === 'minute') clock.advanceTo(clock.now() + 60_000);
        else await promisesRan();
      }
      for (const [at] of requests.entries()) if (!requests[at]?.over) act.aborted?.(at);
      // Every handler ends; then everything has been told.
      for (let left = events.length; left <= requests.length * 3 + 1; left += 1) {
        for (const handler of handlers) if (!handler.done) handler.end(false);
        await promisesRan();
      }
      expect(faults).toEqual([]);
      for (const { outcomes } of requests) {
        expect(outcomes.length).toBeGreaterThanOrEqual(1);
        expect(outcomes.slice(1).every(({ kind }) => kind === outcomes[0]?.kind || kind === 'over')).toBe(
          true,
        );
      }
      // Per id the events are those of its requests one after the other.
      for (const id of IDS) {
        const kinds = events.filter((event) => event.requestId === id).map((event) => event.kind);
        const lives = kinds
          .join(' ')
          .split(/(?<=completed|aborted) ?/)
          .filter((life) => life !== '');
        for (const life of lives) {
          expect(life).toMatch(/^(sent )?(responding )?(completed|aborted)$/);
        }
        const skipped = requests.filter((request) => request.id === id && wasSkipped(request));
        expect(lives.length + skipped.length).toBe(requests.filter((request) => request.id === id).length);
      }
    }),
    { numRuns: 500 },
  );
});
