// The rules of a classifier's stage: answers at once and late, refusals, failures, the breaker, the end.
import { describe, expect, it } from 'vitest';
import {
  CapacityExhausted,
  type ClassifyAnswer,
  type ClassifyRequest,
  RateLimited,
} from '../plugin/index.ts';
import { complete, PARTITION, promisesRan, testStage, WORKER } from './classifier.fixtures.ts';

const FACTS = {
  requestId: 'retried',
  session: null,
  promptTokens: 1,
  policyClass: null,
  arrivedAt: 0,
  pinnedWorker: null,
};
const never = () => new Promise<undefined>(() => undefined);

describe('a classification', () => {
  it('that answers at once is there before classify returns', async () => {
    const { begin } = await testStage(() => ({ classify: () => ({ schedulingCostTokens: 7 }) }));
    const { outcomes } = begin('a');
    expect(outcomes).toEqual([
      {
        kind: 'classified',
        classification: {
          classifier: 'mine',
          asked: true,
          waitedMs: 0,
          overrides: { schedulingCostTokens: 7 },
        },
      },
    ]);
  });

  it('may wait on the clock, and holds nobody else up', async () => {
    const { begin, clock, solo } = await testStage((time) => ({
      classify: ({ requestId }) =>
        requestId === 'slow'
          ? new Promise((resolve) => time.schedule(500, () => resolve({ dueAt: 9 })))
          : undefined,
    }));
    const slow = begin('slow');
    expect(begin('fast').outcome()).toBe('classified');
    expect([slow.outcome(), solo.classifiersUnsettled()]).toEqual(['waiting', true]);
    clock.advanceTo(1500);
    await promisesRan();
    expect(slow.outcomes).toMatchObject([{ classification: { waitedMs: 500, overrides: { dueAt: 9 } } }]);
    expect(solo.classifiersUnsettled()).toBe(false);
  });

  it('sees the request, frozen, and follows its progress', async () => {
    const seen: ClassifyRequest[] = [];
    const { begin } = await testStage(() => ({
      classify(request): ClassifyAnswer {
        seen.push(request);
        return undefined;
      },
    }));
    const session = { sessionId: 's', agentHeaders: { 'x-tenant': ['a'] } };
    const pinnedWorker = { workerId: 3n, rank: null };
    const { lifecycle } = begin('a', { session, pinnedWorker, policyClass: 'batch', arrivedAt: 12 });
    const [request] = seen;
    expect(request).toEqual({
      requestId: 'a',
      session,
      inputTokens: 100,
      schedulingCostTokens: 100,
      policyClass: 'batch',
      ingressAt: 12,
      dueAt: null,
      contextTokens: 100,
      pinnedWorker,
    });
    const parts = [request, request?.session, request?.session?.agentHeaders, request?.pinnedWorker];
    expect([...parts, request?.session?.agentHeaders['x-tenant']].every(Object.isFrozen)).toBe(true);
    lifecycle.progress(130);
    lifecycle.progress(120);
    expect(request?.contextTokens).toBe(130);
  });

  it('is asked for once; a retry gets the same answer', async () => {
    let calls = 0;
    const { begin } = await testStage(() => ({
      classify() {
        calls += 1;
        return { schedulingCostTokens: calls };
      },
    }));
    const { lifecycle, outcomes } = begin('a');
    lifecycle.classify((outcome) => outcomes.push(outcome));
    expect(calls).toBe(1);
    expect(outcomes[1]).toEqual(outcomes[0]);
  });

  it('that comes after the end changes nothing, for that request or a later one of the same id', async () => {
    const answers: ((value: undefined) => void)[] = [];
    const { begin, counts } = await testStage(() => ({
      classify: () => new Promise<undefined>((resolve) => answers.push(resolve)),
    }));
    const first = begin('a');
    first.lifecycle.aborted(null, null);
    const second = begin('a');
    answers[0]?.(undefined);
    await promisesRan();
    expect([first.outcome(), second.outcome()]).toEqual(['over', 'waiting']);
    answers[1]?.(undefined);
    await promisesRan();
    expect([first.outcome(), second.outcome()]).toEqual(['over', 'classified']);
    expect(counts).toEqual({ left: 1, classified: 1 });
  });

  it('that never comes ends with the configured wait, and costs that request alone', async () => {
    const { begin, clock, errors, counts } = await testStage(
      () => ({ classify: ({ requestId }) => (requestId === 'a' ? never() : undefined) }),
      { maxWaitMs: 250 },
    );
    const { outcome } = begin('a');
    clock.advanceTo(1249);
    expect(outcome()).toBe('waiting');
    clock.advanceTo(1250);
    expect(outcome()).toBe('PM_CLASSIFIER_TIMEOUT');
    expect(begin('b').outcome()).toBe('classified');
    expect(errors).toHaveLength(1);
    expect(counts).toEqual({ 'failed PM_CLASSIFIER_TIMEOUT': 1, classified: 1 });
  });
});

