// What `create` may return, and what each mistake is told.
import { describe, expect, it } from 'vitest';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  pickWorker,
  scoreWorkers,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { testWorkerSelection } from '../testing/index.ts';

const first = pickWorker({ pick: () => 0 });

/** What it throws when it is looked at refuses as well. */
function poisoned(): object {
  const refuse = () => {
    throw poisoned();
  };
  return new Proxy({}, { get: refuse, getPrototypeOf: refuse, ownKeys: refuse, has: refuse });
}

/** Decides between two candidates with whatever `create` returned. */
const decide = async (made: unknown) => {
  const definition = defineWorkerSelectionPolicy({
    type: 'mine',
    create: () => made as WorkerSelectionPolicy,
  });
  return (await testWorkerSelection(definition, { candidates: [{}, {}] })).decisions[0];
};

describe('what create returns', () => {
  it.each<[string, unknown, string]>([
    [
      'disopse',
      { picker: first, disopse() {} },
      ' returned the unknown member "disopse" (did you mean "dispose"?)',
    ],
    ['no picker', {}, ' returned no picker; add picker: pickWorker({...}) or pickLowestCost(rng)'],
    [
      'a cost and a picker',
      { cost: linearCost(), picker: first },
      ' returned cost together with scorers or a picker; a declared cost brings its own',
    ],
    ['a promise', Promise.resolve({ picker: first }), ' must return a policy, got a promise'],
    [
      'a bare scorer',
      { scorers: [{ score() {} }], picker: first },
      ': scorers[0] must be made with scoreWorkers or scoreEachWorker',
    ],
    ['a list as filters', { filters: {}, picker: first }, ': filters must be a list, got an object'],
    ['an object that refuses to be looked at', poisoned(), ' returned an object that cannot be read'],
    [
      'a getter that throws',
      {
        get picker() {
          throw poisoned();
        },
      },
      ' returned an object that cannot be read',
    ],
    ['a plain cost', { cost: {} }, ': cost must be made with linearCost or timeCost'],
  ])('is refused with %s', async (_, made, text) => {
    await expect(decide(made)).rejects.toMatchObject({
      code: 'PM_PLUGIN_INVALID',
      message: `create of worker-selection policy mine${text}`,
    });
  });

  it('is refused when a component declares an input that does not exist', async () => {
    const scorer = scoreWorkers({ inputs: ['loda'] as never, score: () => undefined });
    await expect(decide({ scorers: [scorer], picker: first })).rejects.toThrow(
      'scorers[0] of worker-selection policy mine: unknown input "loda"; known: cache, load, preferred-taint, occupancy, device, in-flight-blocks, request-phases, cache-pressure, output-length, timing, kv-copy-locations, session-lineage (did you mean "load"?)',
    );
  });

  it('may be an instance of a class with fields of its own', async () => {
    class Turns {
      readonly turn = 1;
      readonly picker = pickWorker({ pick: () => this.turn });
    }
    expect((await decide(new Turns())).row).toBe(1);
  });
});
