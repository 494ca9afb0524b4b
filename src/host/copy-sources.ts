// Who could copy leading blocks of a prompt to whom, for all candidates of a decision in O(sources + candidates): per group of peers
// the best source and the best one on another worker, so that each candidate leaves its own worker out at once.
import type { RankCapabilities, WorkerCapabilities } from '../fleet/index.ts';
import { type OwnerSlot, type PrefixMatch, TIERS } from '../kv/index.ts';
import type { HintFleet, HintWorker } from './copy-locations.ts';
import { isUsableSource, peerGroupOf } from './copy-peers.ts';
import type { CandidateTable } from './types.ts';

/** Groups that differ only in what workers advertise; beyond them everything is looked up anew. */
const MOST_GROUPS = 4096;
const DEVICE = TIERS.indexOf('device');

/** The two sources of a group that matter; slots are −1 where there is none. */
interface GroupSources {
  bestSlot: OwnerSlot;
  bestBlocks: number;
  bestWorker: bigint;
  bestRank: number;
  otherSlot: OwnerSlot;
  otherBlocks: number;
  otherWorker: bigint;
  otherRank: number;
}

/** Fills the copy columns of candidate tables. Scratch space is kept between decisions. */
export class CopySources {
  readonly #fleet: HintFleet;
  readonly #groupIds = new Map<string, number>();
  readonly #groups: GroupSources[] = [];
  /** Advertisement a slot's group was found from, and the group. */
  readonly #advertised: (WorkerCapabilities | undefined)[] = [];
  readonly #groupOfSlot: number[] = [];

  constructor(fleet: HintFleet) {
    this.#fleet = fleet;
  }

  /**
   * Fills `copyableBlocks` and `sourcePrefixBlocks`; the device and host columns must be filled. A null match gives zeros.
   * @param senderActions actions of the hint policy that sends copies; candidates that accept none of them are given none. Null = any.
   */
  fill(table: CandidateTable, match: PrefixMatch | null, senderActions: ReadonlySet<string> | null): void {
    this.#reset();
    const { count, copyableBlocks, sourcePrefixBlocks } = table;
    table.hasCopies = true;
    const sources = match === null ? 0 : this.#gather(match);
    for (let row = 0; row < count; row += 1) {
      const blocks = sources === 0 ? 0 : this.#blocksFor(table, row, senderActions);
      sourcePrefixBlocks[row] = blocks;
      copyableBlocks[row] = Math.max(0, blocks - table.deviceBlocks[row]! - table.hostBlocks[row]!);
    }
  }

  /** Slot of the source of a row of the table filled last, or −1. */
  sourceOf(table: CandidateTable, row: number): OwnerSlot {
    if (!(table.copyableBlocks[row]! >= 1)) return -1;
    const slot = table.slots[row]!;
    const worker = this.#fleet.workerOfSlot(slot);
    if (!worker?.capabilities) return -1;
    const group = this.#groups[this.#groupOf(slot, worker.capabilities)]!;
    return group.bestWorker === worker.spec.id ? group.otherSlot : group.bestSlot;
  }

  #reset(): void {
    if (this.#groupIds.size > MOST_GROUPS) {
      this.#groupIds.clear();
      this.#groups.length = 0;
      this.#advertised.length = 0;
    }
    for (const group of this.#groups) {
      group.bestSlot = -1;
      group.bestBlocks = 0;
      group.otherSlot = -1;
      group.otherBlocks = 0;
    }
  }

  /** Offers every eligible owner of the match to its group; answers how many there were. */
  #gather(match: PrefixMatch): number {
    const fleet = this.#fleet;
    const depths = match.depthPerTier[DEVICE];
    let sources = 0;
    for (let found = 0; found < match.count; found += 1) {
      const blocks = depths?.[found] ?? 0;
      if (blocks === 0) continue;
      const slot = match.owners[found]!;
      const worker = fleet.workerOfSlot(slot);
      if (!worker?.capabilities) continue;
      const rank = fleet.slotRank(slot);
      if (!isUsableSource(worker, rank)) continue;
      this.#offer(this.#groups[this.#groupOf(slot, worker.capabilities)]!, slot, worker, rank, blocks);
      sources += 1;
    }
    return sources;
  }

  #offer(group: GroupSources, slot: OwnerSlot, { spec }: HintWorker, rank: number, blocks: number): void {
    const { id } = spec;
    const { bestSlot, bestBlocks, bestWorker, bestRank, otherSlot } = group;
    if (bestSlot < 0 || precedes(blocks, id, rank, bestBlocks, bestWorker, bestRank)) {
      if (bestSlot >= 0 && bestWorker !== id) {
        group.otherSlot = bestSlot;
        group.otherBlocks = bestBlocks;
        group.otherWorker = bestWorker;
        group.otherRank = bestRank;
      }
      group.bestSlot = slot;
      group.bestBlocks = blocks;
      group.bestWorker = id;
      group.bestRank = rank;
    } else if (
      bestWorker !== id &&
      (otherSlot < 0 || precedes(blocks, id, rank, group.otherBlocks, group.otherWorker, group.otherRank))
    ) {
      group.otherSlot = slot;
      group.otherBlocks = blocks;
      group.otherWorker = id;
      group.otherRank = rank;
    }
  }

  /** Prefix of the best source for a candidate; 0 where there is none or the candidate takes no such hint. */
  #blocksFor(table: CandidateTable, row: number, senderActions: ReadonlySet<string> | null): number {
    const slot = table.slots[row]!;
    const worker = this.#fleet.workerOfSlot(slot);
    const capabilities = worker?.capabilities;
    if (!worker || !capabilities || !takesAny(capabilities.ranks.get(table.ranks[row]!), senderActions))
      return 0;
    const group = this.#groups[this.#groupOf(slot, capabilities)]!;
    if (group.bestSlot < 0) return 0;
    return group.bestWorker === worker.spec.id ? group.otherBlocks : group.bestBlocks;
  }

  #groupOf(slot: OwnerSlot, capabilities: WorkerCapabilities): number {
    if (this.#advertised[slot] === capabilities) return this.#groupOfSlot[slot]!;
    const key = peerGroupOf(capabilities);
    let group = this.#groupIds.get(key);
    if (group === undefined) {
      group = this.#groups.length;
      this.#groupIds.set(key, group);
      this.#groups.push(emptyGroup());
    }
    this.#advertised[slot] = capabilities;
    this.#groupOfSlot[slot] = group;
    return group;
  }
}

function emptyGroup(): GroupSources {
  const best = { bestSlot: -1, bestBlocks: 0, bestWorker: 0n, bestRank: 0 };
  return { ...best, otherSlot: -1, otherBlocks: 0, otherWorker: 0n, otherRank: 0 };
}

/** Longest prefix first, then the smallest (worker id, rank). */
function precedes(
  blocks: number,
  worker: bigint,
  rank: number,
  thanBlocks: number,
  thanWorker: bigint,
  thanRank: number,
): boolean {
  if (blocks !== thanBlocks) return blocks > thanBlocks;
  return worker === thanWorker ? rank < thanRank : worker < thanWorker;
}

function takesAny(rank: RankCapabilities | undefined, actions: ReadonlySet<string> | null): boolean {
  if (rank?.routerHint !== true) return false;
  if (rank.actions === null || actions === null) return true;
  for (const action of actions) if (rank.actions.has(action)) return true;
  return false;
}
