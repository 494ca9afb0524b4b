import { expect, test } from 'vitest';
import { readyAnswer } from './readiness.ts';

test('a warning leaves the router ready; a reason does not', () => {
  expect(readyAnswer({ reasons: [], warnings: ['w'] })).toEqual({
    status: 200,
    body: { status: 'ready', reasons: [], warnings: ['w'] },
  });
  expect(readyAnswer({ reasons: ['r'], warnings: [] })).toEqual({
    status: 503,
    body: { status: 'not_ready', reasons: ['r'], warnings: [] },
  });
});
