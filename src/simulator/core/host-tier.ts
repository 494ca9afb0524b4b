// Host memory behind the device pool: blocks that leave the device are kept here, and a request whose prefix goes on here has it
// copied back before it is scheduled. Copying out costs nothing (it runs beside the passes, in the link's other direction);
// copying back takes its bytes' time on the host link, one transfer after the other.
import type { HashPairs } from '../../kv/index.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { BlockContents } from './block-contents.ts';
import type { EventCollector } from './event-collector.ts';
import { KvPool } from './kv-pool.ts';
import type { RequestState } from './request-state.ts';

/** What the engine does when blocks are back. */
export interface HostTierListener {
  /** Blocks [from, held) arrived and belong to the request, private so far. */
  arrived(request: RequestState, from: number, held: number, at: number): void;
  /** The request is to be queued again, at the head. */
  resumed(request: RequestState, at: number): void;
}

interface Onboarding {
  readonly request: RequestState;
  /** Blocks of the request that were on the device before. */
  readonly from: number;
  /** Exclusive end of what is copied. */
  readonly held: number;
  /** Copies in host memory, pinned, at [from, held). */
  readonly table: Int32Array;
  readonly endsAt: number;
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
  readonly #onboardings: Onboarding[] = [];
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
    return this.#onboardings.length;
  }

  /** Time of the next end of a transfer, ms; infinite when none runs. */
  get nextDue(): number {
    return this.#onboardings[0]?.endsAt ?? Number.POSITIVE_INFINITY;
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
    this.#events.offloaded(lo, hi, this.#contents.parentOf(copy), this.#contents.tokensOf(copy));
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
    this.#linkFreeAt = Math.max(now, this.#linkFreeAt) + this.#transferMs(held - from);
    this.#onboardings.push({ request, from, held, table, endsAt: this.#linkFreeAt });
    return true;
  }

  /** Ends every transfer that is due. */
  advance(now: number): void {
    while (this.nextDue <= now) {
      const { from, held, request, table } = this.#onboardings.shift()!;
      this.#host.release(table, from, held);
      this.#onboarded += held - from;
      this.#listener.arrived(request, from, held, now);
      this.#listener.resumed(request, now);
    }
  }

  /** Ends the transfer of an aborted request; its device blocks are the caller's to release, its time on the link is lost. */
  cancel(request: RequestState): void {
    const index = this.#onboardings.findIndex((one) => one.request === request);
    const [cancelled] = index < 0 ? [] : this.#onboardings.splice(index, 1);
    if (cancelled) this.#host.release(cancelled.table, cancelled.from, cancelled.held);
  }

  residentBlocks(): HashPairs {
    return this.#host.residentBlocks();
  }

  #transferMs(blocks: number): number {
    const { blockSize, hostGbps, kvBytesPerToken, speedup, timing } = this.#settings;
    if (timing === 'none') return 0;
    return (8 * blocks * blockSize * kvBytesPerToken) / (hostGbps * 1e6 * speedup);
  }
}
