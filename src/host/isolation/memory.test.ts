// What a plugin's thread may hold, through a configured host: one that leaks is replaced, one that makes garbage is not, and one that
// allocates without end within one call meets its deadline.
import { existsSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { ClassifierOutcome } from '../classifier-types.ts';
import { IsolationBench, outcomes, PARTITION } from './isolation.fixtures.ts';
import { type CollectionRecord, HeldMemory } from './memory-watch.ts';

const bench = new IsolationBench();
afterEach(() => bench.disposeHosts());
afterAll(() => bench.close());

const IDLE = 1;
const LEAK_OBJECTS = 2;
const LEAK_BYTES = 3;
const WASTE_OBJECTS = 4;
const WASTE_BYTES = 5;
const HOG = 6;
const HOLD_OBJECTS = 7;
const HOLD_BYTES = 8;
/** Puts its answer off for ever, as the two before do. */
const WAIT = 9;
/** Keeps objects for a while, so that V8 looks at what there is. */
const CHURN_OBJECTS = 0;

bench.write(
  'eater.ts',
  `import { writeFileSync } from 'node:fs';
import { defineHintPolicy, defineRequestClassifier } from 'pointsman/plugin';
const leaked: unknown[] = [];
const recent: unknown[] = [];
let calls = 0;
const mib = (count: number, to: unknown[] = []) => {
  for (let n = 0; n < count * 13; n += 1) to.push(new Array(10_000).fill(n));
};
function eat(what: number): void {
  calls += 1;
  if (what === ${LEAK_OBJECTS}) mib(8, leaked);
  if (what === ${LEAK_BYTES}) leaked.push(new Uint8Array(8 * 2 ** 20));
  if (what === ${WASTE_OBJECTS}) mib(10);
  if (what === ${WASTE_BYTES}) for (let n = 0; n < 10; n += 1) new Uint8Array(2 ** 20);
  if (what === ${HOLD_OBJECTS}) mib(320, leaked);
  if (what === ${HOLD_BYTES}) leaked.push(new Uint8Array(320 * 2 ** 20).fill(1));
  if (what === ${CHURN_OBJECTS}) {
    const latest: unknown[] = [];
    mib(8, latest);
    recent[calls % 4] = latest;
  }
  if (what === ${HOG}) {
    mib(300, leaked);
    writeFileSync(${JSON.stringify(bench.path('hogging'))}, '');
    // Slowly from here on, so that V8's own limit stays far however late the test looks.
    for (;;) {
      leaked.push(new Array(1000).fill(0));
      for (const until = performance.now() + 5; performance.now() < until; );
    }
  }
}
const mark = (payload: object) => [{ type: 'acme.mark', version: '1.0', payload }];
export const eater = defineHintPolicy({
  type: 'eater',
  isolation: 'thread',
  create: () => ({ buildHints({ promptTokens }) { eat(promptTokens); return mark({ calls }); } }),
});
export const good = defineHintPolicy({ type: 'good', create: () => ({ buildHints: () => mark({}) }) });
export const gate = defineRequestClassifier({
  type: 'gate',
  isolation: 'thread',
  create: () => ({
    classify({ inputTokens }) {
      eat(inputTokens);
      return inputTokens >= ${HOLD_OBJECTS} ? new Promise(() => undefined) : { schedulingCostTokens: calls };
    },
  }),
});
`,
);

const HINTS = `plugins: [./eater.ts]
worker_selection: { aggregated: { hints: [{ type: eater }, { type: good }] } }
containment: { breaker: { failures: 10000, overruns: 10000 } }`;
const GATE = `plugins: [./eater.ts]
request_classifier: { type: gate }
containment: { breaker: { failures: 10000, overruns: 10000 } }`;
const TOO_MUCH = /^it holds (\d+) MiB, more than the 256 MiB a thread may$/;

const pause = () => new Promise((resolve) => setTimeout(resolve, 1));
const reasons = ({ logged }: Pick<Awaited<ReturnType<IsolationBench['host']>>, 'logged'>) =>
  logged.flatMap(({ fields }) => (typeof fields?.why === 'string' ? [fields.why] : []));

/** Asks with so many tokens until the first thread is gone; answers why. */
async function untilReplaced(
  host: Parameters<typeof reasons>[0],
  ask: () => Promise<unknown>,
): Promise<string | undefined> {
  while (reasons(host).length === 0) {
    await ask();
    await pause();
  }
  return reasons(host)[0];
}

describe('a hint policy in a thread', () => {
  it.each([
    ['objects', LEAK_OBJECTS],
    ['typed arrays', LEAK_BYTES],
  ])('that leaks %s is replaced once it holds more than a thread may', async (_, promptTokens) => {
    const made = await bench.host(HINTS);
    const why = await untilReplaced(made, () => made.run({ promptTokens }));
    expect(Number(TOO_MUCH.exec(why ?? '')?.[1])).toBeGreaterThan(256);
    await made.untilReady();
    expect(outcomes(await made.run({ promptTokens: IDLE }))).toEqual(['eater sent', 'good sent']);
    expect(reasons(made)).toHaveLength(1);
    expect(await made.metrics.text()).toContain(
      'pointsman_plugin_threads_lost_total{plugin="eater",reason="died"} 1',
    );
  });

  it.each([
    ['objects', WASTE_OBJECTS],
    ['typed arrays', WASTE_BYTES],
  ])('that makes garbage of %s is not taken to hold it', async (_, promptTokens) => {
    const made = await bench.host(HINTS);
    for (let call = 1; call <= 200; call += 1) {
      expect(outcomes(await made.run({ promptTokens }))).toEqual(['eater sent', 'good sent']);
    }
    const { hint } = await made.run({ promptTokens: IDLE });
    expect(hint?.actions[0]?.payload).toEqual({ calls: 201 });
    expect(reasons(made)).toEqual([]);
  });

  it('that allocates without end within a call is given up at its deadline', async () => {
    const made = await bench.host(HINTS);
    const { result } = made.start({ promptTokens: HOG });
    while (!existsSync(bench.path('hogging'))) await pause();
    made.clock.advanceTo(made.clock.now() + 50);
    expect(outcomes(await result)).toEqual(['eater dropped timed_out', 'good sent']);
    await made.untilReady();
    expect(reasons(made)).toEqual(['its deadline passed']);
    expect(outcomes(await made.run({ promptTokens: IDLE }))).toEqual(['eater sent', 'good sent']);
  });
});

describe('a request classifier in a thread', () => {
  async function setUp(yaml: string) {
    const made = await bench.host(yaml);
    const stage = made.host.classifierFor(PARTITION);
    if (stage === null) throw new Error('nobody classifies');
    let asked = 0;
    const begin = (promptTokens: number): Promise<ClassifierOutcome> => {
      asked += 1;
      const request = { session: null, policyClass: null, pinnedWorker: null, arrivedAt: made.clock.now() };
      const lifecycle = stage.begin({ ...request, requestId: `r-${asked}`, promptTokens });
      return new Promise<ClassifierOutcome>((resolve) => lifecycle.classify(resolve)).then((outcome) => {
        lifecycle.aborted(null, null);
        return outcome;
      });
    };
    /** What comes of the first request that another thread is asked about: it has counted from the beginning. */
    const served = async () => {
      for (;;) {
        const outcome = await begin(IDLE);
        if (outcome.kind === 'classified' && outcome.classification.asked) {
          return outcome.classification.overrides;
        }
        await pause();
      }
    };
    return { ...made, begin, served };
  }

  it('that leaks is replaced, and requests pass meanwhile', async () => {
    const made = await setUp(GATE);
    const why = await untilReplaced(made, () => made.begin(LEAK_OBJECTS));
    expect(Number(TOO_MUCH.exec(why ?? '')?.[1])).toBeGreaterThan(256);
    expect(await made.served()).toEqual({ schedulingCostTokens: 1 });
  });

  describe.each([
    ['objects', HOLD_OBJECTS, CHURN_OBJECTS],
    ['typed arrays', HOLD_BYTES, WASTE_BYTES],
  ])('that holds too many %s from one request on', (_, promptTokens, others) => {
    it.each([
      ['pass-through', { kind: 'classified', classification: { asked: false } }],
      ['refuse', { kind: 'refused', error: { code: 'PM_CLASSIFIER_TRIPPED', status: 503 } }],
    ])(
      'loses its thread alone, and those who wait are answered as configured: %s',
      async (tripped, answer) => {
        const made = await setUp(
          `${GATE.replace('\ncontainment: {', `\ncontainment: { tripped: { classifier: ${tripped} },`)}
worker_selection: { aggregated: { hints: [{ type: eater }, { type: good }] } }`,
        );
        const waits = [made.begin(WAIT), made.begin(promptTokens), made.begin(WAIT)];
        const why = await untilReplaced(made, () => made.begin(others));
        expect(Number(TOO_MUCH.exec(why ?? '')?.[1])).toBeGreaterThan(256);
        for (const outcome of await Promise.all(waits)) expect(outcome).toMatchObject(answer);
        expect(await made.served()).toEqual({ schedulingCostTokens: 1 });
        // The thread of the hint policy is the one it had.
        expect(outcomes(await made.run({ promptTokens: IDLE }))).toEqual(['eater sent', 'good sent']);
        expect(reasons(made)).toHaveLength(1);
        const metrics = await made.metrics.text();
        expect(metrics).toContain('pointsman_plugin_threads_lost_total{plugin="gate",reason="died"} 1');
        expect(metrics).not.toContain('pointsman_plugin_threads_lost_total{plugin="eater"');
      },
    );
  });
});

describe('what is held', () => {
  const record = (gcType: string, heap: number, before: number, after = before): CollectionRecord => ({
    gcType,
    beforeGC: { heapStatistics: { usedHeapSize: 1000, externalMemory: before } },
    afterGC: { heapStatistics: { usedHeapSize: heap, externalMemory: after } },
  });
  const held = (...records: CollectionRecord[]) => {
    const memory = new HeldMemory();
    return records.map((one) => memory.take(one));
  };

  it('is what is on the heap after a major collection, whatever a lesser one leaves', () => {
    const lesser = ['Scavenge', 'MinorMarkSweep', 'IncrementalMarking', 'ProcessWeakCallbacks'];
    expect(held(...lesser.map((type) => record(type, 500, 0)), record('MarkSweepCompact', 30, 0))).toEqual([
      0, 0, 0, 0, 30,
    ]);
  });

  it('is besides what two further major collections have not lowered', () => {
    const major = (before: number, after = before) => record('MarkSweepCompact', 10, before, after);
    expect(held(major(300), major(400), major(500), major(600), major(700))).toEqual([10, 10, 10, 310, 410]);
    const swept = record('Scavenge', 9, 20);
    expect(held(major(300), major(400), swept, major(500), major(600), major(700), major(800))).toEqual([
      10, 10, 0, 10, 30, 30, 510,
    ]);
    expect(held(major(300), major(400), major(500, 40), major(600), major(700))).toEqual([
      10, 10, 10, 50, 50,
    ]);
  });
});
