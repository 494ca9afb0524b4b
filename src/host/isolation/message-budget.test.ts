import { expect, test } from 'vitest';
import { MESSAGES_PER_SECOND, MessageBudget, MOST_AT_ONCE } from './message-budget.ts';

test('a thread may send so many messages at once, and then so many a second', () => {
  let now = 5000;
  const budget = new MessageBudget(() => now);
  const taken = () => {
    let count = 0;
    while (budget.take()) count += 1;
    return count;
  };
  expect(taken()).toBe(MOST_AT_ONCE);
  now += 1000;
  expect(taken()).toBe(MESSAGES_PER_SECOND);
  now += 3_600_000;
  expect(taken()).toBe(MOST_AT_ONCE);
});
