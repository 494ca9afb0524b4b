// Hostile classifiers: whatever one does to a request costs that request at most, with a text that is not the classifier's.
import { describe, expect, it } from 'vitest';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import { type ClassifyRequest, defineRequestClassifier, type RequestClassifier } from '../plugin/index.ts';
import { REPORT, testRoad } from './road.fixtures.ts';

const promisesRan = () => new Promise((resolve) => setImmediate(resolve));

type Settle = (value: unknown) => void;
const thenable = (then: (resolve: Settle, reject: Settle) => void) => Object.fromEntries([['then', then]]);

/** An object of which nothing can be asked; what it throws is another one. */
function poisoned(): object {
  const refuse = () => {
    throw poisoned();
  };
  const traps = { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse };
  return new Proxy({}, traps);
}

/** What a hostile classifier does, each for the request `bad` alone; `undefined` = the request passes. */
const HOSTILE: Record<string, [(request: ClassifyRequest) => unknown, string | undefined]> = {
  throws: [
    () => {
      throw new Error('secret');
    },
    'PM_CLASSIFIER_THREW',
  ],
  'throws nothing': [
    () => {
      throw undefined;
    },
    'PM_CLASSIFIER_THREW',
  ],
  'throws a proxy': [
    () => {
      throw new Proxy(
        {},
        {
          has() {
            throw new Error('x');
          },
          get() {
            throw new Error('x');
          },
        },
      );
    },
    'PM_CLASSIFIER_THREW',
  ],
  'throws a proxy that refuses to be looked at': [
    () => {
      throw poisoned();
    },
    'PM_CLASSIFIER_THREW',
  ],
  'rejects with a proxy that refuses to be looked at': [
    () => Promise.reject(poisoned()),
    'PM_CLASSIFIER_THREW',
  ],
  'answers a proxy that refuses to be looked at': [() => poisoned(), 'PM_CLASSIFIER_THREW'],
  'answers such a proxy late': [() => Promise.resolve({ workerTarget: poisoned() }), 'PM_CLASSIFIER_THREW'],
  rejects: [() => Promise.reject(new Error('secret')), 'PM_CLASSIFIER_THREW'],
  'never answers': [() => new Promise(() => undefined), 'PM_CLASSIFIER_TIMEOUT'],
  'answers junk': [() => 'junk', 'PM_CLASSIFIER_INVALID'],
  'answers null': [() => null, 'PM_CLASSIFIER_INVALID'],
  'answers junk late': [() => Promise.resolve(17), 'PM_CLASSIFIER_INVALID'],
  'answers a function': [() => () => ({}), 'PM_CLASSIFIER_INVALID'],
  'answers an endless list': [() => new Array(1e6).fill(0), 'PM_CLASSIFIER_INVALID'],
  'answers a promise inside': [() => ({ policyClass: Promise.resolve('default') }), 'PM_CLASSIFIER_INVALID'],
  'answers an unknown class': [() => ({ policyClass: 'vip' }), 'PM_CLASSIFIER_INVALID'],
  'answers the request': [(request) => request, 'PM_CLASSIFIER_INVALID'],
  'answers a throwing getter': [
    () => ({
      get dueAt() {
        throw new Error('secret');
      },
    }),
    'PM_CLASSIFIER_THREW',
  ],
  'answers a proxy that throws': [
    () =>
      new Proxy(
        {},
        {
          get() {
            throw new Error('secret');
          },
        },
      ),
    'PM_CLASSIFIER_THREW',
  ],
  'answers a revoked proxy': [
    () => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    },
    'PM_CLASSIFIER_THREW',
  ],
  'answers a thenable that throws': [
    () =>
      thenable(() => {
        throw new Error('secret');
      }),
    'PM_CLASSIFIER_THREW',
  ],
  'answers a thenable that answers twice': [
    () =>
      thenable((resolve, reject) => {
        resolve(undefined);
        resolve('junk');
        reject(new Error('x'));
      }),
    undefined,
  ],
  'answers a promise whose then is poisoned': [
    () => {
      const promise = Promise.resolve();
      void Object.defineProperty(promise, 'then', {
        get() {
          throw new Error('secret');
        },
      });
      return promise;
    },
    'PM_CLASSIFIER_THREW',
  ],
  'answers itself': [
    () => {
      const self: Record<string, unknown> = {};
      self.workerTarget = self;
      return self;
    },
    'PM_CLASSIFIER_INVALID',
  ],
  'recurses without end': [
    () => {
      const deeper = (): number => deeper() + 1;
      return deeper();
    },
    'PM_CLASSIFIER_THREW',
  ],
  'writes to the request': [
    (request) => {
      Object.assign(request, { inputTokens: 0 });
      return undefined;
    },
    'PM_CLASSIFIER_THREW',
  ],
  'refuses with a forged brand': [
    () => {
      throw {
        [Symbol.for('pointsman.refusal.rate-limited')]: true,
        retryAfterSeconds: '9'.repeat(20),
        get message() {
          throw new Error('x');
        },
      };
    },
    'PM_CLASSIFIER_THREW',
  ],
};

describe.each(Object.entries(HOSTILE))('a classifier that %s', (_, [deed, code]) => {
  it('costs that request at most; one before, beside and after it are served', async () => {
    const answer = (request: ClassifyRequest) =>
      request.requestId === 'bad'
        ? deed(request)
        : request.requestId === 'beside'
          ? new Promise((resolve) => road.clock.schedule(10, () => resolve(undefined)))
          : undefined;
    const classify = answer as NonNullable<RequestClassifier['classify']>;
    const definition = defineRequestClassifier({ type: 'mine', create: () => ({ classify }) });
    let waiting = (): unknown => undefined;
    const metrics: Metrics = {
      ...NO_METRICS,
      gauge(name, read) {
        if (name === 'pointsman_classifications_waiting') waiting = read;
      },
    };
    const road = await testRoad({ classifier: { definition }, maxWaitMs: 1000, metrics });
    const good = [road.arrive({ requestId: 'before' }), road.arrive({ requestId: 'beside' })];
    const bad = road.arrive({ requestId: 'bad' });
    good.push(road.arrive({ requestId: 'after' }));
    await promisesRan();
    for (const at of [1010, 3000]) {
      road.clock.advanceTo(at);
      await promisesRan();
    }
    for (const { sink } of good) expect(sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    if (code === undefined) expect(bad.sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    else {
      expect(bad.sink.heard).toEqual([`failed ${code} before head`]);
      expect(`${bad.sink.error?.message} ${JSON.stringify(bad.sink.error?.details)}`).not.toContain('secret');
    }
    for (const { sink } of road.transport.dispatched) sink.finished(REPORT);
    road.expectIdle();
    expect(waiting()).toBe(0);
    expect(road.road.unsettled()).toBe(false);
  });
});
