// The same classifier in process and in a thread: for any order of requests and events the same answers, in the same order.
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import type { RequestLifecycle } from '../classifier-types.ts';
import { IsolationBench, PARTITION } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterAll(() => bench.close());

bench.write(
  'turns.ts',
  `import { CapacityExhausted, defineRequestClassifier, RateLimited } from 'pointsman/plugin';
// Two at once; the others wait for their turn. Each answer tells how many events were heard and what the generator drew.
export default defineRequestClassifier({
  type: 'turns',
  create: ({ rng }) => {
    const running = new Set<string>();
    const waiting = new Map<string, () => void>();
    let heard = 0;
    const answer = () => ({ schedulingCostTokens: 1 + heard, dueAt: rng.next() });
    return {
      classify({ requestId, inputTokens }) {
        if (inputTokens % 11 === 0) throw new RateLimited(inputTokens / 10, 'slowly ' + requestId);
        if (inputTokens % 7 === 0) throw new Error('no sevens');
        if (inputTokens % 5 === 0) return { policyClass: 'nosuch' };
        if (running.size < 2) {
          running.add(requestId);
          return answer();
        }
        if (waiting.size === 3) throw new CapacityExhausted();
        return new Promise((resolve) => waiting.set(requestId, () => resolve(answer())));
      },
      async onEvent({ kind, requestId, worker }) {
        heard += worker === null ? 100 : 1;
        if (heard % 4 === 0) await null;
        if (heard % 6 === 0) throw new Error('no sixes');
        if (kind !== 'completed' && kind !== 'aborted') return;
        running.delete(requestId);
        waiting.delete(requestId);
        const [next] = waiting;
        if (next === undefined || running.size >= 2) return;
        waiting.delete(next[0]);
        running.add(next[0]);
        next[1]();
      },
    };
  },
});
`,
);

type Step =
  | { readonly kind: 'begin'; readonly tokens: number }
  | { readonly kind: 'sent' | 'responding' | 'completed' | 'left'; readonly which: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('begin' as const), tokens: fc.integer({ min: 1, max: 60 }) }),
    fc.record({
      kind: fc.constantFrom('sent' as const, 'responding' as const, 'completed' as const, 'left' as const),
      which: fc.nat(9),
    }),
  ),
  { minLength: 10, maxLength: 40 },
);

/** What was answered, step by step; `expected` tells how much of it to wait for. */
async function runThrough(
  isolation: string,
  script: readonly Step[],
  expected: readonly (readonly string[])[] | null,
) {
  const { host } = await bench.host(
    `plugins: [./turns.ts]
request_classifier: { type: turns, isolation: ${isolation}, deadline: 30s }
containment: { breaker: { failures: 1000 } }`,
  );
  const stage = host.classifierFor(PARTITION);
  if (stage === null) throw new Error('nobody classifies');
  const told: string[][] = [];
  const lifecycles: RequestLifecycle[] = [];
  const worker = { workerId: 1n, rank: 0 };
  for (const [at, step] of script.entries()) {
    const now: string[] = [];
    told.push(now);
    if (step.kind === 'begin') {
      const index = lifecycles.length;
      const lifecycle = stage.begin({
        requestId: `r${index}`,
        session: null,
        promptTokens: step.tokens,
        policyClass: null,
        arrivedAt: 1_000_000,
        pinnedWorker: null,
      });
      lifecycles.push(lifecycle);
      lifecycle.classify((outcome) => {
        const text =
          outcome.kind === 'refused'
            ? `${outcome.error.code} ${outcome.error.message} ${JSON.stringify(outcome.error.details)}`
            : outcome.kind === 'over'
              ? 'over'
              : JSON.stringify(outcome.classification.overrides);
        told.at(-1)?.push(`r${index} ${text}`);
      });
    } else {
      const lifecycle = lifecycles[step.which % Math.max(1, lifecycles.length)];
      if (step.kind === 'left') lifecycle?.aborted(null, null);
      else lifecycle?.[step.kind](worker);
    }
    if (expected === null) await new Promise((resolve) => setImmediate(resolve));
    else
      for (let tries = 0; now.length < (expected[at]?.length ?? 0); tries += 1) {
        // The comparison shows what is missing.
        if (tries === 5000) return told;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
  }
  // The end refuses whoever still waits.
  const before = told.map((texts) => [...texts]);
  await host.dispose();
  return before;
}

it('answers the same in a thread as in process', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const here = await runThrough('in-process', script, null);
      expect(await runThrough('thread', script, here)).toEqual(here);
    }),
    { numRuns: 6, endOnFailure: true },
  );
}, 240_000);
