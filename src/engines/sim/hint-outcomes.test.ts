import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readHintOutcomes } from './hint-outcomes.ts';

describe('readHintOutcomes', () => {
  it('reads the documented example', () => {
    const header =
      '{"message_id":"m","outcomes":[{"action_id":"a1","outcome":"accepted","blocks_asked":96,"blocks_done":88,"bytes":11534336,"ms":12.4},' +
      '{"action_id":"a2","outcome":"rejected","reason":"unsupported"},{"action_id":"a3","outcome":"unreported"}]}';
    expect(readHintOutcomes(header)).toEqual([
      {
        actionId: 'a1',
        outcome: 'accepted',
        reason: null,
        blocksAsked: 96,
        blocksDone: 88,
        bytes: 11534336,
        ms: 12.4,
      },
      {
        actionId: 'a2',
        outcome: 'rejected',
        reason: 'unsupported',
        blocksAsked: null,
        blocksDone: null,
        bytes: null,
        ms: null,
      },
    ]);
  });

  it('takes whatever it cannot read as nothing reported', () => {
    expect(readHintOutcomes(undefined)).toEqual([]);
    expect(readHintOutcomes('{"message_id":"m","counts":{"accepted":40}}')).toEqual([]);
    expect(readHintOutcomes(' '.repeat(9000))).toEqual([]);
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => void readHintOutcomes(text)));
  });
});
