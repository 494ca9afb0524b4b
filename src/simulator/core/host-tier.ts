// Host memory behind the device pool: blocks that leave the device are kept here, and a request whose prefix goes on here has it
// copied back before it is scheduled. Copying out costs nothing (it runs beside the passes, in the link's other direction);
// copying back takes its bytes' time on the host link, one transfer after the other.
import type { HashPairs } from '../../kv/index.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { BlockContents } from './block-contents.ts';
import type { EventCollector } from './event-collector.ts';
import { type EvictResult, KvPool } from './kv-pool.ts';
import type { RequestState } from './request-state.ts';

/** What the engine does when blocks are back. */
export interface HostTierListener {
  /** Blocks [from, held) arrived and belong to the request, private so far. */
  arrived(request: RequestState, from: number, held: number, at: number): void;
  /** The request is to be queued again, at the head. */
  resumed(request: RequestState, at: number): void;
}

interface Onboarding {
  readonly kind: 'onboarding';
  readonly request: RequestState;
  /** Blocks of the request that were on the device before. */
  readonly from: number;
  /** Exclusive end of what is copied. */
  readonly held: number;
  /** Copies in host memory, pinned, at [from, held). */
  readonly table: Int32Array;
  readonly endsAt: number;
}

interface Prefetch {
  readonly kind: 'prefetch';
  readonly hashes: HashPairs;
  /** Copies in host memory and on the device, one of each per hash. */
  readonly table: Int32Array;
  readonly deviceTable: Int32Array;
  readonly endsAt: number;
  readonly ended: () => void;
}

/** What a prefetch found. */
export interface PrefetchFound {
  /** Blocks that were on the device already. */
  readonly resident: number;
  /** Blocks on their way there. */
  readonly moving: number;
  /** The device had no room for all that could have been moved. */
  readonly noRoom: boolean;
}

/** Host memory of one rank. */
export class HostTier {
  readonly #settings: SimulatedEngineSettings;
  readonly #device: KvPool;
  readonly #deviceContents: BlockContents;
  readonly #host: KvPool;
  readonly #contents: BlockContents;
  readonly #events: EventCollector;
  readonly #listener: HostTierListener;
  readonly #copy = new Int32Array(1);
  /** In the order in which they end. */
  readonly #copies: (Onboarding | Prefetch)[] = [];
  #linkFreeAt = 0;
  #offloaded = 0;
  #onboarded = 0;

  /** @param deviceContents what stands in the device pool's copies. */
  constructor(
    settings: SimulatedEngineSettings,
    device: KvPool,
    deviceContents: BlockContents,
    events: EventCollector,
    listener: HostTierListener,
  ) {
    this.#settings = settings;
    this.#device = device;
    this.#deviceContents = deviceContents;
    this.#events = events;
    this.#listener = listener;
    this.#host = new KvPool(settings.hostKvBlocks, (lo, hi) => events.removed(lo, hi, 'host'));
    this.#contents = new BlockContents(settings.hostKvBlocks, settings.blockSize);
  }

  /** Blocks kept now. */
  get blocks(): number {
    return this.#host.residentHashes;
  }

  /** Blocks that came from the device since the start. */
  get offloaded(): number {
    return this.#offloaded;
  }

  /** Blocks that went back to it. */
  get onboarded(): number {
    return this.#onboarded;
  }

