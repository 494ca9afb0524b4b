import { describe, expect, it } from 'vitest';
import type { StatedKind } from '../../config/index.ts';
import { TimingKind } from './timing-kind.ts';

const LABELS = { model: 'm', role: 'aggregated' as const, engine: 'sim', device: '' };
const STATED: StatedKind = {
  model: null,
  role: null,
  engine: null,
  device: null,
  prefillTokenMs: 0.5,
  prefillAttentionMs: null,
  prefillPassMs: null,
  decodeMs: 9,
  decodeFillMs: null,
  fixed: false,
};

describe('a kind of worker', () => {
  it('starts from what is stated, and from its own start for the rest', () => {
    const [plain, stated] = [new TimingKind(LABELS).timing(), new TimingKind(LABELS, STATED).timing()];
    expect(stated).toEqual({ ...plain, prefillTokenMs: 0.5, decodeMs: 9 });
  });

  it('learns on top, unless what is stated is fixed', () => {
    const period = { ms: 5000, prompts: 1, tokens: 1000, attention: 500_000 };
    const learning = new TimingKind(LABELS, STATED);
    expect([learning.prefilled(period), learning.decoded(20, 1000)]).toEqual([true, true]);
    expect(learning.timing().prefillObservations).toBe(1);
    const fixed = new TimingKind(LABELS, { ...STATED, fixed: true });
    const before = fixed.timing();
    expect([fixed.prefilled(period), fixed.decoded(20, 1000)]).toEqual([false, false]);
    expect(fixed.timing()).toEqual(before);
    expect(before).toMatchObject({ prefillConfidence: 0, decodeConfidence: 0 });
  });
});