describe('a refusal', () => {
  const refusing = (thrown: unknown) =>
    testStage(() => ({
      classify() {
        throw thrown;
      },
    }));
  it.each<[number, string]>([
    [2.2, '3'],
    [0, '1'],
    [-4, '1'],
    [Number.NaN, '1'],
    [Number.POSITIVE_INFINITY, '86400'],
    [1e9, '86400'],
  ])('RateLimited(%d) says Retry-After %s', async (seconds, header) => {
    const { begin, errors } = await refusing(new RateLimited(seconds, 'tenant a is over its share'));
    expect(begin('a').outcomes).toMatchObject([
      {
        kind: 'refused',
        error: {
          code: 'PM_CLASSIFIER_RATE_LIMITED',
          status: 429,
          message: 'tenant a is over its share',
          details: { retry_after: header },
        },
      },
    ]);
    expect(errors).toEqual([]);
  });

  it('CapacityExhausted may come late, too', async () => {
    const { begin, counts } = await testStage(() => ({
      classify: () => Promise.reject(new CapacityExhausted()),
    }));
    const { outcome } = begin('a');
    await promisesRan();
    expect(outcome()).toBe('PM_CLASSIFIER_CAPACITY');
    expect(counts).toEqual({ 'refused PM_CLASSIFIER_CAPACITY': 1 });
  });

  it('is a new error with at most 256 characters of the text, without control characters', async () => {
    const thrown = new CapacityExhausted(`a\n${'b'.repeat(1000)}`);
    const { begin } = await refusing(thrown);
    const [outcome] = begin('a').outcomes;
    const message = outcome?.kind === 'refused' ? outcome.error.message : '';
    expect(message).toBe(`a ${'b'.repeat(254)}`);
  });

  it('says nothing bad of the classifier: its breaker stays shut', async () => {
    const { begin, guards } = await refusing(new CapacityExhausted());
    for (let at = 0; at < 20; at += 1) expect(begin(`r${at}`).outcome()).toBe('PM_CLASSIFIER_CAPACITY');
    expect(guards.status()).toMatchObject([{ part: 'classifier', role: null, state: 'ok', failures: 0 }]);
  });
});

describe('a failure', () => {
  it('has a fixed text for the client and the real one in the log, once', async () => {
    const { begin, errors } = await testStage(() => ({
      classify() {
        throw new Error('password: hunter2');
      },
    }));
    const failed = [begin('a'), begin('b')].map(({ outcomes: [outcome] }) =>
      outcome?.kind === 'refused' ? [outcome.error.code, outcome.error.message, outcome.error.details] : null,
    );
    const body = [
      'PM_CLASSIFIER_THREW',
      'the request classifier failed, so the request was not routed; send it again',
      { classifier: 'mine' },
    ];
    expect(failed).toEqual([body, body]);
    expect(errors).toEqual(['a request classifier failed: password: hunter2']);
  });

  it('trips the breaker when it is repeated: requests pass as they are, then one call decides', async () => {
    let broken = true;
    let calls = 0;
    const { begin, clock, events, guards } = await testStage(() => ({
      classify() {
        calls += 1;
        if (broken) throw new Error('no');
        return { schedulingCostTokens: 1 };
      },
    }));
    const outcomes = Array.from({ length: 5 }, (_, at) => begin(`r${at}`).outcome());
    expect(outcomes).toEqual([...Array(3).fill('PM_CLASSIFIER_THREW'), 'classified', 'classified']);
    expect(calls).toBe(3);
    const passed = begin('passed');
    expect(passed.outcomes).toMatchObject([{ classification: { asked: false, overrides: {} } }]);
    // Whoever was not asked about a request hears nothing of it.
    complete(passed.lifecycle);
    expect(events).toEqual([]);
    clock.advanceTo(11_000);
    broken = false;
    expect(begin('probe').outcomes).toMatchObject([{ classification: { asked: true } }]);
    expect(guards.status()[0]?.state).toBe('ok');
  });

  it('of late answers trips it as well; a probe that waits decides when it answers', async () => {
    const answers: { resolve(value: undefined): void; reject(thrown: unknown): void }[] = [];
    const { begin, clock, guards } = await testStage(() => ({
      classify: () => new Promise<undefined>((resolve, reject) => answers.push({ resolve, reject })),
    }));
    const early = begin('early');
    for (let at = 0; at < 3; at += 1) begin(`r${at}`);
    for (const { reject } of answers.slice(1)) reject(new Error('no'));
    await promisesRan();
    expect(guards.status()[0]).toMatchObject({ state: 'tripped', failures: 3 });
    clock.advanceTo(11_000);
    const probe = begin('probe');
    expect(probe.outcome()).toBe('waiting');
    expect(begin('meanwhile').outcomes).toMatchObject([{ classification: { asked: false } }]);
    // An answer from before the trip says nothing about now.
    answers[0]?.reject(new Error('no'));
    await promisesRan();
    expect([early.outcome(), guards.status()[0]?.state]).toEqual(['PM_CLASSIFIER_THREW', 'probing']);
    // A probe whose client leaves is no verdict either: the next request is one.
    probe.lifecycle.aborted(null, null);
    expect(guards.status()[0]?.state).toBe('tripped');
    begin('second probe');
    answers.at(-1)?.resolve(undefined);
    await promisesRan();
    expect(guards.status()[0]?.state).toBe('ok');
  });

  it('ends in refusals while it is tripped, where the configuration says so', async () => {
    const { begin } = await testStage(
      () => ({
        classify() {
          throw new Error('no');
        },
      }),
      { tripped: 'refuse' },
    );
    for (let at = 0; at < 3; at += 1) begin(`r${at}`);
    const [outcome] = begin('late').outcomes;
    expect(outcome).toMatchObject({ kind: 'refused', error: { code: 'PM_CLASSIFIER_TRIPPED', status: 503 } });
  });
});

