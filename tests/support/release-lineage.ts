// Lineage of sessions on one worker: what a test feeds it with, the session prefix index itself, and a naive one that keeps whole chains.
import {
  type HashPairs,
  SessionPrefixIndex,
  sessionKey,
  type U64,
  u64FromBigInt,
} from '../../src/kv/index.ts';
import { type LineageNodeId, ManualClock, type SessionLineage } from '../../src/plugin/index.ts';

/** A lineage and its feeds; blocks are decimal hashes. */
export interface ReleaseLineage extends SessionLineage {
  /** A prompt of the session begins with these blocks on the device. */
  match(sessionId: string, chain: readonly string[]): void;
  /** Blocks were stored for a session behind `parent`; null = from the root. */
  store(sessionId: string, parent: string | null, blocks: readonly string[]): void;
  remove(blocks: readonly string[]): void;
  finish(sessionId: string): void;
}

/** Chains in lists; everything is searched. */
export class NaiveReleaseLineage implements ReleaseLineage {
  readonly #chains = new Map<string, (readonly string[])[]>();
  readonly #parents = new Map<string, string | null>();
  readonly #over = new Set<string>();

  match(sessionId: string, chain: readonly string[]): void {
    this.#advance(sessionId, chain);
  }

  store(sessionId: string, parent: string | null, blocks: readonly string[]): void {
    let before = parent;
    for (const block of blocks) {
      this.#parents.set(block, before);
      before = block;
    }
    const chain: string[] = [];
    for (let at: string | null = before; at !== null; at = this.#parents.get(at) ?? null) chain.unshift(at);
    this.#advance(sessionId, chain);
  }

  remove(blocks: readonly string[]): void {
    const gone = new Set(blocks);
    for (const [session, chains] of this.#chains) {
      const cut = chains.map((chain) => {
        const end = chain.findIndex((block) => gone.has(block));
        return end < 0 ? chain : chain.slice(0, end);
      });
      this.#chains.set(session, []);
      for (const chain of cut) this.#advance(session, chain);
    }
  }

  finish(sessionId: string): void {
    this.#over.add(sessionId);
    this.#chains.delete(sessionId);
  }

  nodeOf(): LineageNodeId | null {
    return null;
  }

  node(): null {
    return null;
  }

  frontiers(): [] {
    return [];
  }

  paths(sessionId: string): readonly BigUint64Array[] {
    return (this.#chains.get(sessionId) ?? []).map(toHashes);
  }

  uniqueBlocks(sessionId: string): BigUint64Array {
    return toHashes([...new Set(this.#blocks(sessionId))]);
  }

  exclusiveBlocks(sessionId: string): BigUint64Array {
    const others = new Set(
      [...this.#chains.keys()].filter((id) => id !== sessionId).flatMap((id) => this.#blocks(id)),
    );
    return toHashes([...new Set(this.#blocks(sessionId))].filter((block) => !others.has(block)));
  }

  #blocks(sessionId: string): string[] {
    return (this.#chains.get(sessionId) ?? []).flat();
  }

  #advance(sessionId: string, chain: readonly string[]): void {
    const last = chain.at(-1);
    if (last === undefined || this.#over.has(sessionId)) return;
    const chains = this.#chains.get(sessionId) ?? [];
    if (chains.some((other) => other.includes(last))) return;
    this.#chains.set(sessionId, [...chains.filter((other) => !chain.includes(other.at(-1)!)), chain]);
  }
}

/** The index that routers have, with blocks under the engine's own names. */
export class IndexReleaseLineage implements ReleaseLineage {
  readonly #index: SessionPrefixIndex;
  readonly #owner: number;

  /** @param owner one that has no blocks in the index. */
  constructor(index: SessionPrefixIndex = new SessionPrefixIndex(new ManualClock()), owner = 0) {
    this.#index = index;
    this.#owner = owner;
  }

  match(sessionId: string, chain: readonly string[]): void {
    if (chain.length > 0) this.#index.match(keyOf(sessionId), this.#owner, toPairs(chain));
  }

  store(sessionId: string, parent: string | null, blocks: readonly string[]): void {
    const before: U64 | null = parent === null ? null : u64FromBigInt(BigInt(parent));
    this.#index.store(keyOf(sessionId), this.#owner, before, toPairs(blocks));
  }

  remove(blocks: readonly string[]): void {
    this.#index.remove(this.#owner, toPairs(blocks));
  }

  finish(sessionId: string): void {
    this.#index.finish(keyOf(sessionId));
  }

  nodeOf(): LineageNodeId | null {
    return null;
  }

  node(): null {
    return null;
  }

  frontiers(): [] {
    return [];
  }

  paths(sessionId: string): readonly BigUint64Array[] {
    return this.#index.paths(keyOf(sessionId), this.#owner).map(namedHashes);
  }

  uniqueBlocks(sessionId: string): BigUint64Array {
    return namedHashes(this.#index.uniqueBlocks(keyOf(sessionId), this.#owner));
  }

  exclusiveBlocks(sessionId: string): BigUint64Array {
    return namedHashes(this.#index.exclusiveBlocks(keyOf(sessionId), this.#owner));
  }
}

function keyOf(sessionId: string) {
  return sessionKey({ model: 'm', routingGroup: 'default' }, null, sessionId);
}

function namedHashes(pairs: HashPairs): BigUint64Array {
  return BigUint64Array.from(
    { length: pairs.length / 2 },
    (_, at) => (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!),
  );
}

function toPairs(blocks: readonly string[]): HashPairs {
  const pairs = new Uint32Array(2 * blocks.length);
  for (const [at, block] of blocks.entries()) {
    const { hi, lo } = u64FromBigInt(BigInt(block));
    pairs[2 * at] = lo;
    pairs[2 * at + 1] = hi;
  }
  return pairs;
}

function toHashes(blocks: readonly string[]): BigUint64Array {
  return BigUint64Array.from(blocks, BigInt);
}
