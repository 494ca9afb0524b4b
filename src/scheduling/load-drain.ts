// How fast bookings leave each (worker, rank): blocks and prompt tokens that releases give back, measured only while somebody asks.
import type { OwnerSlot } from '../kv/index.ts';
import { ReleasePace } from '../observe/index.ts';
import type { SlotLoads } from './slot-loads.ts';

interface SlotPaces {
  readonly blocks: ReleasePace;
  readonly prefillTokens: ReleasePace;
}

/** What is read of the loads: prompts in full until their first token, as a pace is that of whole prompts. */
export type MeasuredLoads = Pick<SlotLoads, 'activeDecodeBlocks' | 'activePrefillTokens' | 'activeRequests'>;

/** The pace of every slot, and which slot each measured attempt is booked on. */
export class LoadDrain {
  readonly #loads: MeasuredLoads;
  readonly #now: () => number;
  readonly #slotOf = new Map<number, OwnerSlot>();
  readonly #paces = new Map<OwnerSlot, SlotPaces>();
  /** Before the change that is being measured; slot −1 = an attempt that is not measured. */
  readonly #before = { slot: -1, blocks: 0, prefillTokens: 0 };

  constructor(loads: MeasuredLoads, now: () => number) {
    this.#loads = loads;
    this.#now = now;
  }

  /** Attempts that are measured. */
  get measured(): number {
    return this.#slotOf.size;
  }

  /** An attempt was booked: from here on it is measured. */
  booked(attempt: number, slot: OwnerSlot, prefillTokens: number): void {
    this.#slotOf.set(attempt, slot);
    const { activePrefillTokens, activeRequests } = this.#loads;
    const paces = this.#pacesOf(slot);
    if (activeRequests[slot] === 1) paces.blocks.restart(this.#now());
    if (prefillTokens > 0 && activePrefillTokens[slot] === prefillTokens)
      paces.prefillTokens.restart(this.#now());
  }

  /** The load of an attempt is about to change. */
  before(attempt: number): void {
    const before = this.#before;
    before.slot = this.#slotOf.get(attempt) ?? -1;
    if (before.slot < 0) return;
    before.blocks = this.#loads.activeDecodeBlocks[before.slot] ?? 0;
    before.prefillTokens = this.#loads.activePrefillTokens[before.slot] ?? 0;
  }

  /** It has changed. `ended` = its booking is over; `held` = it had one. */
  after(attempt: number, ended: boolean, held: boolean): void {
    if (ended) this.#slotOf.delete(attempt);
    const { slot, blocks, prefillTokens } = this.#before;
    if (slot < 0 || !held) return;
    const paces = this.#pacesOf(slot);
    const prefilled = prefillTokens - (this.#loads.activePrefillTokens[slot] ?? 0);
    if (prefilled > 0) paces.prefillTokens.released(prefilled, this.#now());
    const freed = blocks - (this.#loads.activeDecodeBlocks[slot] ?? 0);
    if (ended) paces.blocks.released(freed, this.#now());
    else paces.blocks.grew(-freed);
  }

  /** Ms until a slot's load will have fallen by so much, the slower of both; null = nothing was measured. */
  msUntil(slot: OwnerSlot, blocks: number, prefillTokens: number): number | null {
    const paces = this.#paces.get(slot);
    if (paces === undefined) return null;
    const now = this.#now();
    const forBlocks = blocks > 0 ? paces.blocks.msUntil(blocks, now) : 0;
    const forPrefill = prefillTokens > 0 ? paces.prefillTokens.msUntil(prefillTokens, now) : 0;
    return forBlocks === null || forPrefill === null ? null : Math.max(forBlocks, forPrefill);
  }

  /** A slot belongs to nobody, or to another worker, from here on. */
  forget(slot: OwnerSlot): void {
    this.#paces.delete(slot);
  }

  /** Nobody asks any more. */
  clear(): void {
    this.#slotOf.clear();
    this.#paces.clear();
  }

  #pacesOf(slot: OwnerSlot): SlotPaces {
    const known = this.#paces.get(slot);
    if (known !== undefined) return known;
    const paces = { blocks: new ReleasePace(), prefillTokens: new ReleasePace() };
    this.#paces.set(slot, paces);
    return paces;
  }
}
