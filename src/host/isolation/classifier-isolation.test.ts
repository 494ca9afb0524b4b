// A request classifier in a thread of its own, through a configured host: what it is shown, what it answers, what a hostile one costs.
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { WorkerSpec } from '../../fleet/index.ts';
import type { ManualClock } from '../../plugin/index.ts';
import type { ClassifierFacts, ClassifierOutcome } from '../classifier-types.ts';
import type { ResolvedPluginHost } from '../index.ts';
import { PING_MS } from './classifier-work.ts';
import { IsolationBench, PARTITION } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterEach(() => bench.disposeHosts());
afterAll(() => bench.close());

const WORKER = { workerId: 7n, rank: 0 };

bench.write(
  'queue.ts',
  `import { isMainThread } from 'node:worker_threads';
import { CapacityExhausted, defineRequestClassifier, RateLimited } from 'pointsman/plugin';
// The way to the port that is left: what Node.js calls on whatever receives a message.
const receive = Symbol.for('nodejs.internal.kHybridDispatch');
const targets = EventTarget.prototype as any;
const received = targets[receive];
let stolen: any = null;
targets[receive] = function (...given: unknown[]) {
  stolen = this;
  return received.apply(this, given);
};
const odd: Record<string, () => any> = {
  limited: () => { throw new RateLimited(2.5, 'slowly'); },
  endless: () => { throw new RateLimited(Infinity); },
  full: () => { throw new CapacityExhausted('full up'); },
  late: () => Promise.reject(new CapacityExhausted('full later')),
  throws: () => { throw new Error('secret'); },
  textless: () => { throw { toString() { throw new Error('no'); } }; },
  text: () => 'chat',
  unknown: () => ({ workerTarget: { workerId: 1n, slot: 2 } }),
  noclass: () => ({ policyClass: 'x'.repeat(1e6) }),
  getter: () => ({ get dueAt() { throw new Error('secret'); } }),
  target: () => ({ workerTarget: { workerId: 2n ** 64n - 1n }, dueAt: 5, schedulingCostTokens: null }),
  loop: () => { for (;;); },
  thenloop: async () => { await null; for (;;); },
  spin: () => ({ get dueAt() { for (;;); } }),
  exit: () => process.exit(3),
  pair: () => ({ schedulingCostTokens: 1 }),
};
export default defineRequestClassifier({
  type: 'queue',
  isolation: 'thread',
  create: ({ log, metrics, rng, clock, blockSize, partition, workers }) => {
    const waiting: ((answer: any) => void)[] = [];
    const heard: string[] = [];
    return {
      classify(request) {
        const what = request.requestId.split('-')[0] ?? '';
        if (what === 'waits') return new Promise((resolve) => waiting.push(resolve));
        if (what === 'timer') return new Promise((resolve) => clock.schedule(5, () => resolve({ dueAt: clock.now() })));
        if (what === 'tell') {
          metrics.count('told');
          log.info('told', {
            main: isMainThread, model: partition.model, blockSize: blockSize ?? 0,
            workers: workers().map(({ workerId, ranks, totalKvBlocks }) => workerId + ':' + ranks + ':' + totalKvBlocks).join(' '),
            request: JSON.stringify(request, (_, value) => typeof value === 'bigint' ? String(value) : value),
            frozen: Object.isFrozen(request) && Object.isFrozen(workers()), draw: rng.next(), heard: heard.join(' '),
          });
          return undefined;
        }
        if (what === 'forge') {
          for (let task = 0; task < 200; task += 1) stolen?.postMessage({ kind: 'classified', task, answer: { kind: 'capacity', message: 'forged' } });
          return undefined;
        }
        if (what === 'flood') {
          for (let at = 0; at < 50000; at += 1) stolen.postMessage({ kind: 'log', level: 'info', message: 'flood', fields: {} });
          return new Promise(() => undefined);
        }
        return odd[what]?.();
      },
      async onEvent(event) {
        heard.push(event.kind + ':' + event.requestId);
        if (event.requestId.startsWith('eventloop')) for (;;);
        if (event.requestId.startsWith('eventexit')) process.exit(4);
        if (event.requestId.startsWith('eventthrows')) throw new Error('not now');
        if (event.kind === 'sent' && event.requestId.startsWith('opens')) for (const go of waiting.splice(0)) go(undefined);
      },
      dispose: () => log.info('disposed'),
    };
  },
});
`,
);

