// What a definition is, whichever copy of the package made it.
import { describe, expect, it, vi } from 'vitest';
import * as plugin from './index.ts';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  PointsmanError,
  pickWorker,
  ROLES,
  type Role,
} from './index.ts';

const hint = defineHintPolicy({ type: 'a', create: () => ({ buildHints: () => [] }) });
const selection = defineWorkerSelectionPolicy({
  type: 'b',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});

/** The contract once more, as a package of its own would bring it. */
async function secondCopy(): Promise<typeof import('./index.ts')> {
  vi.resetModules();
  const copy = await import('./index.ts');
  expect(copy.PointsmanError).not.toBe(PointsmanError);
  return copy;
}

describe('a definition', () => {
  it('is a plain frozen object with its kind and the version of the contract', () => {
    for (const [definition, kind] of [
      [hint, 'hint-policy'],
      [selection, 'worker-selection'],
    ] as const) {
      expect(Object.getPrototypeOf(definition)).toBe(Object.prototype);
      expect(definition['~pointsman']).toEqual({ kind, apiVersion: expect.stringMatching(/^\d+\.\d+$/) });
      expect(Object.isFrozen(definition)).toBe(true);
      expect(Object.isFrozen(definition['~pointsman'])).toBe(true);
    }
  });

  it('has a scope of its partition, no inputs and no default hosts where it says nothing', () => {
    expect(hint).toMatchObject({ scope: 'partition', inputs: [], defaultHosts: [] });
    expect(selection).toMatchObject({ scope: 'partition', exclusiveAffinity: false });
  });

  it('looks the same from another copy of the package', async () => {
    const copy = await secondCopy();
    const theirs = copy.defineHintPolicy({ type: 'a', create: hint.create });
    expect(Object.keys(theirs).sort()).toEqual(Object.keys(hint).sort());
    expect(theirs).toHaveProperty(['~pointsman', 'kind'], 'hint-policy');
    expect(theirs['~pointsman']).toEqual(hint['~pointsman']);
  });
});

describe('the list of roles', () => {
  it('is every role there is, and no plugin can change it for the router', () => {
    const everyRole: Record<Role, true> = { aggregated: true, prefill: true, decode: true, encode: true };
    expect(ROLES).toEqual(Object.keys(everyRole));
    expect(() => Reflect.apply(Array.prototype.push, ROLES, ['spectator'])).toThrow(TypeError);
  });
});

describe('what the package exports besides functions', () => {
  const data = Object.entries(plugin).filter(([, value]) => typeof value !== 'function');
  const isFrozen = (value: unknown): boolean =>
    typeof value !== 'object' ||
    value === null ||
    (Object.isFrozen(value) && Object.values(value).every(isFrozen));

  it('is frozen to the last member: the router and all plugins share it', () => {
    expect(data.map(([name]) => name)).toEqual(
      expect.arrayContaining(['ERROR_CODES', 'HINT_INPUTS', 'NO_LOG', 'WORKER_INPUTS']),
    );
    expect(data.filter(([, value]) => !isFrozen(value)).map(([name]) => name)).toEqual([]);
  });
});

describe('an error', () => {
  it('of another copy of the package is one of ours, and the reverse', async () => {
    const copy = await secondCopy();
    expect(new copy.PointsmanError('PM_USAGE', 'theirs')).toBeInstanceOf(PointsmanError);
    expect(new PointsmanError('PM_USAGE', 'ours')).toBeInstanceOf(copy.PointsmanError);
    expect(new Error('anyone’s')).not.toBeInstanceOf(copy.PointsmanError);
  });
});
