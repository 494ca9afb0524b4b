import { describe, expect, it } from 'vitest';
import { checkOverrides, InvalidOverrides, NO_OVERRIDES } from './classifier-overrides.ts';

const CLASSES = new Set(['default', 'standard', 'batch']);
const check = (answer: unknown) => checkOverrides(answer, CLASSES);

function reason(answer: unknown): string {
  try {
    check(answer);
  } catch (thrown) {
    if (thrown instanceof InvalidOverrides) return thrown.message;
    throw thrown;
  }
  return 'accepted';
}

class Shaped {
  get policyClass(): string {
    return 'batch';
  }
}

describe('overrides', () => {
  it.each<[string, unknown, object]>([
    ['undefined changes nothing', undefined, {}],
    ['an empty object changes nothing', {}, {}],
    ['a member that is undefined counts as missing', { policyClass: undefined }, {}],
    [
      'null clears',
      { policyClass: null, dueAt: null, schedulingCostTokens: null, workerTarget: null },
      { policyClass: null, dueAt: null, schedulingCostTokens: null, workerTarget: null },
    ],
    [
      'every member at once',
      {
        policyClass: 'standard',
        dueAt: -1.5,
        schedulingCostTokens: 2 ** 31 - 1,
        workerTarget: { workerId: 2n ** 64n - 1n, rank: 3 },
      },
      {
        policyClass: 'standard',
        dueAt: -1.5,
        schedulingCostTokens: 2 ** 31 - 1,
        workerTarget: { workerId: 18446744073709551615n, rank: 3 },
      },
    ],
    [
      'a target without a rank means any of them',
      { workerTarget: { workerId: 0n } },
      { workerTarget: { workerId: 0n, rank: null } },
    ],
    ['an instance of a class may answer through getters', new Shaped(), { policyClass: 'batch' }],
    [
      'an object without a prototype',
      Object.assign(Object.create(null), { schedulingCostTokens: 1 }),
      { schedulingCostTokens: 1 },
    ],
  ])('%s', (_, answer, checked) => {
    expect(check(answer)).toEqual(checked);
  });

  it('are a frozen copy', () => {
    const answer = { workerTarget: { workerId: 1n, rank: 0 } };
    const checked = check(answer);
    answer.workerTarget.workerId = 2n;
    expect(checked.workerTarget?.workerId).toBe(1n);
    expect([checked, checked.workerTarget, NO_OVERRIDES].every(Object.isFrozen)).toBe(true);
  });

  it.each<[unknown, string]>([
    [null, 'classify must answer an object with overrides or undefined, got null'],
    [0, 'classify must answer an object with overrides or undefined, got 0'],
    ['batch', 'classify must answer an object with overrides or undefined, got a string'],
    [[], 'classify must answer an object with overrides or undefined, got a list'],
    [() => ({}), 'classify must answer an object with overrides or undefined, got a function'],
    [
      { policyclass: 'batch' },
      'classify answered the unknown member "policyclass" (did you mean "policyClass"?)',
    ],
    [
      { [Symbol('x')]: 1 },
      'classify answered the unknown member "a symbol"; known: policyClass, dueAt, schedulingCostTokens, workerTarget',
    ],
    [{ policyClass: 7 }, 'policyClass must be the name of a class, got 7'],
    [
      { policyClass: 'standart' },
      'policyClass names "standart", which is no policy family and no class without one; known: default, standard, batch (did you mean "standard"?)',
    ],
    [{ dueAt: Number.NaN }, 'dueAt must be a time in ms, got NaN'],
    [{ dueAt: Number.POSITIVE_INFINITY }, 'dueAt must be a time in ms, got Infinity'],
    [{ dueAt: 5n }, 'dueAt must be a time in ms, got 5'],
    [{ schedulingCostTokens: 0 }, 'schedulingCostTokens must be a whole number from 1 to 2147483647, got 0'],
    [
      { schedulingCostTokens: 1.5 },
      'schedulingCostTokens must be a whole number from 1 to 2147483647, got 1.5',
    ],
    [
      { schedulingCostTokens: 2 ** 31 },
      'schedulingCostTokens must be a whole number from 1 to 2147483647, got 2147483648',
    ],
    [{ workerTarget: 1n }, 'workerTarget must be { workerId, rank? }, got 1'],
    [{ workerTarget: { workerId: 1 } }, 'workerTarget.workerId must be a bigint of 64 bits, got 1'],
    [{ workerTarget: { workerId: -1n } }, 'workerTarget.workerId must be a bigint of 64 bits, got -1'],
    [
      { workerTarget: { workerId: 2n ** 70n } },
      'workerTarget.workerId must be a bigint of 64 bits, got a longer bigint',
    ],
    [
      { workerTarget: { workerId: 2n ** 64n } },
      'workerTarget.workerId must be a bigint of 64 bits, got 18446744073709551616',
    ],
    [{ workerTarget: { workerId: 1n, rank: -1 } }, 'workerTarget.rank must be a whole number from 0, got -1'],
    [
      { workerTarget: { workerId: 1n, ranks: 1 } },
      'classify answered the unknown member "ranks" (did you mean "rank"?)',
    ],
    [{ dueAt: Promise.resolve(1) }, 'dueAt must be a time in ms, got a promise'],
  ])('refuses %o', (answer, text) => {
    expect(reason(answer)).toBe(text);
  });

  it('reads every member once, so that a getter cannot answer twice', () => {
    let reads = 0;
    const answer = {
      get policyClass() {
        reads += 1;
        return reads === 1 ? 'batch' : 42;
      },
    };
    expect(check(answer)).toEqual({ policyClass: 'batch' });
    expect(reads).toBe(1);
  });

  it('lets out what a getter or a proxy throws', () => {
    const getter = {
      get dueAt(): number {
        throw new Error('no time');
      },
    };
    expect(() => check(getter)).toThrow('no time');
    const proxy = new Proxy(
      {},
      {
        ownKeys() {
          throw new Error('keep out');
        },
      },
    );
    expect(() => check(proxy)).toThrow('keep out');
  });
});
