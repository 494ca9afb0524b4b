// Lineage of sessions on one worker: what a test feeds it with, and a naive one that keeps whole chains.
import type { LineageNodeId, SessionLineage } from '../../src/plugin/index.ts';

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

function toHashes(blocks: readonly string[]): BigUint64Array {
  return BigUint64Array.from(blocks, BigInt);
}
