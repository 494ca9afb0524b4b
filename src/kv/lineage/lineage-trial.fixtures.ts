// A session prefix index with small numbers for blocks, for tests that tell a story.
import { ManualClock } from '../../plugin/index.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt, u64ToBigInt } from '../hashing/u64.ts';
import { auditLineage } from './lineage-audit.fixtures.ts';
import { LineageState } from './lineage-state.ts';
import { sessionKey } from './session-key.ts';
import { SessionPrefixIndex } from './session-prefix-index.ts';
import type { LineageLimits, LineageOutcome } from './types.ts';

/** The key of a session of one partition, without tenant. */
export const keyOf = (id: string) => sessionKey({ model: 'm', routingGroup: 'g' }, null, id);

/** Blocks as the index takes them. */
export const pairsOf = (...blocks: readonly number[]): HashPairs =>
  fromBigUint64Array(BigUint64Array.from(blocks, BigInt));

/** One block as the index takes it. */
export const hashOf = (block: number): U64 => u64FromBigInt(BigInt(block));

/** What an outcome says, blocks as numbers. */
export function outcomeText(outcome: LineageOutcome): string {
  switch (outcome.kind) {
    case 'cyclic-parent':
    case 'conflicting-parent':
      return `${outcome.kind} ${u64ToBigInt(outcome.block)}`;
    case 'unknown-parent':
      return `${outcome.kind} ${u64ToBigInt(outcome.parent)}`;
    case 'too-long':
      return `${outcome.kind} ${outcome.blocks}`;
    default:
      return outcome.kind;
  }
}

/** An index, its time, and its calls in numbers; its invariants are looked at after each change. */
export class LineageTrial {
  readonly clock = new ManualClock();
  readonly state = new LineageState();
  readonly index: SessionPrefixIndex;
  readonly #limits: LineageLimits;

  constructor(limits: LineageLimits = {}) {
    this.#limits = limits;
    this.index = new SessionPrefixIndex(this.clock, limits, this.state);
  }

  match(session: string, owner: number, ...chain: readonly number[]): string {
    return this.#audited(outcomeText(this.index.match(keyOf(session), owner, pairsOf(...chain))));
  }

  store(session: string, owner: number, parent: number | null, ...blocks: readonly number[]): string {
    const before = parent === null ? null : hashOf(parent);
    return this.#audited(outcomeText(this.index.store(keyOf(session), owner, before, pairsOf(...blocks))));
  }

  remove(owner: number, ...blocks: readonly number[]): number {
    return this.#audited(this.index.remove(owner, pairsOf(...blocks)));
  }

  clear(owner: number): number {
    return this.#audited(this.index.clear(owner));
  }

  finish(session: string): boolean {
    return this.#audited(this.index.finish(keyOf(session)));
  }

  /** Paths in ascending order. */
  paths(session: string, owner: number, anchor: number | null = null): number[][] {
    const from = anchor === null ? null : hashOf(anchor);
    const paths = this.index.paths(keyOf(session), owner, from).map(numbers);
    return paths.toSorted((a, b) => (`${a}` < `${b}` ? -1 : 1));
  }

  unique(session: string, owner: number): number[] {
    return numbers(this.index.uniqueBlocks(keyOf(session), owner));
  }

  exclusive(session: string, owner: number): number[] {
    return numbers(this.index.exclusiveBlocks(keyOf(session), owner));
  }

  /** The number that stands for a block; null when it is not there. */
  id(block: number): number | null {
    return this.index.nodeOf(hashOf(block));
  }

  get nodes(): number {
    return this.index.stats().nodes;
  }

  get sessions(): number {
    return this.index.stats().sessions;
  }

  #audited<T>(answer: T): T {
    auditLineage(this.state, this.#limits);
    return answer;
  }
}

const numbers = (hashes: HashPairs): number[] => [...toBigUint64Array(hashes)].map(Number);
