// What the events of one rank show beside what they say: ranks, block sizes, groups, clocks, copies. Counts over a window that
// halves, so that what was cured is forgotten. Nothing is allocated per block.
import type { KvEvent } from '../events/index.ts';

/** Slots of the filter that remembers which hashes are held; a hash that meets another in its slot replaces it. */
const REMEMBERED = 1024;

/** Stored blocks after which counts halve. */
const WINDOW_BLOCKS = 512;

/** Batches after which counts halve. */
const WINDOW_BATCHES = 256;

/** A clock that differs by so much more or less than before has jumped, ms. */
export const CLOCK_JUMP_MS = 30_000;

/** Ranks, sizes and kinds remembered at most. */
const MOST_KINDS = 8;

/** Root blocks remembered per rank. */
export const MOST_ROOTS = 64;

/** Tokens of a root block remembered at most. */
export const ROOT_TOKENS = 64;

/** The first block of a chain as the engine stored it. */
export interface StoredRoot {
  /** Its first tokens, {@link ROOT_TOKENS} at most. */
  readonly tokens: Uint32Array;
  readonly blockSize: number;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  /** The engine mixed in what the router does not know. */
  readonly isUnsupported: boolean;
  /** The engine's hash of the block, low word first. */
  readonly hashLow: number;
  readonly hashHigh: number;
  /** When it was heard, ms by the clock here. */
  readonly at: number;
}

/** Evidence of one (worker, rank). */
export class RankEvidence {
  /** Live batches of the window by the rank they name, -1 = none named. */
  readonly ranks = new Map<number, number>();
  /** Attention kinds other than the main one, or group numbers beyond 0. */
  readonly otherGroups = new Set<string>();
  readonly roots: StoredRoot[] = [];
  /** The newest live batch; -1 = none was heard. */
  lastSequence = -1;
  /** Its time stamp, seconds by the engine's clock; null = none that can be used. */
  lastTimestamp: number | null = null;
  batches = 0;
  /** Blocks stored on the device in the window, and those of them that were held already. */
  storedBlocks = 0;
  duplicateBlocks = 0;
  /** When blocks were removed last, ms by the clock here. */
  removedAt = Number.NEGATIVE_INFINITY;
  /** Stores of single-token pages, and of others. */
  singleTokenStores = 0;
  otherStores = 0;
  /** The newest step of the engine's clock against the one here, ms; 0 = none. */
  clockJumpMs = 0;
  #skewMs = Number.NaN;
  #jumpedAt = 0;
  readonly #held = new Uint32Array(2 * REMEMBERED);

  /** A live message came. @param timestamp of its batch, seconds by the engine's clock; null = none that can be used. */
  arrived(sequence: number, timestamp: number | null, nowMs: number): void {
    this.batches += 1;
    this.lastSequence = sequence;
    this.lastTimestamp = timestamp;
    if (timestamp === null) return;
    const skew = nowMs - timestamp * 1000;
    const jump = skew - this.#skewMs;
    if (Math.abs(jump) > CLOCK_JUMP_MS) {
      this.clockJumpMs = -jump;
      this.#jumpedAt = this.batches;
    } else if (this.batches - this.#jumpedAt > WINDOW_BATCHES) this.clockJumpMs = 0;
    this.#skewMs = skew;
  }

  /** A batch on this connection says whose it is; -1 = it does not. */
  speaksFor(rank: number): void {
    this.#countRank(rank);
  }

  /** Events of this rank are applied, live or as an answer. */
  applied(events: readonly KvEvent[], nowMs: number): void {
    for (const event of events) this.#note(event, nowMs);
  }

  /** All that the rank held is forgotten; what its engine is like stays known until it restarts. */
  forgotten(): void {
    this.#held.fill(0);
  }

  /** Another engine speaks. */
  restarted(): void {
    this.forgotten();
    this.ranks.clear();
    this.otherGroups.clear();
    this.roots.length = 0;
    this.storedBlocks = 0;
    this.duplicateBlocks = 0;
    this.removedAt = Number.NEGATIVE_INFINITY;
    this.singleTokenStores = 0;
    this.otherStores = 0;
    this.#skewMs = Number.NaN;
  }

  #countRank(rank: number): void {
    const before = this.ranks.get(rank);
    if (before === undefined && this.ranks.size >= MOST_KINDS) return;
    this.ranks.set(rank, (before ?? 0) + 1);
    if ((before ?? 0) < WINDOW_BATCHES) return;
    for (const [known, count] of this.ranks) {
      if (count < 2) this.ranks.delete(known);
      else this.ranks.set(known, count >> 1);
    }
  }

  #note(event: KvEvent, nowMs: number): void {
    switch (event.kind) {
      case 'stored': {
        const { attentionKind = null, groupIndex = null } = event.scope ?? {};
        const isOther = attentionKind === null ? (groupIndex ?? 0) > 0 : !isMain(attentionKind);
        if (isOther) {
          if (this.otherGroups.size < MOST_KINDS)
            this.otherGroups.add(attentionKind ?? `group ${groupIndex}`);
          return;
        }
        if (event.blockSize === 1) this.singleTokenStores += 1;
        else this.otherStores += 1;
        if (event.tier !== 'device') return;
        this.#count(event.external);
        if (event.parent === null && event.external.length > 0) this.#root(event, nowMs);
        return;
      }
      case 'removed':
        this.removedAt = nowMs;
        if (event.tier === 'device') this.#forget(event.external);
        return;
      case 'cleared':
        if (event.tier === undefined || event.tier === 'device') this.forgotten();
        return;
      case 'hint-outcome':
    }
  }

  #count(hashes: Uint32Array): void {
    const held = this.#held;
    for (let at = 0; at < hashes.length; at += 2) {
      const low = hashes[at] ?? 0;
      const high = hashes[at + 1] ?? 0;
      const slot = 2 * ((low ^ high) & (REMEMBERED - 1));
      if (held[slot] === low && held[slot + 1] === high && (low | high) !== 0) this.duplicateBlocks += 1;
      held[slot] = low;
      held[slot + 1] = high;
    }
    this.storedBlocks += hashes.length >> 1;
    while (this.storedBlocks > WINDOW_BLOCKS) {
      this.storedBlocks >>= 1;
      this.duplicateBlocks >>= 1;
      this.singleTokenStores >>= 1;
      this.otherStores >>= 1;
    }
  }

  #forget(hashes: Uint32Array): void {
    const held = this.#held;
    for (let at = 0; at < hashes.length; at += 2) {
      const low = hashes[at] ?? 0;
      const high = hashes[at + 1] ?? 0;
      const slot = 2 * ((low ^ high) & (REMEMBERED - 1));
      if (held[slot] !== low || held[slot + 1] !== high) continue;
      held[slot] = 0;
      held[slot + 1] = 0;
    }
  }

  #root(event: Extract<KvEvent, { kind: 'stored' }>, at: number): void {
    this.roots.push({
      tokens: event.tokenIds.slice(0, Math.min(event.blockSize, ROOT_TOKENS)),
      blockSize: event.blockSize,
      loraName: event.loraName,
      cacheSalt: event.cacheSalt,
      isUnsupported: (event.scope?.unsupported ?? null) !== null,
      hashLow: event.external[0] ?? 0,
      hashHigh: event.external[1] ?? 0,
      at,
    });
    if (this.roots.length > MOST_ROOTS) this.roots.shift();
  }
}

/** Whether a kind of attention keeps the blocks of the whole prompt: those that the index holds. */
function isMain(kind: string): boolean {
  return kind === 'full_attention' || kind === 'mla_attention' || kind === 'sink_full_attention';
}
