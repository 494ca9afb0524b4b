import { describe, expect, it } from 'vitest';
import { MAX_OUTCOME_HEADER_BYTES, outcomeHeader } from './outcome-header.ts';

const accepted = (id: number) => ({ action_id: `a${id}`, outcome: 'accepted' as const, blocks_asked: 96 });

describe('outcomeHeader', () => {
  it('is the envelope’s message id and its outcomes, in order', () => {
    expect(outcomeHeader({ message_id: 'm' }, [accepted(1), { action_id: 'a2', outcome: 'missing' }])).toBe(
      '{"message_id":"m","outcomes":[{"action_id":"a1","outcome":"accepted","blocks_asked":96},{"action_id":"a2","outcome":"missing"}]}',
    );
  });

  it('is ASCII whatever the ids are', () => {
    const value = outcomeHeader({ message_id: 'ü\u{1f600}' }, [
      { action_id: 'é\n\u007f', outcome: 'rejected' },
    ]);
    expect(value).toMatch(/^[\x20-\x7e]+$/);
    expect(JSON.parse(value)).toEqual({
      message_id: 'ü\u{1f600}',
      outcomes: [{ action_id: 'é\n\u007f', outcome: 'rejected' }],
    });
  });

  it('falls back to counts when the outcomes do not fit', () => {
    const long = Array.from({ length: 300 }, (_, i) => accepted(i));
    const value = outcomeHeader({ message_id: 'm' }, [...long, { action_id: 'x', outcome: 'missing' }]);
    expect(value).toBe('{"message_id":"m","counts":{"accepted":300,"missing":1}}');
    expect(outcomeHeader({ message_id: 'm' }, long.slice(0, 32)).length).toBeLessThan(
      MAX_OUTCOME_HEADER_BYTES,
    );
  });

  it('has no message id where the envelope has none that is usable', () => {
    for (const hint of ['x', 5, {}, { message_id: 7 }, { message_id: 'x'.repeat(257) }]) {
      expect(JSON.parse(outcomeHeader(hint, [])).message_id).toBe(null);
    }
  });
});
