import { describe, expect, it } from 'vitest';
import { defineHintPolicy } from '../plugin/index.ts';
import { readInputs } from './read-inputs.ts';

const declared = (inputsWhen?: () => unknown) =>
  defineHintPolicy({
    type: 'mine',
    inputs: ['load', 'timing'],
    ...(inputsWhen && { inputsWhen: inputsWhen as () => readonly ['load'] }),
    create: () => ({ buildHints: () => [] }),
  });

describe('inputs of an instance', () => {
  it('are those that it reads with its parameters', () => {
    expect(readInputs(declared(), {})).toEqual({ reads: ['load', 'timing'], fault: null });
    expect(
      readInputs(
        declared(() => ['load']),
        {},
      ),
    ).toEqual({ reads: ['load'], fault: null });
    expect(
      readInputs(
        declared(() => []),
        {},
      ),
    ).toEqual({ reads: [], fault: null });
  });

  it.each([
    ['names another', () => ['cache'], 'inputsWhen must answer some of load, timing, got a list'],
    ['is no list', () => 'load', 'inputsWhen must answer some of load, timing, got'],
    [
      'throws',
      () => {
        throw new Error('no');
      },
      'inputsWhen threw: no',
    ],
  ])('are refused where the answer %s', (_, answer, message) => {
    expect(readInputs(declared(answer), {}).fault?.message).toContain(message.split(', got')[0]);
  });
});
