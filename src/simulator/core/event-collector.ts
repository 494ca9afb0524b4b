// Gathers the KV events of one pass, in order: evictions in a row become one BlockRemoved, blocks of one request that follow
// each other become one BlockStored.
import type { KvEvent } from '../../events/index.ts';
import type { RequestState } from './request-state.ts';

/** Collects events between two publications. */
export class EventCollector {
  readonly #blockSize: number;
  #events: KvEvent[] = [];
  #removed: number[] = [];

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /** A hash has no copy any more. */
  readonly removed = (lo: number, hi: number): void => {
    this.#removed.push(lo, hi);
  };

  /** Blocks [from, to) of a request became resident; none of them was before. Its arrays are shared, not copied. */
  stored(request: RequestState, from: number, to: number): void {
    this.#flushRemoved();
    const { external } = request;
    this.#events.push({
      kind: 'stored',
      external: external.subarray(2 * from, 2 * to),
      parent: from === 0 ? null : { lo: external[2 * from - 2]!, hi: external[2 * from - 1]! },
      tokenIds: request.tokens.subarray(from * this.#blockSize, to * this.#blockSize),
      blockSize: this.#blockSize,
      tier: 'device',
      loraName: null,
      cacheSalt: null,
      sessionId: request.sessionId,
    });
  }

  /** Everything since the last call; empty when nothing changed. */
  take(): readonly KvEvent[] {
    this.#flushRemoved();
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  #flushRemoved(): void {
    if (this.#removed.length === 0) return;
    this.#events.push({ kind: 'removed', external: Uint32Array.from(this.#removed), tier: 'device' });
    this.#removed = [];
  }
}
