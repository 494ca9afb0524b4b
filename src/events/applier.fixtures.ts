// An applier over a real index, and the words tests say events and expectations in.
import {
  blockHashSeed,
  createBlockHasher,
  createPrefixIndex,
  hashBlocks,
  type OwnerSlot,
  TIERS,
} from '../kv/index.ts';
import type { MetricLabels, MetricName } from '../observe/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { encodeEventBatch } from './encode-batch.ts';
import { createKvEventApplier, type KvEventApplier, type KvEventApplierOptions } from './kv-event-applier.ts';
import type { BlockStoredEvent, KvEvent } from './types.ts';

export const hasher = createBlockHasher();

/** Hashes with a high half, so that no half is zero by chance. */
export const hashes = (...values: number[]): Uint32Array =>
  Uint32Array.from(values.flatMap((value) => [value, 9]));

/** A store of blocks of 2 tokens, unless said otherwise. */
export function stored(
  external: number[],
  tokens: number[],
  more: Partial<BlockStoredEvent> & { after?: number } = {},
): BlockStoredEvent {
  const { after, ...rest } = more;
  return {
    kind: 'stored',
    external: hashes(...external),
    parent: after === undefined ? null : { lo: after, hi: 9 },
    tokenIds: Uint32Array.from(tokens),
    blockSize: 2,
    tier: 'device',
    loraName: null,
    cacheSalt: null,
    sessionId: null,
    ...rest,
  };
}

export const removed = (external: number[], tier: BlockStoredEvent['tier'] = 'device'): KvEvent => ({
  kind: 'removed',
  external: hashes(...external),
  tier,
});

export interface Bench {
  readonly applier: KvEventApplier;
  readonly index: ReturnType<typeof createPrefixIndex>;
  readonly counts: Map<string, number>;
  readonly asked: OwnerSlot[];
  readonly gauge: (name: MetricName) => number;
  /** Sends events as bytes of the next batch of an owner. */
  readonly send: (owner: OwnerSlot, ...events: KvEvent[]) => void;
  /** Leading blocks an owner holds of a prompt, on the device unless said otherwise. */
  readonly depth: (owner: OwnerSlot, tokens: number[], ask?: Ask) => number;
}

export interface Ask {
  readonly loraName?: string;
  readonly cacheSalt?: string;
  readonly blockSize?: number;
  readonly bigrams?: boolean;
  readonly tier?: (typeof TIERS)[number];
}

export function bench(options: Partial<KvEventApplierOptions> = {}): Bench {
  const index = createPrefixIndex({ hasher });
  const sizes = new Map<OwnerSlot, number>();
  const counts = new Map<string, number>();
  const gauges = new Map<MetricName, () => number>();
  const asked: OwnerSlot[] = [];
  const sequences = new Map<OwnerSlot, number>();
  const applier = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    blockSizeOf: (owner) => sizes.get(owner) ?? null,
    learnBlockSize: (owner, size) => sizes.set(owner, size),
    requestReplay: (owner) => asked.push(owner),
    metrics: {
      count(name: MetricName, labels?: MetricLabels, by = 1) {
        const key = [name, ...Object.values(labels ?? {})].join(' ');
        counts.set(key, (counts.get(key) ?? 0) + by);
      },
      observe() {},
      gauge(name, read) {
        gauges.set(name, () => {
          const value = read();
          return typeof value === 'number' ? value : Number.NaN;
        });
      },
    },
    clock: new ManualClock(1000),
    ...options,
  });
  return {
    applier,
    index,
    counts,
    asked,
    gauge: (name) => gauges.get(name)?.() ?? Number.NaN,
    send(owner, ...events) {
      const sequence = sequences.get(owner) ?? 0;
      sequences.set(owner, sequence + 1);
      applier.onBatch(owner, sequence, encodeEventBatch({ timestamp: 0, rank: null, events }));
    },
    depth(owner, tokens, { blockSize = 2, bigrams = false, tier = 'device', ...scope } = {}) {
      const form = { bigrams };
      const prompt = hashBlocks(hasher, Uint32Array.from(tokens), blockSize, blockHashSeed(scope), form);
      const match = index.find(prompt.local, prompt.sequence, [tier]);
      const row = match.owners.subarray(0, match.count).indexOf(owner);
      return row < 0 ? 0 : (match.depthPerTier[TIERS.indexOf(tier)]?.[row] ?? 0);
    },
  };
}
