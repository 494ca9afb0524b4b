import { describe, expect, it } from 'vitest';
import { bench, removed, stored } from './applier.fixtures.ts';
import { EventFilter } from './event-filter.ts';
import type { KvEventScope } from './types.ts';

const scope = (more: Partial<KvEventScope>): KvEventScope => ({
  groupIndex: null,
  attentionKind: null,
  locality: null,
  unsupported: null,
  ...more,
});

describe('EventFilter', () => {
  it('passes what says nothing, and what is local', () => {
    const filter = new EventFilter();
    expect(filter.checkStore(undefined)).toBe(null);
    expect(filter.checkStore(scope({ locality: 'LOCAL' }))).toBe(null);
    expect(filter.checkRemoval(undefined)).toBe(null);
  });

  it('leaves out what is remote or of a locality not known', () => {
    for (const locality of ['REMOTE', 'local', 'ELSEWHERE', '']) {
      expect(new EventFilter().checkStore(scope({ locality }))).toBe('remote');
      expect(new EventFilter().checkRemoval(scope({ locality }))).toBe('remote');
    }
  });

  it('indexes the kinds of main attention only, and tells kinds it does not know', () => {
    const reasons = (kind: string): unknown => new EventFilter().checkStore(scope({ attentionKind: kind }));
    for (const kind of ['full_attention', 'mla_attention', 'sink_full_attention'])
      expect(reasons(kind)).toBe(null);
    for (const kind of [
      'sliding_window',
      'sliding_window_mla',
      'mamba',
      'chunked_local_attention',
      'encoder_only_attention',
      'cross_attention',
    ]) {
      expect(reasons(kind)).toBe('non_main_attention_kind');
    }
    expect(reasons('linear_attention')).toBe('unknown_kind');
  });

  it('learns from stores what a group is, for removals and stores without a kind', () => {
    const filter = new EventFilter();
    const group = (groupIndex: number): KvEventScope => scope({ groupIndex });
    expect(filter.checkRemoval(group(0))).toBe(null);
    expect(filter.checkRemoval(group(1))).toBe('unlearned_group_idx');
    filter.checkStore(scope({ groupIndex: 1, attentionKind: 'mla_attention' }));
    filter.checkStore(scope({ groupIndex: 0, attentionKind: 'sliding_window' }));
    filter.checkStore(scope({ groupIndex: 2, attentionKind: 'a new one' }));
    expect(filter.checkRemoval(group(1))).toBe(null);
    expect(filter.checkStore(group(0))).toBe('non_main_attention_group');
    expect(filter.checkRemoval(group(2))).toBe('non_main_attention_group');
  });

  it('does not learn from removals', () => {
    const filter = new EventFilter();
    expect(filter.checkRemoval(scope({ groupIndex: 3, attentionKind: 'full_attention' }))).toBe(null);
    expect(filter.checkStore(scope({ groupIndex: 3 }))).toBe('unlearned_group_idx');
  });

  it('remembers a bounded number of groups', () => {
    const filter = new EventFilter();
    for (let group = 0; group < 100; group += 1) {
      filter.checkStore(scope({ groupIndex: group, attentionKind: 'full_attention' }));
    }
    expect(filter.checkStore(scope({ groupIndex: 63 }))).toBe(null);
    expect(filter.checkStore(scope({ groupIndex: 64 }))).toBe('unlearned_group_idx');
  });
});

describe('what an applier learns of groups', () => {
  it('is each rank’s own, and outlasts a clear', () => {
    const { applier, depth } = bench({ ownerOfRank: (_, rank) => rank });
    const mamba = stored([10], [1, 2], { scope: scope({ groupIndex: 0, attentionKind: 'mamba' }) });
    const plain = stored([10], [1, 2], { scope: scope({ groupIndex: 0 }) });
    applier.onDecodedBatch(1, 0, { timestamp: 0, rank: 1, events: [mamba, { kind: 'cleared' }] });
    applier.onDecodedBatch(1, 1, { timestamp: 0, rank: 2, events: [plain] });
    applier.onDecodedBatch(1, 2, { timestamp: 0, rank: 1, events: [plain, removed([10])] });
    expect(depth(1, [1, 2])).toBe(0);
    expect(depth(2, [1, 2])).toBe(1);
  });
});
