// The giving side of `kv.fetch`: pins resident blocks for a peer until it is done, cancels or runs out of time.
import { fromBigUint64Array } from '../../kv/index.ts';
import type { FetchAnswer, FetchGrantRequest } from '../types.ts';
import { MAX_FETCH_HASHES } from './hint-payloads.ts';
import type { KvPool } from './kv-pool.ts';
import type { LinkShare } from './link-share.ts';

/** Grants at a time; more peers are told that this source is busy. */
const MAX_GRANTS = 256;

interface Grant {
  readonly table: Int32Array;
  readonly held: number;
  readonly expiresAt: number;
}

/** Grants of one rank. */
export class FetchSource {
  readonly #pool: KvPool;
  readonly #link: LinkShare;
  readonly #bytesPerBlock: number;
  readonly #announceRate: (key: string, gbps: number) => void;
  readonly #grants = new Map<string, Grant>();
  #announced = 0;

  constructor(
    pool: KvPool,
    link: LinkShare,
    bytesPerBlock: number,
    announceRate: (key: string, gbps: number) => void,
  ) {
    this.#pool = pool;
    this.#link = link;
    this.#bytesPerBlock = bytesPerBlock;
    this.#announceRate = announceRate;
    link.onChange({ after: () => this.#announce() });
  }

  /** Time of the next forced release, ms; infinite without grants. */
  get nextExpiry(): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.#grants.size === 0) return next;
    for (const grant of this.#grants.values()) next = Math.min(next, grant.expiresAt);
    return next;
  }

  /** Pins the resident prefix when it reaches beyond `from`. */
  grant(request: FetchGrantRequest, now: number): FetchAnswer {
    const { blockHashes, from, key } = request;
    if (blockHashes.length > MAX_FETCH_HASHES) return { error: 'too_many' };
    if (this.#grants.size >= MAX_GRANTS || this.#grants.has(key)) return { error: 'busy' };
    const hashes = fromBigUint64Array(blockHashes);
    const held = this.#pool.residentUntil(hashes, 0, blockHashes.length);
    if (held <= from) return { error: 'nothing_held' };
    const table = new Int32Array(held);
    // The whole prefix, so that its beginning does not grow older than its end meanwhile.
    this.#pool.acquire(hashes, 0, held, table);
    this.#grants.set(key, { table, held, expiresAt: now + request.deadlineMs });
    this.#link.join(now);
    return { held, bytes: (held - from) * this.#bytesPerBlock, gbps: this.#link.share };
  }

  /** Unpins a grant; true when there was one. */
  release(key: string, now: number): boolean {
    const grant = this.#grants.get(key);
    if (grant === undefined) return false;
    this.#grants.delete(key);
    this.#pool.release(grant.table, 0, grant.held);
    this.#link.leave(now);
    return true;
  }

  /** Releases grants whose deadline has passed. */
  expire(now: number): void {
    for (const [key, grant] of this.#grants) if (grant.expiresAt <= now) this.release(key, now);
  }

  /** Nothing flows any more: whoever is being served stands still until it gives up. */
  abandon(): void {
    for (const key of this.#grants.keys()) this.#announceRate(key, 0);
    this.#grants.clear();
  }

  #announce(): void {
    const { share } = this.#link;
    if (share === this.#announced) return;
    this.#announced = share;
    for (const key of this.#grants.keys()) this.#announceRate(key, share);
  }
}
