// Who could copy leading blocks of a prompt to whom, for all candidates of a decision in O(sources + candidates): per group of peers
// the source to ask and the one to ask by those on its worker, so that each candidate leaves its own worker out at once.
import type { RankCapabilities, WorkerCapabilities } from '../fleet/index.ts';
import { type OwnerSlot, type PrefixMatch, TIERS } from '../kv/index.ts';
import type { HintFleet } from './copy-locations.ts';
import { isInReach, peerGroupOf } from './copy-peers.ts';
import { FirstTwoSources, NotedSource, nearTieFloor, type SourceLoad } from './source-choice.ts';
import type { CandidateTable } from './types.ts';

/** Groups that differ only in what workers advertise; beyond them everything is looked up anew. */
const MOST_GROUPS = 4096;
/** Roles have one sender each; a reload brings others. */
const MOST_SENDERS = 16;
const DEVICE = TIERS.indexOf('device');

/** The sources of a group that matter, whichever worker asks. */
interface GroupSources {
  /** By prefix alone. */
  readonly longest: FirstTwoSources;
  /** Of those nearly as long as the longest, by load. */
  readonly lightest: FirstTwoSources;
  /** The same for the worker that holds the longest, which must do without its own. */
  readonly lightestBeside: NotedSource;
}

/** Fills the copy columns of candidate tables. Scratch space is kept between decisions. */
export class CopySources {
  readonly #fleet: HintFleet;
  readonly #loadOf: SourceLoad;
  readonly #groupIds = new Map<string, number>();
  readonly #groups: GroupSources[] = [];
  /** Advertisement and rank that what is noted of a slot was found from. */
  readonly #advertised: (WorkerCapabilities | undefined)[] = [];
  #rankOfSlot = new Int32Array(0);
  #groupOfSlot = new Int32Array(0);
  /** 1 = the rank names an endpoint to copy from. */
  #servesOfSlot = new Uint8Array(0);
  /** Per sender whether a slot takes its actions: 1 = no, 2 = yes, 0 = not known yet. */
  readonly #takesOfSlot = new Map<ReadonlySet<string> | null, Uint8Array>();
  readonly #offered = new NotedSource();

  constructor(fleet: HintFleet, loadOf: SourceLoad) {
    this.#fleet = fleet;
    this.#loadOf = loadOf;
  }

  /**
   * Fills `copyableBlocks` and `sourcePrefixBlocks`; the device and host columns must be filled. A null match gives zeros.
   * @param senderActions actions of the hint policy that sends copies; candidates that accept none of them are given none. Null = any.
   */
  fill(table: CandidateTable, match: PrefixMatch | null, senderActions: ReadonlySet<string> | null): void {
    this.#reset();
    const { count, slots, ranks, deviceBlocks, hostBlocks, copyableBlocks, sourcePrefixBlocks } = table;
    table.hasCopies = true;
    const any = match !== null && this.#gather(match);
    for (let row = 0; row < count; row += 1) {
      let blocks = 0;
      if (any && this.#takes(slots[row]!, ranks[row]!, senderActions))
        blocks = this.#sourceFor(table, row).prefixBlocks;
      sourcePrefixBlocks[row] = blocks;
      copyableBlocks[row] = Math.max(0, blocks - deviceBlocks[row]! - hostBlocks[row]!);
    }
  }

  /** Slot of the source of a row of the table filled last, or −1. */
  sourceOf(table: CandidateTable, row: number): OwnerSlot {
    return table.copyableBlocks[row]! >= 1 ? this.#sourceFor(table, row).slot : -1;
  }

  #reset(): void {
    if (this.#groupIds.size > MOST_GROUPS) {
      this.#groupIds.clear();
      this.#groups.length = 0;
      this.#advertised.length = 0;
    }
    if (this.#takesOfSlot.size > MOST_SENDERS) this.#takesOfSlot.clear();
    for (const { longest, lightest, lightestBeside } of this.#groups) {
      longest.clear();
      lightest.clear();
      lightestBeside.clear();
    }
  }

  /** Finds the sources of every group: the longest first, then the least loaded of those nearly as long. False = there are none. */
  #gather(match: PrefixMatch): boolean {
    const offered = this.#offered;
    let any = false;
    for (let found = 0; found < match.count; found += 1) {
      const group = this.#noteSource(match, found);
      if (group === null) continue;
      any = true;
      offered.load = 0;
      group.longest.offer(offered);
    }
    for (let found = 0; any && found < match.count; found += 1) {
      const group = this.#noteSource(match, found);
      if (group === null) continue;
      const { first, second } = group.longest;
      const isBeside =
        offered.workerId !== first.workerId && offered.prefixBlocks >= nearTieFloor(second.prefixBlocks);
      const isNear = offered.prefixBlocks >= nearTieFloor(first.prefixBlocks);
      if (!isBeside && !isNear) continue;
      offered.load = this.#loadOf(offered.slot);
      if (isNear) group.lightest.offer(offered);
      if (isBeside) group.lightestBeside.offer(offered);
    }
    return any;
  }