  /** Requests parked now. */
  get parked(): number {
    let requests = 0;
    for (const { kind } of this.#copies) if (kind === 'onboarding') requests += 1;
    return requests;
  }

  /** Time of the next end of a transfer, ms; infinite when none runs. */
  get nextDue(): number {
    return this.#copies[0]?.endsAt ?? Number.POSITIVE_INFINITY;
  }

  /** The last device copy of a hash goes: it is kept here, unless it is already or nothing can give way to it. */
  offload(lo: number, hi: number, deviceCopy: number): void {
    if (this.#host.touch(lo, hi)) return;
    if (this.#host.allocate(this.#copy, 0, 1) === 0) return;
    const copy = this.#copy[0]!;
    this.#contents.copyFrom(this.#deviceContents, deviceCopy, copy);
    this.#host.cache(copy, lo, hi);
    this.#host.release(this.#copy, 0, 1);
    this.#offloaded += 1;
    this.#events.copied(lo, hi, this.#contents.parentOf(copy), this.#contents.tokensOf(copy), 'host');
  }

  /**
   * Parks a queue head whose resident prefix goes on in host memory, while the device has room for it. @param reusable blocks of
   * its prompt that may be reused.
   */
  attempt(request: RequestState, reusable: number, now: number): boolean {
    const from = this.#device.residentUntil(request.external, request.blocks, reusable);
    const held = this.#host.residentUntil(request.external, from, reusable);
    if (held === from) return false;
    const unused = this.#device.inactiveAmong(request.external, request.blocks, from);
    if (held - from + unused > this.#device.available) return false;
    const table = new Int32Array(held);
    // Pinned first: making room on the device pushes other blocks into host memory.
    this.#host.acquire(request.external, from, held, table);
    this.#device.acquire(request.external, request.blocks, from, request.table);
    request.blocks = this.#device.allocate(request.table, from, held);
    request.cachedBlocks = from;
    request.status = 'parked';
    const endsAt = this.#endOf(held - from, now);
    this.#copies.push({ kind: 'onboarding', request, from, held, table, endsAt });
    return true;
  }

  /** Copies blocks to the device for nobody in particular, the first ones when it has no room for all; `ended` when they are there. */
  prefetch(hashes: HashPairs, now: number, ended: () => void): PrefetchFound {
    const here: number[] = [];
    const wanted: number[] = [];
    const seen = new Set<string>();
    for (let index = 0; index < hashes.length / 2; index += 1) {
      const lo = hashes[2 * index]!;
      const hi = hashes[2 * index + 1]!;
      const before = seen.size;
      if (seen.add(`${lo} ${hi}`).size === before) continue;
      if (this.#device.isResident(lo, hi)) here.push(lo, hi);
      else if (this.#host.isResident(lo, hi)) wanted.push(lo, hi);
    }
    // What is there already is not to make room for the rest: ordinary blocks go before retained ones, however lately they were used.
    const resident = here.length / 2;
    const pinned = new Int32Array(resident);
    this.#device.acquire(Uint32Array.from(here), 0, resident, pinned);
    const moving = Math.min(wanted.length / 2, this.#device.available);
    if (moving > 0) this.#move(Uint32Array.from(wanted.slice(0, 2 * moving)), now, ended);
    this.#device.release(pinned, 0, resident);
    return { resident, moving, noRoom: moving < wanted.length / 2 };
  }

  /** Gives up a block unless it is being copied. */
  evict(lo: number, hi: number): EvictResult {
    return this.#host.evict(lo, hi, null, 'hint');
  }

  /** Ends every transfer that is due. */
  advance(now: number): void {
    while (this.nextDue <= now) {
      const copy = this.#copies.shift()!;
      if (copy.kind === 'prefetch') {
        this.#prefetched(copy);
        continue;
      }
      const { from, held, request, table } = copy;
      this.#host.release(table, from, held);
      this.#onboarded += held - from;
      this.#listener.arrived(request, from, held, now);
      this.#listener.resumed(request, now);
    }
  }

  /** Ends the transfer of an aborted request; its device blocks are the caller's to release, its time on the link is lost. */
  cancel(request: RequestState): void {
    const index = this.#copies.findIndex((one) => one.kind === 'onboarding' && one.request === request);
    const [cancelled] = index < 0 ? [] : this.#copies.splice(index, 1);
    if (cancelled?.kind === 'onboarding') this.#host.release(cancelled.table, cancelled.from, cancelled.held);
  }

  residentBlocks(): HashPairs {
    return this.#host.residentBlocks();
  }

  /** Begins to copy blocks of host memory for which the device has room. */
  #move(hashes: HashPairs, now: number, ended: () => void): void {
    const count = hashes.length / 2;
    const table = new Int32Array(count);
    const deviceTable = new Int32Array(count);
    this.#host.acquire(hashes, 0, count, table);
    this.#device.allocate(deviceTable, 0, count);
    this.#copies.push({
      kind: 'prefetch',
      hashes,
      table,
      deviceTable,
      ended,
      endsAt: this.#endOf(count, now),
    });
  }

  #prefetched({ deviceTable, ended, hashes, table }: Prefetch): void {
    const count = table.length;
    for (let index = 0; index < count; index += 1) {
      const lo = hashes[2 * index]!;
      const hi = hashes[2 * index + 1]!;
      const to = deviceTable[index]!;
      this.#deviceContents.copyFrom(this.#contents, table[index]!, to);
      if (!this.#device.cache(to, lo, hi)) continue;
      const from = table[index]!;
      this.#events.copied(lo, hi, this.#contents.parentOf(from), this.#contents.tokensOf(from), 'device');
    }
    this.#device.release(deviceTable, 0, count);
    this.#host.release(table, 0, count);
    this.#onboarded += count;
    ended();
  }

  /** Takes the link for so many blocks; ms at which they are over. */
  #endOf(blocks: number, now: number): number {
    this.#linkFreeAt = Math.max(now, this.#linkFreeAt) + this.#transferMs(blocks);
    return this.#linkFreeAt;
  }

  #transferMs(blocks: number): number {
    const { blockSize, hostGbps, kvBytesPerToken, speedup, timing } = this.#settings;
    if (timing === 'none') return 0;
    return (8 * blocks * blockSize * kvBytesPerToken) / (hostGbps * 1e6 * speedup);
  }
}
