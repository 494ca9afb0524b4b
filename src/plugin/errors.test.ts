import { describe, expect, it } from 'vitest';
import { errorText, PointsmanError } from './errors.ts';

const refuse = (): never => {
  throw new Error('not to be looked at');
};

describe('errorText', () => {
  it('is the message of an error and the text of anything else', () => {
    expect([new Error('why'), 'why', null, undefined, 7n, Symbol('why')].map(errorText)).toEqual([
      'why',
      'why',
      'null',
      'undefined',
      '7',
      'Symbol(why)',
    ]);
  });

  it.each([
    ['an object whose toString throws', { toString: refuse }],
    ['an object without toString', Object.create(null)],
    ['an error whose message throws', Object.defineProperty(new Error('x'), 'message', { get: refuse })],
    ['an error whose message is an object', Object.assign(new Error('x'), { message: { toString: refuse } })],
    ['a proxy that refuses everything', new Proxy({}, { get: refuse, has: refuse, getPrototypeOf: refuse })],
  ])('has words for %s', (_, thrown) => {
    expect(errorText(thrown)).toBe('something without a text was thrown');
    expect(thrown instanceof PointsmanError).toBe(false);
  });
});
