// Whatever road, classifier and clients do in whatever order: every request is asked about at most once, never after its end and never
// before its predecessor of the same id was heard out; events keep their order, one terminal each; every classify call is answered once.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RateLimited } from '../plugin/index.ts';
import { promisesRan, testStage, WORKER } from './classifier.fixtures.ts';
import type { ClassifierOutcome, RequestLifecycle } from './classifier-types.ts';

const IDS = ['a', 'b', 'c'] as const;

const step = fc.oneof(
  fc.record({ kind: fc.constant('begin' as const), id: fc.constantFrom(...IDS) }),
  fc.record({
    kind: fc.constantFrom('sent', 'responding', 'completed', 'aborted', 'retry'),
    at: fc.nat(20),
  }),
  fc.record({
    kind: fc.constantFrom('resolve', 'reject', 'refuse', 'junk', 'handled', 'handler fails'),
    at: fc.nat(20),
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

it('keeps its promises under any interleaving', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const answers: { resolve(value: unknown): void; reject(thrown: unknown): void }[] = [];
      const handlers: { done(): void; fail(): void }[] = [];
      const requests: Request[] = [];
      const asked: number[] = [];
      let handling = 0;
      const { begin, clock, events, stage } = await testStage(
        () => ({
          classify({ inputTokens: tag }) {
            const request = requests[tag];
            // Its own entry is made right after `begin`, which may ask at once.
            expect(request?.over ?? false).toBe(false);
            expect(asked).not.toContain(tag);
            asked.push(tag);
            const id = IDS[Math.floor(tag / 1000) % IDS.length];
            expect(id).toBeDefined();
            return new Promise((resolve, reject) => answers.push({ resolve: resolve as () => void, reject }));
          },
          onEvent: () => {
            handling += 1;
            expect(handling).toBe(1);
            return new Promise<void>((resolve, reject) => {
              const end = (settle: () => void) => () => {
                handling = 0;
                settle();
              };
              handlers.push({ done: end(resolve), fail: end(() => reject(new Error('no'))) });
            });
          },
        }),
        { maxWaitMs: 60_000 },
      );
      expect(stage).toBeDefined();
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
        handled: () => handlers.shift()?.done(),
        'handler fails': () => handlers.shift()?.fail(),
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
        else if ('at' in one) act[one.kind]?.(one.at);
        else if (one.kind === 'minute') clock.advanceTo(clock.now() + 60_000);
        else await promisesRan();
      }
      for (const [at] of requests.entries()) if (!requests[at]?.over) act.aborted?.(at);
      // Every handler ends; then everything has been told.
      for (let left = events.length; left <= requests.length * 3 + 1; left += 1) {
        for (const { done } of handlers.splice(0)) done();
        handling = 0;
        await promisesRan();
      }
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
        const skipped = requests.filter(
          (request) =>
            request.id === id &&
            request.outcomes.some((one) => one.kind === 'classified' && !one.classification.asked),
        );
        expect(lives.length + skipped.length).toBe(requests.filter((request) => request.id === id).length);
      }
    }),
    { numRuns: 300 },
  );
});
