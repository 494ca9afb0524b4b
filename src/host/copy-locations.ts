// Who else holds the leading blocks of a booked prompt, read from the match of its selection. Hashes are fetched from the index
// for a chosen source only; one whose hashes are not known gives way to the next.
import type { Worker, WorkerSpec } from '../fleet/index.ts';
import { matchedRow, type OwnerSlot, type PrefixMatch, TIERS } from '../kv/index.ts';
import { type KvCopy, type KvCopyLocations, type KvCopyOwner, PointsmanError } from '../plugin/index.ts';
import { leastBlocks } from './blocks-asked.ts';
import { arePeers, isUsableSource } from './copy-peers.ts';
import {
  compareByLength,
  compareSources,
  type LoadedSource,
  NotedSource,
  nearTieFloor,
} from './source-choice.ts';
import type { CopyCommit, HintBooking } from './types.ts';

/** What the hint stage reads of a worker. */
export interface HintWorker
  extends Pick<Worker, 'state' | 'capabilities'>,
    Partial<Pick<Worker, 'approximate'>> {
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

/** Sources whose hashes turn out to be unknown give way to the next; at most this many are asked. */
const MOST_TRIES = 8;

/** What is looked at and the best so far: in place, as nobody else runs between a look and its use. */
const LOOKED_AT = new NotedSource();
const BEST = new NotedSource();

/** The copies possible for one booking, readable until {@link close}. */
export class BookingCopyLocations implements KvCopyLocations {
  readonly #fleet: HintFleet;
  #booking: HintBooking | null;
  #owners: readonly KvCopyOwner[] | null = null;
  #ranked: readonly LoadedSource[] | null = null;
  #missed = false;

  constructor(fleet: HintFleet, booking: HintBooking) {
    this.#fleet = fleet;
    this.#booking = booking;
    // The policies of a booking share it: a member that one of them adds must not stand before those of the class.
    Object.freeze(this);
  }

  get localPrefixBlocks(): number {
    const { match, slot } = this.#open();
    if (match === null) return 0;
    const row = matchedRow(match, slot);
    return row < 0 ? 0 : depth(match, DEVICE, row) + depth(match, HOST, row);
  }

  get owners(): readonly KvCopyOwner[] {
    this.#owners ??= Object.freeze(
      this.#sources().map(({ workerId, rank, prefixBlocks }) =>
        Object.freeze({ source: Object.freeze({ workerId, rank }), prefixBlocks }),
      ),
    );
    this.#open();
    return this.#owners;
  }

  bestSource(minAdditional: number): KvCopy | null {
    const copy = this.#best(minAdditional);
    this.#missed = copy === null;
    return copy;
  }

  /** Whether {@link bestSource} had no copy when it was last asked; asks anew from now on. */
  takeMissed(): boolean {
    const missed = this.#missed;
    this.#missed = false;
    return missed;
  }

  #best(minAdditional: number): KvCopy | null {
    const { hashes } = this.#open();
    const needed = this.localPrefixBlocks + leastBlocks(minAdditional);
    // More blocks than the prompt has hashes for: that match is not of this prompt.
    const most = hashes?.blocks ?? 0;
    let longest = this.#longest(needed, most);
    if (longest === 0) return null;
    // Nearly always it is the first: the others are put in order only where its hashes are not known.
    const first = this.#first(Math.max(needed, nearTieFloor(longest)), longest);
    const likely = first === null ? null : this.#copy(first, needed);
    if (likely !== null) return likely;
    for (let tries = 0; longest > 0; ) {
      const floor = Math.max(needed, nearTieFloor(longest));
      for (const source of this.#nearTied(floor, longest, MOST_TRIES - tries)) {
        tries += 1;
        const copy = this.#copy(source, needed);
        if (copy !== null) return copy;
      }
      if (tries === MOST_TRIES) return null;
      longest = this.#longest(needed, floor - 1);
    }
    return null;
  }

  /**
   * The copy that selection committed, looked at again: from its source if that can still serve the blocks that were credited, else
   * from the best other source that can; null when nobody can.
   */
  committed({ sourceSlot, additionalBlocks }: CopyCommit): KvCopy | null {
    const { match, hashes } = this.#open();
    const row = match === null ? -1 : matchedRow(match, sourceSlot);
    const source = row < 0 ? null : this.#source(row);
    const needed = this.localPrefixBlocks + additionalBlocks;
    if (source !== null && source.prefixBlocks >= needed && source.prefixBlocks <= (hashes?.blocks ?? 0)) {
      const copy = this.#copy(source, needed);
      if (copy !== null) return copy;
    }
    return this.bestSource(additionalBlocks);
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

  /** Every source, the longest first. */
  #sources(): readonly LoadedSource[] {
    const { match } = this.#open();
    if (this.#ranked !== null) return this.#ranked;
    const sources: LoadedSource[] = [];
    for (let row = 0; row < (match?.count ?? 0); row += 1) {
      const source = this.#source(row);
      if (source !== null) sources.push(source);
    }
    sources.sort(compareByLength);
    this.#ranked = sources;
    return sources;
  }

  /** The longest prefix from `least` to `most` blocks that a source holds; 0 = nobody does. Looks closer only at what is longer. */
  #longest(least: number, most: number): number {
    const { match } = this.#open();
    let longest = 0;
    for (let row = 0; row < (match?.count ?? 0); row += 1) {
      const blocks = match === null ? 0 : depth(match, DEVICE, row);
      if (blocks > longest && blocks >= least && blocks <= most && this.#looksAt(row)) longest = blocks;
    }
    return longest;
  }

  /** The first source that holds from `least` to `most` blocks, in the order of asking; noted until the next look. */
  #first(least: number, most: number): NotedSource | null {
    const { match, loadOf } = this.#open();
    if (match === null) return null;
    BEST.clear();
    for (let row = 0; row < match.count; row += 1) {
      const blocks = depth(match, DEVICE, row);
      if (blocks < least || blocks > most) continue;
      const load = loadOf?.(match.owners[row]!) ?? 0;
      if (BEST.slot >= 0 && load > BEST.load) continue;
      if (!this.#looksAt(row)) continue;
      LOOKED_AT.load = load;
      BEST.offer(LOOKED_AT);
    }
    return BEST.slot < 0 ? null : BEST;
  }

  /** The first sources that hold from `least` to `most` blocks, in the order of asking; with a popular prompt that is half of the fleet. */
  #nearTied(least: number, most: number, limit: number): readonly NotedSource[] {
    const { match, loadOf } = this.#open();
    const first: NotedSource[] = [];
    for (let row = 0; row < (match?.count ?? 0); row += 1) {
      const blocks = match === null ? 0 : depth(match, DEVICE, row);
      if (blocks < least || blocks > most) continue;
      const last = first.length === limit ? first.at(-1) : undefined;
      if (last !== undefined && (loadOf?.(match?.owners[row] ?? -1) ?? 0) > last.load) continue;
      const source = this.#source(row);
      if (source === null) continue;
      let at = first.length;
      while (at > 0 && compareSources(source, first[at - 1]!) < 0) at -= 1;
      if (at === limit) continue;
      first.splice(at, 0, source);
      if (first.length > limit) first.pop();
    }
    return first;
  }

  /** The owner of a row as a source for the booked rank, or null when it cannot be one. */
  #source(row: number): NotedSource | null {
    if (!this.#looksAt(row)) return null;
    const source = new NotedSource();
    source.copy(LOOKED_AT);
    source.load = this.#open().loadOf?.(source.slot) ?? 0;
    return source;
  }

  /** Notes the owner of a row, but for its load, if it can be a source for the booked rank. */
  #looksAt(row: number): boolean {
    const { match, slot: target } = this.#open();
    const slot = match?.owners[row] ?? target;
    const prefixBlocks = match === null ? 0 : depth(match, DEVICE, row);
    if (slot === target || prefixBlocks === 0) return false;
    const worker = this.#fleet.workerOfSlot(slot);
    const own = this.#fleet.workerOfSlot(target)?.capabilities;
    const rank = this.#fleet.slotRank(slot);
    if (!worker?.capabilities || !own || !isUsableSource(worker, rank)) return false;
    if (!arePeers(worker.capabilities, own)) return false;
    LOOKED_AT.note(slot, worker.spec.id, rank, prefixBlocks, 0);
    return true;
  }

  /** A copy of what the source holds, or null when fewer than `needed` of its hashes are known: the list ends at the first unknown one. */
  #copy({ slot, workerId, rank, prefixBlocks: prefix }: NotedSource, needed: number): KvCopy | null {
    const { index, hashes, links, workerId: targetId, rank: targetRank } = this.#open();
    const endpoint = this.#fleet.workerOfSlot(slot)?.capabilities?.ranks.get(rank)?.sourceControlEndpoint;
    if (index === null || hashes === null || !endpoint) return null;
    const out = new BigUint64Array(prefix);
    const known = index.externalHashes(slot, hashes.sequence, 0, prefix, out);
    if (known < needed) return null;
    return Object.freeze({
      source: Object.freeze({ workerId, rank }),
      prefixBlocks: known,
      additionalBlocks: known - this.localPrefixBlocks,
      controlEndpoint: endpoint,
      blockHashes: known === prefix ? out : out.slice(0, known),
      link: links?.between({ workerId: targetId, rank: targetRank }, endpoint) ?? null,
    });
  }
}

function depth(match: PrefixMatch, tier: number, row: number): number {
  return match.depthPerTier[tier]?.[row] ?? 0;
}