const YAML = 'plugins: [./queue.ts]\nrequest_classifier: { type: queue, max_wait: 10m }';

function classified(host: ResolvedPluginHost, clock: ManualClock, partition = PARTITION) {
  const stage = host.classifierFor(partition);
  if (stage === null) throw new Error('nobody classifies');
  const begin = (requestId: string, facts: Partial<ClassifierFacts> = {}) => {
    const lifecycle = stage.begin({
      requestId,
      session: null,
      promptTokens: 100,
      policyClass: null,
      arrivedAt: clock.now(),
      pinnedWorker: null,
      ...facts,
    });
    const outcome = new Promise<ClassifierOutcome>((resolve) => lifecycle.classify(resolve));
    return { lifecycle, outcome };
  };
  /** What a request comes to, in a word. */
  const ask = async (requestId: string): Promise<string> => {
    const { lifecycle, outcome } = begin(requestId);
    const text = outcomeText(await outcome);
    lifecycle.aborted(null, null);
    return text;
  };
  return { begin, ask };
}

function outcomeText(outcome: ClassifierOutcome): string {
  if (outcome.kind === 'refused') return outcome.error.code;
  if (outcome.kind === 'over') return 'over';
  const { asked, overrides } = outcome.classification;
  const values = JSON.stringify(overrides, (_, value) => (typeof value === 'bigint' ? String(value) : value));
  return `${asked ? 'asked' : 'passed'} ${values}`;
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 2));
}

async function setUp(yaml = YAML, fleet?: Parameters<IsolationBench['host']>[1]) {
  const made = await bench.host(yaml, fleet);
  const requests = classified(made.host, made.clock);
  let tries = 0;
  /** Until the thread answers again; pauses between threads pass at once. */
  const untilBack = () =>
    until(async () => {
      tries += 1;
      if ((await requests.ask(`pair-back${tries}`)) === 'asked {"schedulingCostTokens":1}') return true;
      const next = made.clock.nextTimerAt() ?? made.clock.now();
      if (next - made.clock.now() < 15_000) made.clock.advanceTo(next);
      return false;
    });
  /** Until the thread has taken all it was given. */
  const untilTaken = () => until(() => (made.clock.nextTimerAt() ?? 1e12) - made.clock.now() > 50);
  return { ...made, ...requests, untilBack, untilTaken };
}

