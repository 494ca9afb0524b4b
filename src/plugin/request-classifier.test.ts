// What the compiler promises authors of request classifiers, and what holds between two copies of the package.
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  CapacityExhausted,
  type ClassifierEvent,
  type ClassifierWorker,
  type ClassifyRequest,
  type Clock,
  defineRequestClassifier,
  type Partition,
  PointsmanError,
  RateLimited,
  type RequestClassifierDefinition,
  type SessionContext,
} from './index.ts';

describe('defineRequestClassifier', () => {
  it('gives create the parameters of the schema, and a partition', () => {
    const definition = defineRequestClassifier({
      type: 'a',
      parameters: z.strictObject({ burst: z.int().default(4) }),
      create: ({ parameters, clock, partition, blockSize, workers }) => {
        expectTypeOf(parameters).toEqualTypeOf<{ burst: number }>();
        expectTypeOf(clock).toEqualTypeOf<Clock>();
        expectTypeOf(partition).toEqualTypeOf<Partition>();
        expectTypeOf(blockSize).toEqualTypeOf<number | null>();
        expectTypeOf(workers()).toEqualTypeOf<readonly ClassifierWorker[]>();
        // @ts-expect-error the parameter is called burst
        void parameters.bursts;
        return { classify: () => undefined };
      },
    });
    expectTypeOf(definition).toEqualTypeOf<RequestClassifierDefinition>();
    expect(definition['~pointsman'].kind).toBe('request-classifier');
    expect(Object.isFrozen(definition)).toBe(true);
  });

  it('takes the partition away where the classifier is shared, and has no role', () => {
    defineRequestClassifier({
      type: 'a',
      scope: 'shared',
      create: (context) => {
        // @ts-expect-error it serves many partitions
        void context.partition;
        return {};
      },
    });
    defineRequestClassifier({
      type: 'a',
      create: (context) => {
        // @ts-expect-error it stands before all roles
        void context.role;
        return {};
      },
    });
  });

  it('shows the request and the events as they are', () => {
    defineRequestClassifier({
      type: 'a',
      create: () => ({
        classify(request) {
          expectTypeOf(request).toEqualTypeOf<ClassifyRequest>();
          expectTypeOf(request.session).toEqualTypeOf<SessionContext | null>();
          // @ts-expect-error the session may be missing
          void request.session.sessionId;
          // @ts-expect-error a request is what it is
          request.inputTokens = 0;
          return undefined;
        },
        onEvent(event) {
          expectTypeOf(event).toEqualTypeOf<ClassifierEvent>();
          if (event.kind === 'completed') expectTypeOf(event.contextTokens).toEqualTypeOf<number>();
          // @ts-expect-error a request that is sent has no context yet
          if (event.kind === 'sent') void event.contextTokens;
        },
      }),
    });
  });

  it('takes overrides at once or later, and no others', () => {
    const type = 'a';
    defineRequestClassifier({ type, create: () => ({ classify: () => ({ policyClass: null, dueAt: 3 }) }) });
    defineRequestClassifier({
      type,
      create: () => ({ classify: async () => ({ schedulingCostTokens: 3 }) }),
    });
    defineRequestClassifier({ type, create: () => ({ classify: async () => undefined }) });
    defineRequestClassifier({
      type,
      create: () => ({ classify: () => ({ workerTarget: { workerId: 1n } }) }),
    });
    // @ts-expect-error the member is called policyClass
    defineRequestClassifier({ type, create: () => ({ classify: () => ({ policyclass: 'x' }) }) });
    const target = { workerId: 1 };
    // @ts-expect-error a worker id is a bigint
    defineRequestClassifier({ type, create: () => ({ classify: () => ({ workerTarget: target }) }) });
    // @ts-expect-error a classifier reads nothing that others prepare
    defineRequestClassifier({ type, inputs: ['load'], create: () => ({}) });
    // @ts-expect-error null is no answer; undefined changes nothing
    defineRequestClassifier({ type, create: () => ({ classify: () => null }) });
  });
});

describe('refusals', () => {
  it('are told apart, and are errors of Pointsman', () => {
    const limited = new RateLimited(2);
    const exhausted = new CapacityExhausted('full');
    expect(limited instanceof RateLimited && !(limited instanceof CapacityExhausted)).toBe(true);
    expect(exhausted instanceof CapacityExhausted && !(exhausted instanceof RateLimited)).toBe(true);
    expect([limited, exhausted].every((one) => one instanceof PointsmanError)).toBe(true);
    expect([limited.code, limited.retryAfterSeconds, exhausted.message]).toEqual([
      'PM_CLASSIFIER_RATE_LIMITED',
      2,
      'full',
    ]);
    expect(new PointsmanError('PM_CLASSIFIER_CAPACITY', 'x') instanceof CapacityExhausted).toBe(false);
  });

  it('of another copy of the package are known', async () => {
    const again = './refusals.ts?copy';
    const copy: { RateLimited: typeof RateLimited; CapacityExhausted: typeof CapacityExhausted } =
      await import(again);
    expect(copy.RateLimited).not.toBe(RateLimited);
    expect(new copy.RateLimited(1) instanceof RateLimited).toBe(true);
    expect(new RateLimited(1) instanceof copy.RateLimited).toBe(true);
    expect(new copy.CapacityExhausted() instanceof CapacityExhausted).toBe(true);
    expectTypeOf<InstanceType<typeof copy.RateLimited>>().toEqualTypeOf<RateLimited>();
  });

  it('look at nothing that refuses to be looked at', () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const value of [null, undefined, 1, 'x', proxy]) {
      expect([value instanceof RateLimited, value instanceof CapacityExhausted]).toEqual([false, false]);
    }
  });
});
