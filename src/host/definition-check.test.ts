// What definitions may declare, beyond what the compiler tells their authors.
import { describe, expect, it } from 'vitest';
import { defineHintPolicy, HINT_INPUTS, WORKER_INPUTS } from '../plugin/index.ts';
import { checkDefinition } from './definition-check.ts';

const listing = (inputs: readonly string[]) =>
  checkDefinition(
    defineHintPolicy({
      type: 'mine',
      inputs: inputs as readonly [],
      create: () => ({ buildHints: () => [] }),
    }),
    'mine',
  );

describe('inputs of a hint policy', () => {
  it('are those of its kind', () => {
    expect(listing(HINT_INPUTS)).toMatchObject({ type: 'mine', inputs: HINT_INPUTS });
    const foreign = WORKER_INPUTS.filter((input) => !HINT_INPUTS.some((one) => one === input));
    expect(foreign).toEqual([
      'preferred-taint',
      'occupancy',
      'device',
      'in-flight-blocks',
      'request-phases',
      'cache-pressure',
      'output-length',
    ]);
    for (const input of foreign) expect(listing([input])).toContain(`mine: inputs: unknown input "${input}"`);
  });
});
