import { expect, it } from 'vitest';
import { seededRng } from './rng.ts';

it('an integer is drawn below a whole number from 1 only', () => {
  const rng = seededRng(1);
  expect(rng.integer(1)).toBe(0);
  const draw = (n: unknown) => () => Reflect.apply(rng.integer, rng, [n]);
  for (const [n, got] of [
    [0, '0'],
    [1.5, '1.5'],
    [-2, '-2'],
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    [undefined, 'a value of type undefined'],
    ['3', 'a value of type string'],
  ]) {
    const message = `rng.integer: n must be an integer from 1, got ${got}`;
    expect(draw(n)).toThrow(expect.objectContaining({ code: 'PM_PLUGIN_INVALID', message }));
  }
});