describe('a classifier in a thread', () => {
  it('sees the request, its partition and the workers as they are', async () => {
    const specs = [{ id: 7n, model: 'tiny', ranks: { first: 0, count: 2 }, totalKvBlocks: 90 }];
    const fleet = {
      slotRank: () => 0,
      workerOfSlot: () => null,
      workers: () =>
        specs.map((spec) => ({
          spec: spec satisfies Partial<WorkerSpec>,
          state: 'ready',
          capabilities: null,
        })),
      version: 1,
    };
    const { begin, clock, logged } = await setUp(
      `${YAML}\nmodels: { tiny: { block_size: 16, tokens: { source: estimate } } }`,
      { fleet },
    );
    const session = { sessionId: 's', agentHeaders: { 'x-a': ['b'] } };
    await begin('tell-1', { session, policyClass: 'default', pinnedWorker: { workerId: 7n, rank: null } })
      .outcome;
    const told = () => logged.findLast(({ message }) => message === 'told')?.fields;
    expect(told()).toEqual({
      main: false,
      model: 'tiny',
      blockSize: 16,
      workers: '7:0,1:90',
      request: JSON.stringify({
        requestId: 'tell-1',
        inputTokens: 100,
        schedulingCostTokens: 100,
        policyClass: 'default',
        ingressAt: clock.now(),
        dueAt: null,
        contextTokens: 100,
        session,
        pinnedWorker: { workerId: '7', rank: null },
      }),
      frozen: true,
      draw: expect.any(Number),
      heard: '',
    });
    specs.push({ id: 8n, model: 'tiny', ranks: { first: 0, count: 1 }, totalKvBlocks: 40 });
    await begin('tell-2').outcome;
    expect(told()?.workers).toBe('7:0,1:90');
    fleet.version += 1;
    await begin('tell-3').outcome;
    expect(told()?.workers).toBe('7:0,1:90 8:0:40');
  });

  it('answers with overrides and refusals as in process', async () => {
    const { ask, begin, logged } = await setUp(`${YAML}\ncontainment: { breaker: { failures: 100 } }`);
    const codes: Record<string, string> = {};
    for (const what of [
      'target',
      'pair',
      'full',
      'late',
      'limited',
      'endless',
      'throws',
      'textless',
      'text',
      'unknown',
      'noclass',
      'getter',
    ]) {
      codes[what] = await ask(`${what}-1`);
    }
    expect(codes).toEqual({
      target:
        'asked {"dueAt":5,"schedulingCostTokens":null,"workerTarget":{"workerId":"18446744073709551615","rank":null}}',
      pair: 'asked {"schedulingCostTokens":1}',
      full: 'PM_CLASSIFIER_CAPACITY',
      late: 'PM_CLASSIFIER_CAPACITY',
      limited: 'PM_CLASSIFIER_RATE_LIMITED',
      endless: 'PM_CLASSIFIER_RATE_LIMITED',
      throws: 'PM_CLASSIFIER_THREW',
      textless: 'PM_CLASSIFIER_THREW',
      text: 'PM_CLASSIFIER_INVALID',
      unknown: 'PM_CLASSIFIER_INVALID',
      noclass: 'PM_CLASSIFIER_INVALID',
      getter: 'PM_CLASSIFIER_THREW',
    });
    const limited = await begin('limited-2').outcome;
    if (limited.kind !== 'refused') throw new Error('it was not refused');
    expect([limited.error.message, limited.error.details]).toEqual([
      'slowly',
      { classifier: 'queue', retry_after: '3' },
    ]);
    const errors = logged.filter(({ level }) => level === 'error').map(({ fields }) => fields?.error);
    expect(errors).toEqual([
      'secret',
      'classify must answer an object with overrides or undefined, got a string',
    ]);
  });

  it('lets requests wait, on events and on its clock, and be left', async () => {
    const { begin, ask, clock, logged } = await setUp();
    const waits = begin('waits-1');
    const leaves = begin('waits-2');
    leaves.lifecycle.aborted(null, null);
    expect(outcomeText(await leaves.outcome)).toBe('over');
    const opens = begin('opens-1');
    await opens.outcome;
    opens.lifecycle.sent(WORKER);
    opens.lifecycle.responding(WORKER);
    opens.lifecycle.completed(WORKER);
    expect(outcomeText(await waits.outcome)).toBe('asked {}');
    expect(await ask('tell-1')).toBe('asked {}');
    expect(logged.findLast(({ message }) => message === 'told')?.fields?.heard).toBe(
      'aborted:waits-2 sent:opens-1 responding:opens-1 completed:opens-1',
    );
    const timed = await begin('timer-1').outcome;
    if (timed.kind !== 'classified') throw new Error('it was not classified');
    // Timers of a thread run by the machine's time, and its clock with them.
    expect(timed.classification.overrides.dueAt ?? 0).toBeGreaterThan(clock.now());
  });

  it('is given up by a request after max_wait alone', async () => {
    const { begin, ask, clock, logged, untilTaken } = await setUp(YAML.replace('10m', '5s'));
    const { outcome } = begin('waits-1');
    await ask('pair-1');
    for (let ms = 0; ms < 5000; ms += 500) {
      await untilTaken();
      clock.advanceTo(clock.now() + 500);
      // It shows between times that it is alive.
      await ask(`pair-${ms + 2}`);
    }
    expect(outcomeText(await outcome)).toBe('PM_CLASSIFIER_TIMEOUT');
    expect(logged.filter(({ message }) => message === 'the thread of a plugin is replaced')).toEqual([]);
  });

  it('may answer late whom nobody waits for any more, however many', async () => {
    const { begin, ask, logged } = await setUp();
    for (let count = 0; count < 3000; count += 1) begin(`waits-${count}`).lifecycle.aborted(null, null);
    const opens = begin('opens-1');
    await opens.outcome;
    opens.lifecycle.sent(WORKER);
    opens.lifecycle.completed(WORKER);
    for (let count = 0; count < 3; count += 1) {
      expect(await ask(`pair-${count}`)).toBe('asked {"schedulingCostTokens":1}');
    }
    expect(logged.filter(({ message }) => message === 'the thread of a plugin is replaced')).toEqual([]);
  });

  it('has one thread for all partitions, and is disposed in it', async () => {
    const { host, clock, begin, logged } = await setUp();
    const other = classified(host, clock, { model: 'other', routingGroup: 'default' });
    await begin('tell-1').outcome;
    await other.begin('tell-1').outcome;
    expect(logged.filter(({ message }) => message === 'told').map(({ fields }) => fields?.model)).toEqual([
      'tiny',
      'other',
    ]);
    logged.splice(0);
    await host.dispose();
    expect(logged.filter(({ message }) => message === 'disposed'))
      // And that of the model that stands for all while none is configured.
      .toHaveLength(3);
    await bench.untilNoThread();
  });

  it('runs in process where the configuration says so, or nothing may depend on threads', async () => {
    const here = await setUp(YAML.replace('max_wait', 'isolation: in-process, deadline: 5ms, max_wait'));
    await here.begin('tell-1').outcome;
    expect(here.logged.find(({ message }) => message === 'told')?.fields?.main).toBe(true);
    expect(await here.metrics.text()).toContain(
      'pointsman_plugin_counts_total{plugin="queue",name="told",label=""} 1',
    );
    expect(here.host.warnings.map(({ message }) => message)).toEqual([
      'queue runs in process, where nothing is waited for: deadline has no effect; add isolation: thread, or remove it',
    ]);
    const virtual = await setUp(YAML, { threads: false });
    await virtual.begin('tell-1').outcome;
    expect(virtual.logged.map(({ message }) => message)).toContain(
      'isolated plugins run in process here: threads have no part in virtual time',
    );
  });

  it('that cannot start ends the start in its own words', async () => {
    bench.write(
      'picky.ts',
      `import { isMainThread } from 'node:worker_threads';
import { defineRequestClassifier } from 'pointsman/plugin';
export const picky = defineRequestClassifier({ type: 'picky', create: ({ partition }) => {
  if (!isMainThread) throw new Error(partition.model + ' is beneath me');
  return {};
} });
export const wrong = { ...picky, type: 'wrong', isolation: 'process' };`,
    );
    expect(
      await bench.problems('plugins: [./picky.ts]\nrequest_classifier: { type: picky, isolation: thread }'),
    ).toEqual([
      'router.yaml:1:11: plugins[0]: export wrong of ./picky.ts: isolation must be one of in-process, thread, got a string',
      'router.yaml:2:1: request_classifier: create of request classifier picky threw for model default: default is beneath me',
    ]);
    expect(await bench.problems('request_classifier: { type: pass-through, isolation: thread }')).toEqual([
      'router.yaml:1:54: request_classifier.isolation: pass-through is built in and runs in process; remove isolation, which is for plugins',
    ]);
  });
});

