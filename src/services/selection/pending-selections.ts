// Selections that wait for their reservation, bounded in age, number and bytes.
import { type Clock, PointsmanError } from '../../plugin/index.ts';

/** Bounds of the cache. */
export interface PendingLimits {
  /** An entry is valid up to and at this age. */
  readonly ttlMs: number;
  readonly maxEntries: number;
  readonly maxBytes: number;
}

/** An entry as a replay sees it. */
export interface PendingEntry<T> {
  readonly value: T;
  /** Tells this entry from a later one of the same key. */
  readonly generation: number;
}

interface Stored<T> extends PendingEntry<T> {
  readonly at: number;
  readonly bytes: number;
}

/** What became of an entry that nobody took. */
export type PendingLoss = 'expired' | 'evicted';

/** Selections by partition and id; the latest of a key wins. */
export class PendingSelections<T> {
  readonly #limits: PendingLimits;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #lost: (why: PendingLoss) => void;
  /** In order of age: a key that is put again goes to the end. */
  readonly #entries = new Map<string, Stored<T>>();
  #bytes = 0;
  #generation = 0;

  constructor(
    limits: PendingLimits,
    clock: Pick<Clock, 'now'>,
    lost: (why: PendingLoss) => void = () => undefined,
  ) {
    this.#limits = limits;
    this.#clock = clock;
    this.#lost = lost;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Bytes that the entries say they keep. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a selection, and makes room: what is too old goes, then the oldest while there are too many or too much; it may be its own turn. */
  put(key: string, value: T, bytes: number): void {
    const { maxBytes, maxEntries } = this.#limits;
    this.#remove(key);
    const at = this.#clock.now();
    this.#entries.set(key, { value, bytes, at, generation: ++this.#generation });
    this.#bytes += bytes;
    for (const [oldest, entry] of this.#entries) {
      const expired = this.#isExpired(entry);
      if (!expired && this.#entries.size <= maxEntries && this.#bytes <= maxBytes) return;
      this.#remove(oldest);
      this.#lost(expired ? 'expired' : 'evicted');
    }
  }

  /** The entry of a key, left where it is; null = there is none, or it is too old. */
  peek(key: string): PendingEntry<T> | null {
    const entry = this.#entries.get(key);
    return entry === undefined || this.#isExpired(entry) ? null : entry;
  }

  /** Removes the entry of a key if it is the one that was seen. */
  consume(key: string, generation: number): void {
    if (this.#entries.get(key)?.generation === generation) this.#remove(key);
  }

  /** Removes the entry of a key, whatever it is. */
  discard(key: string): void {
    this.#remove(key);
  }

  #isExpired({ at }: Stored<T>): boolean {
    return this.#clock.now() - at > this.#limits.ttlMs;
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

/** Key of a selection. */
export function pendingKey(
  { model, routingGroup }: { readonly model: string; readonly routingGroup: string },
  id: string,
): string {
  return JSON.stringify([model, routingGroup, id]);
}

/** The answer to a replay of what is not there (any more). */
export function noSelection(id: string): PointsmanError {
  return new PointsmanError(
    'PM_SELECTOR_UNKNOWN',
    `no selection ${id} waits in this partition: it expired, was reserved already, or was made elsewhere; select again`,
  );
}
