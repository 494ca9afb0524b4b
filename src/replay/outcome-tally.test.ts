// What became of hint actions, told with the head or later.
import { expect, it } from 'vitest';
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import type { KvHint } from '../plugin/index.ts';
import { OutcomeTally } from './outcome-tally.ts';

const hint: KvHint = {
  protocol_version: '0.1',
  message_id: 'm',
  actions: ['kv.retain', 'kv.evict', 'kv.evict', 'kv.prefetch'].map((action_type, index) => ({
    action_id: `a${index}`,
    action_type,
    action_version: '1.0',
    payload: {},
  })),
};
const told = (
  actionId: string,
  outcome: ReportedHintOutcome['outcome'],
  reason: string | null = null,
): ReportedHintOutcome => ({ actionId, outcome, reason, blocksAsked: 9, blocksDone: null, bytes: null });
const late = (
  actionId: string,
  outcome: ReportedHintOutcome['outcome'],
  reason: string | null = null,
  messageId = 'm',
): KvEvent => ({ kind: 'hint-outcome', messageId, actionId, outcome, reason, blocks: 1 });

it('counts a deferred action by what was told of it first since, and rejections by reason', () => {
  const tally = new OutcomeTally();
  tally.answered(hint, [
    told('a0', 'rejected', 'no_room'),
    told('a1', 'deferred'),
    told('a2', 'deferred'),
    told('a3', 'deferred'),
  ]);
  expect(tally.outcomes()).toEqual({ deferred: 3, rejected: 1 });
  tally.events([
    late('a1', 'clipped'),
    late('a1', 'accepted', 'expired'),
    late('a2', 'rejected', 'in_use', 'n'),
    late('a2', 'rejected', 'in_use'),
    late('a0', 'accepted'),
    { kind: 'cleared' },
  ]);
  expect(Object.entries(tally.outcomes())).toEqual([
    ['clipped', 1],
    ['deferred', 1],
    ['rejected', 2],
  ]);
  expect(tally.rejections()).toEqual([
    { policy: '', action: 'kv.retain@1.0', reason: 'no_room', count: 1 },
    { policy: '', action: 'kv.evict@1.0', reason: 'in_use', count: 1 },
  ]);
  tally.events([late('a3', 'accepted')]);
  expect(tally.outcomes()).toEqual({ accepted: 1, clipped: 1, rejected: 2 });
});

it('has no rejections where none were', () => {
  expect(new OutcomeTally().rejections()).toBeNull();
});