  /** Notes the owner of a row of the match in `#offered`; null when it cannot be a source. */
  #noteSource(match: PrefixMatch, found: number): GroupSources | null {
    const blocks = match.depthPerTier[DEVICE]?.[found] ?? 0;
    if (blocks === 0) return null;
    const slot = match.owners[found]!;
    const worker = this.#fleet.workerOfSlot(slot);
    const rank = this.#fleet.slotRank(slot);
    if (!worker?.capabilities || !isInReach(worker, rank)) return null;
    const group = this.#groupOf(slot, rank, worker.capabilities);
    if (this.#servesOfSlot[slot] === 0) return null;
    this.#offered.note(slot, worker.spec.id, rank, blocks, 0);
    return this.#groups[group]!;
  }

  /** The source of a row: the least loaded of the near-tied ones, or the longest where that one holds no more than the row itself. */
  #sourceFor(table: CandidateTable, row: number): NotedSource {
    const slot = table.slots[row]!;
    const worker = this.#fleet.workerOfSlot(slot);
    if (!worker?.capabilities) return NONE;
    const { id } = worker.spec;
    const { longest, lightest, lightestBeside } =
      this.#groups[this.#groupOf(slot, table.ranks[row]!, worker.capabilities)]!;
    const lightestOne = longest.first.workerId === id ? lightestBeside : lightest.besides(id);
    const isWorth = lightestOne.prefixBlocks > table.deviceBlocks[row]! + table.hostBlocks[row]!;
    return isWorth ? lightestOne : longest.besides(id);
  }

  #takes(slot: OwnerSlot, rank: number, senderActions: ReadonlySet<string> | null): boolean {
    const capabilities = this.#fleet.workerOfSlot(slot)?.capabilities;
    if (!capabilities) return false;
    this.#groupOf(slot, rank, capabilities);
    let known = this.#takesOfSlot.get(senderActions);
    if (known === undefined || known.length <= slot) {
      known = new Uint8Array(this.#rankOfSlot.length);
      this.#takesOfSlot.set(senderActions, known);
    }
    if (known[slot] === 0) known[slot] = takesAny(capabilities.ranks.get(rank), senderActions) ? 2 : 1;
    return known[slot] === 2;
  }

  /** The group of a slot; what else is noted of the slot is then right as well. */
  #groupOf(slot: OwnerSlot, rank: number, capabilities: WorkerCapabilities): number {
    if (this.#advertised[slot] === capabilities && this.#rankOfSlot[slot] === rank) {
      return this.#groupOfSlot[slot]!;
    }
    const key = peerGroupOf(capabilities);
    let group = this.#groupIds.get(key);
    if (group === undefined) {
      group = this.#groups.length;
      this.#groupIds.set(key, group);
      this.#groups.push(emptyGroup());
    }
    if (slot >= this.#rankOfSlot.length) this.#makeRoom(slot + 1);
    this.#advertised[slot] = capabilities;
    this.#rankOfSlot[slot] = rank;
    this.#groupOfSlot[slot] = group;
    this.#servesOfSlot[slot] = capabilities.ranks.get(rank)?.sourceControlEndpoint ? 1 : 0;
    for (const known of this.#takesOfSlot.values()) known[slot] = 0;
    return group;
  }

  #makeRoom(slots: number): void {
    const room = Math.max(16, 2 * slots);
    this.#advertised.length = 0;
    this.#takesOfSlot.clear();
    this.#rankOfSlot = new Int32Array(room);
    this.#groupOfSlot = new Int32Array(room);
    this.#servesOfSlot = new Uint8Array(room);
  }
}

const NONE = Object.freeze(new NotedSource());

function emptyGroup(): GroupSources {
  return {
    longest: new FirstTwoSources(),
    lightest: new FirstTwoSources(),
    lightestBeside: new NotedSource(),
  };
}

function takesAny(rank: RankCapabilities | undefined, actions: ReadonlySet<string> | null): boolean {
  if (rank?.routerHint !== true) return false;
  if (rank.actions === null || actions === null) return true;
  for (const action of actions) if (rank.actions.has(action)) return true;
  return false;
}
