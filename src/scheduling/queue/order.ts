// Who goes first within a class: (strict priority, due time, score of the policy, arrival), and the score itself.
import type { QueuePolicy } from '../../config/index.ts';
import type { OrderKey } from './types.ts';

/** Negative when `a` goes before `b`. Never 0 for two requests, as no two arrive under one number. */
export function compareKeys(a: OrderKey, b: OrderKey): number {
  if (a.strictPriority !== b.strictPriority) return b.strictPriority - a.strictPriority;
  if (a.dueAt !== b.dueAt) {
    if (a.dueAt === null) return 1;
    return b.dueAt === null ? -1 : a.dueAt - b.dueAt;
  }
  if (a.score !== b.score) return b.score - a.score;
  return a.sequence - b.sequence;
}

/**
 * fcfs: max(priority, 0) − seconds from the start to the arrival. wspt: (1 + max(priority, 0)) / cost.
 * @param arrivedSeconds seconds from a moment that is the same for all of a queue.
 * @param cost tokens, ≥ 1.
 */
export function policyScore(
  policy: QueuePolicy,
  priorityJump: number,
  arrivedSeconds: number,
  cost: number,
): number {
  const jump = Math.max(0, priorityJump);
  return policy === 'fcfs' ? jump - arrivedSeconds : (1 + jump) / cost;
}
