// What the index benchmarks feed to both sides: chains of blocks as engines announce them, and the tree of Maps they compare with.
import { createBlockHasher, type HashPairs, hashAt, type U64 } from '../src/kv/index.ts';
import { type Rng, seededRng } from '../src/plugin/index.ts';

/** Blocks of a chain. */
export const CHAIN = 2048;
/** Leading blocks that chains of one system prompt share. */
export const SHARED = 64;
/** Distinct system prompts. */
export const SYSTEM_PROMPTS = 32;
/** Blocks of an event. */
export const EVENT = 16;
/** System prompts that every owner holds, with or without a chain behind them. */
const SYSTEMS_PER_OWNER = 4;

/** One store event. */
export interface StoreEvent {
  readonly owner: number;
  readonly parent: U64 | null;
  readonly external: HashPairs;
  readonly local: HashPairs;
}

/** The same for the tree of Maps. */
export interface TreeEvent {
  readonly owner: number;
  readonly parentName: bigint | null;
  readonly names: readonly bigint[];
  readonly contents: readonly bigint[];
}

/** A prompt to look up. */
export interface Chain {
  readonly local: HashPairs;
  readonly sequence: HashPairs;
}

/** Events in order, and the chains they add up to. */
export interface Workload {
  readonly events: readonly StoreEvent[];
  readonly chains: readonly Chain[];
}

function randomPairs(rng: Rng, n: number): HashPairs {
  const pairs = new Uint32Array(2 * n);
  for (let i = 0; i < pairs.length; i++) pairs[i] = rng.integer(2 ** 32);
  return pairs;
}

/** Hashes as bigints. */
export const bigints = (pairs: HashPairs): bigint[] =>
  Array.from(
    { length: pairs.length / 2 },
    (_, i) => (BigInt(pairs[2 * i + 1]!) << 32n) | BigInt(pairs[2 * i]!),
  );

const hasher = createBlockHasher();

/** Engine hashes of an owner: other values than the router's, equal for equal content, or the router's own. */
export function engineHashes(sequence: HashPairs, owner: number, named: boolean): HashPairs {
  if (!named) return sequence;
  return sequence.map((word, i) => (Math.imul(word, 0x9e3779b1) ^ (owner * 77 + (i & 1))) >>> 0);
}

/**
 * Chains of random content, each on one owner; the system prompts in front are on every owner that has a chain behind them, and on
 * others too.
 * @param named whether engines have hashes of their own.
 */
export function workload(blocks: number, owners: number, named: boolean): Workload {
  const rng = seededRng(blocks);
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => randomPairs(rng, SHARED));
  const known = new Set<string>();
  const events: StoreEvent[] = [];
  const chains: Chain[] = [];
  const announce = (owner: number, local: HashPairs, sequence: HashPairs, start: number): void => {
    const external = engineHashes(sequence, owner, named);
    for (let at = start; at < local.length / 2; at += EVENT) {
      events.push({
        owner,
        parent: at === 0 ? null : hashAt(external, at - 1),
        external: external.subarray(2 * at, 2 * (at + EVENT)),
        local: local.subarray(2 * at, 2 * (at + EVENT)),
      });
    }
  };
  const sequenceOf = (local: HashPairs): HashPairs => {
    const sequence = new Uint32Array(local.length);
    hasher.chain(null, local, sequence);
    return sequence;
  };
  for (let owner = 0; owner < owners; owner++) {
    for (let i = 0; i < SYSTEMS_PER_OWNER; i++) {
      const system = (owner * SYSTEMS_PER_OWNER + i) % SYSTEM_PROMPTS;
      known.add(`${owner} ${system}`);
      announce(owner, systems[system]!, sequenceOf(systems[system]!), 0);
    }
  }
  const perChain = CHAIN - SHARED;
  for (let c = 0; c * perChain + SYSTEM_PROMPTS * SHARED < blocks; c++) {
    const owner = c % owners;
    const system = rng.integer(SYSTEM_PROMPTS);
    const local = randomPairs(rng, CHAIN);
    local.set(systems[system]!);
    const sequence = sequenceOf(local);
    chains.push({ local, sequence });
    const start = known.has(`${owner} ${system}`) ? SHARED : 0;
    known.add(`${owner} ${system}`);
    announce(owner, local, sequence, start);
  }
  return { events, chains };
}

/** An event as the tree takes it. */
export const treeEvent = ({ owner, parent, external, local }: StoreEvent): TreeEvent => ({
  owner,
  parentName: parent === null ? null : (BigInt(parent.hi) << 32n) | BigInt(parent.lo),
  names: bigints(external),
  contents: bigints(local),
});

/** The events for the tree, to be made when it is its turn: marking so many bigints is not to be the index's cost. */
export const treeEvents = (events: readonly StoreEvent[]): TreeEvent[] => events.map(treeEvent);

interface TreeNode {
  readonly content: bigint;
  readonly parent: TreeNode | null;
  readonly children: Map<bigint, TreeNode>;
  readonly owners: Set<number>;
}

/** What one writes first: a node with two collections per block, a Map of names per owner. */
export class MapTree {
  readonly root: TreeNode = { content: 0n, parent: null, children: new Map(), owners: new Set() };
  readonly #named = new Map<number, Map<bigint, TreeNode>>();

  store(event: TreeEvent): void {
    const named = this.#named.get(event.owner) ?? new Map<bigint, TreeNode>();
    this.#named.set(event.owner, named);
    let node: TreeNode | undefined = event.parentName === null ? this.root : named.get(event.parentName);
    for (let i = 0; i < event.names.length && node !== undefined; i++) {
      const content = event.contents[i]!;
      const child: TreeNode = node.children.get(content) ?? {
        content,
        parent: node,
        children: new Map(),
        owners: new Set(),
      };
      node.children.set(content, child);
      child.owners.add(event.owner);
      named.set(event.names[i]!, child);
      node = child;
    }
  }

  remove(event: Pick<TreeEvent, 'owner' | 'names'>): void {
    const named = this.#named.get(event.owner);
    for (const name of event.names) {
      let node = named?.get(name);
      if (node === undefined) continue;
      named?.delete(name);
      node.owners.delete(event.owner);
      while (node.parent !== null && node.owners.size === 0 && node.children.size === 0) {
        node.parent.children.delete(node.content);
        node = node.parent;
      }
    }
  }

  find(contents: readonly bigint[]): Map<number, number> {
    const depths = new Map<number, number>();
    let node = this.root.children.get(contents[0]!);
    if (node === undefined) return depths;
    const active = new Set(node.owners);
    let depth = 1;
    for (; depth < contents.length && active.size > 0; depth++) {
      node = node.children.get(contents[depth]!);
      if (node === undefined) break;
      for (const owner of active) {
        if (node.owners.has(owner)) continue;
        depths.set(owner, depth);
        active.delete(owner);
      }
    }
    for (const owner of active) depths.set(owner, depth);
    return depths;
  }
}