describe('ids', () => {
  it('of a request under way cannot be used again', async () => {
    const { begin, stage } = await testStage(() => ({ classify: never }));
    begin('a');
    expect(() => begin('a')).toThrow('a request with the same id is under way');
    expect(stage).toBeDefined();
  });

  it('that come back wait until the classifier has heard of the end of the first', async () => {
    const handlers: (() => void)[] = [];
    const asked: string[] = [];
    const { begin, events } = await testStage(() => ({
      classify({ inputTokens }): ClassifyAnswer {
        asked.push(`${inputTokens}`);
        return undefined;
      },
      onEvent: () => new Promise<void>((resolve) => handlers.push(resolve)),
    }));
    const first = begin('a', { promptTokens: 1 });
    first.lifecycle.completed(null);
    const second = begin('a', { promptTokens: 2 });
    expect([asked, second.outcome()]).toEqual([['1'], 'waiting']);
    second.lifecycle.aborted(null, null);
    const third = begin('a', { promptTokens: 3 });
    handlers[0]?.();
    await promisesRan();
    expect([asked, third.outcome(), events.length]).toEqual([['1'], 'waiting', 2]);
    handlers[1]?.();
    await promisesRan();
    expect([asked, third.outcome()]).toEqual([['1', '3'], 'classified']);
  });
});

describe('events', () => {
  it('come in order, and the end once, whatever the road repeats', async () => {
    const { begin, events } = await testStage(() => ({ classify: () => undefined }));
    const { lifecycle } = begin('a');
    lifecycle.responding(WORKER);
    lifecycle.sent(WORKER);
    lifecycle.responding(WORKER);
    lifecycle.progress(140);
    lifecycle.completed(WORKER);
    lifecycle.aborted(WORKER, 'PM_ENGINE_LOST');
    lifecycle.sent(WORKER);
    expect(events).toEqual([
      { kind: 'sent', requestId: 'a', worker: WORKER },
      { kind: 'responding', requestId: 'a', worker: WORKER },
      { kind: 'completed', requestId: 'a', worker: WORKER, contextTokens: 140 },
    ]);
    expect(events.every(Object.isFrozen)).toBe(true);
  });

  it('of a refused request are one: it ended with the refusal', async () => {
    const { begin, events } = await testStage(() => ({
      classify() {
        throw new CapacityExhausted();
      },
    }));
    begin('a').lifecycle.aborted(null, 'PM_CLASSIFIER_CAPACITY');
    expect(events).toEqual([
      {
        kind: 'aborted',
        requestId: 'a',
        worker: null,
        contextTokens: 100,
        error: 'PM_CLASSIFIER_CAPACITY',
      },
    ]);
  });

  it('are told one at a time; a handler that hangs is left after ten seconds, one that throws costs nothing', async () => {
    const ends: (() => void)[] = [];
    const { begin, clock, events, errors } = await testStage(() => ({
      classify: () => undefined,
      onEvent(event): Promise<void> | undefined {
        if (event.requestId === 'bad') throw new Error('no events, please');
        return new Promise((resolve) => ends.push(resolve));
      },
    }));
    complete(begin('a').lifecycle);
    complete(begin('bad').lifecycle);
    expect(events.map((event) => event.kind)).toEqual(['sent']);
    ends[0]?.();
    await promisesRan();
    expect(events).toHaveLength(2);
    clock.advanceTo(11_000);
    expect(events).toHaveLength(3);
    ends[2]?.();
    await promisesRan();
    expect(events.map((event) => event.requestId)).toEqual(['a', 'a', 'a', 'bad', 'bad', 'bad']);
    expect(errors).toEqual(['a request classifier failed to take an event: onEvent did not end within 10 s']);
  });

  it('reach a classifier that only listens', async () => {
    const { begin, events } = await testStage(() => ({}));
    const { lifecycle, outcome } = begin('a');
    expect(outcome()).toBe('classified');
    complete(lifecycle);
    expect(events).toHaveLength(3);
  });
});

