// Token ids by the digest of the text they came from: byte-capped, the longest unused go first. The text itself is never kept.
import { hash } from 'node:crypto';

/** What an entry costs beside its ids: digest, map entry and typed array, in bytes (measured on Node 20, rounded up). */
const ENTRY_BYTES = 320;
const ID_BYTES = 4;

/** A byte-capped cache of token ids. */
export class IdCache {
  readonly #maxBytes: number;
  readonly #ids = new Map<string, Uint32Array>();
  #bytes = 0;

  /** @param maxBytes most memory it takes; 0 = it keeps nothing. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Memory taken now, at most the cap. */
  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#ids.size;
  }

  /** Do not write to what it returns: it is the kept array itself. */
  get(key: string): Uint32Array | undefined {
    const ids = this.#ids.get(key);
    if (ids === undefined) return undefined;
    // A map keeps the order of insertion: the first entry is the one that was unused for longest.
    this.#ids.delete(key);
    this.#ids.set(key, ids);
    return ids;
  }

  /** Keeps the array itself; what would not fit at all is not kept. */
  set(key: string, ids: Uint32Array): void {
    const bytes = costOf(ids);
    if (bytes > this.#maxBytes) return;
    const older = this.#ids.get(key);
    if (older !== undefined) {
      this.#ids.delete(key);
      this.#bytes -= costOf(older);
    }
    this.#ids.set(key, ids);
    this.#bytes += bytes;
    for (const [oldest, dropped] of this.#ids) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#ids.delete(oldest);
      this.#bytes -= costOf(dropped);
    }
  }
}

/** The key of a text. Of its UTF-16 units: as UTF-8, half a surrogate pair would be the same as U+FFFD, whose ids may differ. */
export function keyOfText(text: string): string {
  return hash('sha256', Buffer.from(text, 'utf16le'), 'base64');
}

function costOf(ids: Uint32Array): number {
  return ENTRY_BYTES + ids.length * ID_BYTES;
}