describe('a hostile classifier in a thread', () => {
  const lost = (reason: string) => `pointsman_plugin_threads_lost_total{plugin="queue",reason="${reason}"}`;

  it.each(['loop', 'spin'])(
    'that hangs (%s) costs that request, others pass, and its thread is replaced',
    async (what) => {
      const { begin, ask, clock, metrics, untilBack, untilTaken } = await setUp();
      const waits = begin('waits-1');
      await ask('pair-1');
      await untilTaken();
      const hangs = begin(`${what}-1`);
      const behind = begin('pair-2');
      clock.advanceTo(clock.now() + 49);
      expect(await metrics.text()).not.toContain(lost('timed_out'));
      clock.advanceTo(clock.now() + 1);
      expect(outcomeText(await hangs.outcome)).toBe('PM_CLASSIFIER_TIMEOUT');
      expect([outcomeText(await behind.outcome), outcomeText(await waits.outcome)]).toEqual([
        'passed {}',
        'passed {}',
      ]);
      expect(await ask('pair-3')).toBe('passed {}');
      expect(await metrics.text()).toContain(`${lost('timed_out')} 1`);
      await untilBack();
    },
  );

  it('that hangs after its answer was put off is found out between times', async () => {
    const { begin, ask, clock, metrics, untilBack } = await setUp();
    const { outcome } = begin('thenloop-1');
    // What it took before shows that it has begun.
    await until(() => (clock.nextTimerAt() ?? 0) - clock.now() === PING_MS);
    clock.advanceTo(clock.now() + PING_MS);
    clock.advanceTo(clock.now() + 50);
    expect(await metrics.text()).toContain(`${lost('timed_out')} 1`);
    expect(outcomeText(await outcome)).toBe('passed {}');
    await untilBack();
    expect(await ask('full-1')).toBe('PM_CLASSIFIER_CAPACITY');
  });

  it.each([
    ['eventloop', 'timed_out'],
    ['eventexit', 'died'],
  ])('that ends over an event (%s) costs no request its answer', async (what, reason) => {
    const { begin, clock, metrics, logged, ask, untilBack, untilTaken } = await setUp(
      `${YAML}\ncontainment: { tripped: { classifier: refuse } }`,
    );
    const { lifecycle, outcome } = begin(`${what}-1`);
    await outcome;
    const waits = begin('waits-1');
    await untilTaken();
    lifecycle.sent(WORKER);
    if (reason === 'timed_out') clock.advanceTo(clock.now() + 50);
    expect(outcomeText(await waits.outcome)).toBe('PM_CLASSIFIER_TRIPPED');
    expect(await metrics.text()).toContain(`${lost(reason)} 1`);
    await untilBack();
    // The next thread is not told of what it never knew, and hears of its own.
    lifecycle.completed(WORKER);
    waits.lifecycle.aborted(null, 'PM_CLASSIFIER_TRIPPED');
    await ask('tell-1');
    const heard = String(logged.findLast(({ message }) => message === 'told')?.fields?.heard);
    expect(heard).not.toContain(what);
    expect(heard).toContain('aborted:pair-back');
  });

  it('that ends its process costs that request, and repetition trips its breaker', async () => {
    const { ask, host, metrics, clock, untilBack } = await setUp(
      `${YAML}\ncontainment: { breaker: { failures: 3, window: 10m } }`,
    );
    for (let time = 1; time <= 3; time += 1) {
      expect(await ask(`exit-${time}`)).toBe('PM_CLASSIFIER_THREW');
      if (time < 3) await untilBack();
    }
    expect(await metrics.text()).toContain(`${lost('died')} 3`);
    expect(host.containment()).toMatchObject([
      { part: 'classifier', plugin: 'queue', state: 'tripped', failures: 3, trips: 1 },
    ]);
    clock.advanceTo(clock.now() + 11_000);
    await untilBack();
    expect(host.containment()).toMatchObject([{ state: 'ok' }]);
  });

  it('that forges answers or floods costs its thread, not the router', async () => {
    const { ask, begin, logged, untilBack } = await setUp();
    const waits = begin('waits-1');
    await ask('forge-1');
    // What it may forge is its own answers.
    expect(outcomeText(await waits.outcome)).toBe('PM_CLASSIFIER_CAPACITY');
    await untilBack();
    expect(await ask('flood-1')).toBe('PM_CLASSIFIER_THREW');
    expect(logged.filter(({ message }) => message === 'flood').length).toBeLessThan(2000);
    expect(
      logged.findLast(({ message }) => message === 'the thread of a plugin is replaced')?.fields?.why,
    ).toBe('it sent too many messages');
    await untilBack();
  });

  it('that throws in onEvent is counted, and hears the next event', async () => {
    const { begin, metrics, ask, logged } = await setUp();
    const { lifecycle, outcome } = begin('eventthrows-1');
    await outcome;
    lifecycle.sent(WORKER);
    lifecycle.completed(WORKER);
    await ask('tell-1');
    expect(logged.findLast(({ message }) => message === 'told')?.fields?.heard).toBe(
      'sent:eventthrows-1 completed:eventthrows-1',
    );
    // Whoever answers is done with what came before.
    await ask('pair-1');
    expect(await metrics.text()).toContain('pointsman_classifier_event_failures_total{classifier="queue"} 2');
  });
});