it('a request holds its classifier until its end was heard, and no longer', async () => {
  let held = 0;
  const hold = {
    retain() {
      held += 1;
    },
    release() {
      held -= 1;
    },
  };
  const ends: (() => void)[] = [];
  const { begin } = await testStage(
    () => ({
      classify({ requestId }): ClassifyAnswer {
        if (requestId === 'c') throw new CapacityExhausted();
        return undefined;
      },
      onEvent: ({ kind }) => (kind === 'completed' ? new Promise<void>((end) => ends.push(end)) : undefined),
    }),
    { hold },
  );
  const first = begin('a');
  const second = begin('b');
  begin('c').lifecycle.aborted(null, 'PM_CLASSIFIER_CAPACITY');
  expect(held).toBe(2);
  complete(first.lifecycle);
  second.lifecycle.aborted(null, null);
  expect(held).toBe(2);
  ends[0]?.();
  await promisesRan();
  expect(held).toBe(0);
});

it('while too many events wait to be heard new requests pass unasked, and none of the events is lost', async () => {
  let asked = 0;
  let release = (): void => undefined;
  const { begin, events } = await testStage(() => ({
    classify(): ClassifyAnswer {
      asked += 1;
      return undefined;
    },
    onEvent: () =>
      events.length === 1
        ? new Promise<void>((resolve) => {
            release = resolve;
          })
        : undefined,
  }));
  const requests = 30_000;
  for (let at = 0; at < requests; at += 1) complete(begin(`r${at}`).lifecycle);
  // Three events each; the first is with the handler, and 65,536 wait.
  expect(asked).toBe(Math.ceil(65_537 / 3));
  release();
  await promisesRan();
  expect(events).toHaveLength(asked * 3);
  begin('later');
  expect(asked).toBe(Math.ceil(65_537 / 3) + 1);
});

it('closing refuses those who wait, and nothing is told any more', async () => {
  const { begin, events, solo } = await testStage(() => ({ classify: never }));
  const waiting = begin('a');
  await solo.close();
  expect(waiting.outcome()).toBe('PM_SHUTTING_DOWN');
  waiting.lifecycle.aborted(null, 'PM_SHUTTING_DOWN');
  expect(events).toEqual([]);
});

it('whoever is refused by closing and tries again at once is refused too, and nobody is asked or created any more', async () => {
  let asked = 0;
  const { begin, solo, stage } = await testStage(() => ({
    classify() {
      asked += 1;
      return never();
    },
  }));
  const codes: string[] = [];
  const attempt = (): void => {
    // More than anybody would: without an end of its own this would never end.
    if (codes.length === 10) return;
    try {
      const again = stage.begin(FACTS);
      again.classify((outcome) => {
        codes.push(outcome.kind);
        again.aborted(null, null);
        attempt();
      });
    } catch (thrown) {
      codes.push(String(Reflect.get(Object(thrown), 'code')));
    }
  };
  begin('a').lifecycle.aborted(null, null);
  attempt();
  await solo.close();
  expect([codes, asked]).toEqual([['refused', 'PM_SHUTTING_DOWN'], 2]);
  expect(() => solo.classifierFor(PARTITION)).toThrow('this router is stopping');
});
