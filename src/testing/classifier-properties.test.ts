import { describe, expect, it } from 'vitest';
import { CapacityExhausted, type ClassifyAnswer, defineRequestClassifier } from '../plugin/index.ts';
import { checkClassifier } from './index.ts';

describe('checkClassifier', () => {
  it('finds nothing wrong with a classifier that keeps its word', async () => {
    let waited = 0;
    const patient = defineRequestClassifier({
      type: 'patient',
      create: ({ clock, rng }) => ({
        classify({ inputTokens }): ClassifyAnswer {
          if (inputTokens > 3900) throw new CapacityExhausted();
          if (inputTokens < 1000) return { schedulingCostTokens: 1 + rng.integer(9) };
          waited += 1;
          return new Promise((resolve) => clock.schedule(1000 * rng.next(), () => resolve(undefined)));
        },
      }),
    });
    expect(await checkClassifier(patient)).toEqual([]);
    expect(waited).toBeGreaterThan(200);
  });

  const starving = defineRequestClassifier({
    type: 'starving',
    create: () => {
      let turn = 0;
      return { classify: () => (turn++ % 10 === 3 ? new Promise(() => undefined) : undefined) };
    },
  });
  const late = defineRequestClassifier({
    type: 'late',
    create: ({ clock }) => ({
      classify: () => new Promise((resolve) => clock.schedule(31_000, () => resolve(undefined))),
    }),
  });
  const failing = defineRequestClassifier({
    type: 'failing',
    create: () => ({
      classify({ requestId }): ClassifyAnswer {
        if (requestId === 'r5') throw new Error('no fives');
        return undefined;
      },
    }),
  });
  const dicing = defineRequestClassifier({
    type: 'dicing',
    create: () => ({ classify: () => ({ dueAt: Math.random() }) }),
  });
  const deaf = defineRequestClassifier({
    type: 'deaf',
    create: () => ({ onEvent: () => new Promise(() => undefined) }),
  });
  it.each([
    [starving, 'no-starvation', /^r4 waited longer than 30000 ms$/],
    [late, 'no-starvation', /^r1 waited longer than 30000 ms$/],
    [failing, 'valid', /^classify failed for r5: no fives$/],
    [dicing, 'repeatable', /^the same request was first answered "r1 classified 0/],
    [deaf, 'one-terminal', /had 0 terminal events/],
  ])('finds what is wrong with $type', async (definition, property, message) => {
    const faults = await checkClassifier(definition, { requests: 50, leaving: 0 });
    expect(faults).toEqual([{ property, message: expect.stringMatching(message) }]);
    expect(await checkClassifier(definition, { requests: 50, leaving: 0, properties: [] })).toEqual([]);
  });
});
