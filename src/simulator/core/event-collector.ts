// Gathers the KV events of one pass, in order: evictions in a row become one BlockRemoved, blocks of one request that follow
// each other become one BlockStored.
import type { KvEvent, KvHintOutcomeEvent } from '../../events/index.ts';
import type { U64 } from '../../kv/index.ts';
import type { RequestState } from './request-state.ts';

/** Tiers that blocks are evicted from. */
export type RemovingTier = 'device' | 'host';

/** Collects events between two publications. */
export class EventCollector {
  readonly #blockSize: number;
  #events: KvEvent[] = [];
  /** Of one tier there is no order between what is removed in a row; the tiers do not disturb each other. */
  readonly #removed: Record<RemovingTier, number[]> = { device: [], host: [] };

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /** A hash has no copy any more on a tier. */
  removed(lo: number, hi: number, tier: RemovingTier): void {
    this.#removed[tier].push(lo, hi);
  }

  /** A block was copied to a tier that had no copy of it; `tokens` are kept. */
  copied(lo: number, hi: number, parent: U64 | null, tokens: Uint32Array, tier: RemovingTier): void {
    this.#flushRemoved(tier);
    this.#events.push({
      kind: 'stored',
      external: Uint32Array.of(lo, hi),
      parent,
      tokenIds: tokens,
      blockSize: this.#blockSize,
      tier,
      loraName: null,
      cacheSalt: null,
      sessionId: null,
    });
  }

  /** What became of a hint after its request was admitted. */
  hintOutcome(outcome: Omit<KvHintOutcomeEvent, 'kind'>): void {
    this.#events.push({ kind: 'hint-outcome', ...outcome });
  }

  /** Whether there is anything to take. */
  get pending(): boolean {
    return this.#events.length > 0 || this.#removed.device.length > 0 || this.#removed.host.length > 0;
  }

  /** Blocks [from, to) of a request became resident on the device; none of them was before. Its arrays are shared, not copied. */
  stored(request: RequestState, from: number, to: number): void {
    this.#flushRemoved('device');
    const { external } = request;
    this.#events.push({
      kind: 'stored',
      external: external.subarray(2 * from, 2 * to),
      parent: from === 0 ? null : { lo: external[2 * from - 2]!, hi: external[2 * from - 1]! },
      tokenIds: request.tokens.subarray(from * this.#blockSize, to * this.#blockSize),
      blockSize: this.#blockSize,
      tier: 'device',
      loraName: null,
      cacheSalt: request.cacheSalt,
      sessionId: request.sessionId,
    });
  }

  /** Everything since the last call; empty when nothing changed. */
  take(): readonly KvEvent[] {
    this.#flushRemoved('device');
    this.#flushRemoved('host');
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  #flushRemoved(tier: RemovingTier): void {
    const removed = this.#removed[tier];
    if (removed.length === 0) return;
    this.#events.push({ kind: 'removed', external: Uint32Array.from(removed), tier });
    removed.length = 0;
  }
}
