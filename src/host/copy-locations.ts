// Who else holds the leading blocks of a booked prompt, read from the match of its selection. A scan over the match's rows; hashes are
// fetched from the index for the chosen source only.
import type { Worker, WorkerSpec } from '../fleet/index.ts';
import { type OwnerSlot, type PrefixMatch, TIERS } from '../kv/index.ts';
import { type KvCopy, type KvCopyLocations, type KvCopyOwner, PointsmanError } from '../plugin/index.ts';
import type { HintBooking } from './types.ts';

/** What the hint stage reads of a worker. */
export interface HintWorker extends Pick<Worker, 'state' | 'capabilities'> {
  readonly spec: Pick<WorkerSpec, 'id'>;
}

/** What the hint stage asks of the fleet. The fleet itself fits. */
export interface HintFleet {
  /** Worker of a slot; null for a free one. */
  workerOfSlot(slot: OwnerSlot): HintWorker | null;
  /** Data-parallel rank of a slot; negative for a free one. */
  slotRank(slot: OwnerSlot): number;
}

const DEVICE = TIERS.indexOf('device');
const HOST = TIERS.indexOf('host');

/** The copies possible for one booking, readable until {@link close}. */
export class BookingCopyLocations implements KvCopyLocations {
  readonly #fleet: HintFleet;
  #booking: HintBooking | null;
  #owners: readonly KvCopyOwner[] | null = null;

  constructor(fleet: HintFleet, booking: HintBooking) {
    this.#fleet = fleet;
    this.#booking = booking;
    // The policies of a booking share it: a member that one of them adds must not stand before those of the class.
    Object.freeze(this);
  }

  get localPrefixBlocks(): number {
    const { match, slot } = this.#open();
    if (match === null) return 0;
    const row = rowOf(match, slot);
    return row < 0 ? 0 : depth(match, DEVICE, row) + depth(match, HOST, row);
  }

  get owners(): readonly KvCopyOwner[] {
    const { match } = this.#open();
    if (this.#owners !== null) return this.#owners;
    const owners: KvCopyOwner[] = [];
    for (let row = 0; row < (match?.count ?? 0); row += 1) {
      const source = this.#source(row);
      if (source === null || match === null) continue;
      const { workerId, rank } = source;
      const prefixBlocks = depth(match, DEVICE, row);
      if (prefixBlocks > 0)
        owners.push(Object.freeze({ source: Object.freeze({ workerId, rank }), prefixBlocks }));
    }
    owners.sort((a, b) => b.prefixBlocks - a.prefixBlocks || bySource(a, b));
    this.#owners = Object.freeze(owners);
    return this.#owners;
  }

  bestSource(minAdditional: number): KvCopy | null {
    const { match, index, hashes } = this.#open();
    if (match === null || index === null || hashes === null) return null;
    const local = this.localPrefixBlocks;
    const needed = local + Math.max(1, minAdditional);
    let best: Source | null = null;
    let prefix = 0;
    for (let row = 0; row < match.count; row += 1) {
      const blocks = depth(match, DEVICE, row);
      if (blocks < needed || blocks < prefix) continue;
      const source = this.#source(row);
      if (source === null || (blocks === prefix && best !== null && compare(best, source) <= 0)) continue;
      best = source;
      prefix = blocks;
    }
    // More blocks than the prompt has hashes for: the match is not of this prompt, so nothing can be said.
    if (best === null || prefix > hashes.blocks) return null;
    const out = new BigUint64Array(prefix);
    const known = index.externalHashes(best.slot, hashes.sequence, 0, prefix, out);
    // The list ends where the source's hash is unknown; what is left must still be worth it.
    if (known < needed) return null;
    return Object.freeze({
      source: Object.freeze({ workerId: best.workerId, rank: best.rank }),
      prefixBlocks: known,
      additionalBlocks: known - local,
      controlEndpoint: best.endpoint,
      blockHashes: known === prefix ? out : out.slice(0, known),
    });
  }

  /** Ends reading: the match belongs to the index again. */
  close(): void {
    this.#booking = null;
  }

  #open(): HintBooking {
    if (this.#booking !== null) return this.#booking;
    throw new PointsmanError(
      'PM_PLUGIN_INVALID',
      'copyLocations may be read only while buildHints runs; take what you need from it there',
    );
  }

  /** The owner of a row as a source for the booked rank, or null when it cannot be one. */
  #source(row: number): Source | null {
    const { match, slot: target } = this.#open();
    const slot = match?.owners[row] ?? target;
    if (slot === target) return null;
    const worker = this.#fleet.workerOfSlot(slot);
    const own = this.#fleet.workerOfSlot(target)?.capabilities;
    if (worker === null || !own || worker.state === 'gone' || worker.state === 'suspect') return null;
    const theirs = worker.capabilities;
    if (!theirs || theirs.model !== own.model || theirs.workerType !== own.workerType) return null;
    if (theirs.blockSize !== own.blockSize || theirs.hashScheme !== own.hashScheme) return null;
    const rank = this.#fleet.slotRank(slot);
    const endpoint = theirs.ranks.get(rank)?.sourceControlEndpoint;
    return endpoint ? { slot, workerId: worker.spec.id, rank, endpoint } : null;
  }
}

interface Source {
  readonly slot: OwnerSlot;
  readonly workerId: bigint;
  readonly rank: number;
  readonly endpoint: string;
}

function compare(a: { workerId: bigint; rank: number }, b: { workerId: bigint; rank: number }): number {
  if (a.workerId !== b.workerId) return a.workerId < b.workerId ? -1 : 1;
  return a.rank - b.rank;
}

function bySource(a: KvCopyOwner, b: KvCopyOwner): number {
  return compare(a.source, b.source);
}

function depth(match: PrefixMatch, tier: number, row: number): number {
  return match.depthPerTier[tier]?.[row] ?? 0;
}

/** Row of an owner, or −1; owners ascend. */
function rowOf(match: PrefixMatch, slot: OwnerSlot): number {
  let low = 0;
  let high = match.count - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const owner = match.owners[middle]!;
    if (owner === slot) return middle;
    if (owner < slot) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
