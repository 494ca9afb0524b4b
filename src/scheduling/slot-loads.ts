// The load every booking puts on its (worker, rank), as columns indexed by slot, and the bookings themselves. All numbers are
// multiples of 2^-30 below 2^23, so sums are exact and an empty slot is exactly zero.
import type { HashPairs, OwnerSlot } from '../kv/index.ts';
import type { Clock } from '../plugin/index.ts';
import { type ActivePrefill, ActivePrefills } from './active-prefills.ts';
import { ActivePrefixes, type HeldPrefix } from './active-prefixes.ts';
import { type BookedPhase, type FollowedRequest, RequestPhases } from './request-phases.ts';

interface Booking {
  readonly attempt: number;
  readonly slot: OwnerSlot;
  /** Prompt tokens still to be computed; 0 once the first token is out. */
  prefillTokens: number;
  /** The same in time; null = not followed. */
  prefill: ActivePrefill | null;
  /** Blocks that are this booking's alone: outputs, and the prompt where its hashes are not known. */
  ownBlocks: number;
  /** What these weigh together. */
  ownWeight: number;
  readonly prefix: HeldPrefix | null;
  /** Where it is; null = nobody follows it. */
  phase: BookedPhase | null;
  /** Whether it got on since `idleBookings` was called last. */
  renewed: boolean;
  /** Neighbours in the slot's list of bookings. */
  previous: Booking | null;
  next: Booking | null;
}

/** What the router has booked on a slot. */
export interface BookedLoad {
  readonly requests: number;
  /** Prompt tokens still to be computed, by what is foreseen of it. */
  readonly prefillTokens: number;
  /** Distinct blocks by weight, rounded. */
  readonly decodeBlocks: number;
}

/** A weight is a whole number of these. */
const WEIGHT_UNIT = 2 ** -30;

/** Rounds halves up, those too that weights rounded to their unit have missed by a hair. */
const ROUNDING = 0.5 + 2 ** -17;

/** Loads and bookings. Attempt ids are never given out twice, so that a late release cannot free somebody else's booking. */
export class SlotLoads {
  /** Prompt tokens booked and not yet computed, per slot. */
  activePrefillTokens: Float64Array = new Float64Array(16);
  /** Distinct blocks in use by active requests, per slot, by weight, rounded; blocks shared by prefix count once. */
  activeDecodeBlocks: Float64Array = new Float64Array(16);
  /** The same before rounding. */
  #blocks: Float64Array = new Float64Array(16);
  /** Bookings per slot. */
  activeRequests: Float64Array = new Float64Array(16);

  readonly #prefixes = new ActivePrefixes();
  /** What followed bookings are at. */
  readonly phases: RequestPhases = new RequestPhases();
  /** Null = prompts count in full until their first token. */
  readonly #prefills: ActivePrefills | null;
  readonly #bookings = new Map<number, Booking>();
  readonly #firstOfSlot: (Booking | null)[] = [];
  #lastAttempt = 0;

  /** @param clock when prompts are computed; null = nobody follows it. */
  constructor(clock: Clock | null = null) {
    this.#prefills = clock === null ? null : new ActivePrefills(clock);
  }

  /** Bookings held now. */
  get activeBookings(): number {
    return this.#bookings.size;
  }

  /** Runs in the tree of active prompts; 0 when idle. */
  get prefixRuns(): number {
    return this.#prefixes.nodeCount;
  }

  /** Whether nothing is booked on a slot. */
  isIdle(slot: OwnerSlot): boolean {
    return (this.#firstOfSlot[slot] ?? null) === null;
  }

  /** What is booked on a slot now. */
  bookedOn(slot: OwnerSlot): BookedLoad {
    return {
      requests: this.activeRequests[slot] ?? 0,
      prefillTokens: this.prefillTokensOn(slot),
      decodeBlocks: this.activeDecodeBlocks[slot] ?? 0,
    };
  }

  /** Prompt tokens still to be computed on a slot now, by what is foreseen of it. */
  prefillTokensOn(slot: OwnerSlot): number {
    const prefills = this.#prefills;
    return prefills?.tokensAt(slot, prefills.now()) ?? this.activePrefillTokens[slot] ?? 0;
  }

  /** Makes the columns at least `slots` long, so that readers may index them without a check. */
  ensureCapacity(slots: number): void {
    this.phases.ensureCapacity(slots);
    if (slots <= this.activeRequests.length) return;
    const length = Math.max(slots, this.activeRequests.length * 2);
    this.activePrefillTokens = grown(this.activePrefillTokens, length);
    this.activeDecodeBlocks = grown(this.activeDecodeBlocks, length);
    this.#blocks = grown(this.#blocks, length);
    this.activeRequests = grown(this.activeRequests, length);
  }

  /**
   * Prepares `additionalBlocks` for a prompt.
   * @param sequence sequence hashes of its full blocks; null = not known, nothing is shared.
   */
  measure(sequence: HashPairs | null): void {
    if (sequence === null) this.#prefixes.clearMeasure();
    else this.#prefixes.measure(sequence, sequence.length >>> 1);
  }

  /** Whether active requests of any slot hold blocks of the measured prompt; else {@link additionalBlocks} are all of them. */
  get sharesPrompt(): boolean {
    return this.#prefixes.isHeld;
  }

  /** Full blocks of the measured prompt, of `blocks` in all, that active requests of `slot` do not hold. */
  additionalBlocks(slot: OwnerSlot, blocks: number): number {
    return blocks - this.#prefixes.depthOf(slot);
  }

  /** Leading blocks of the measured prompt that active requests of each of `count` slots hold, at most `blocks`. */
  fillHeldBlocks(held: Float64Array, slots: Int32Array, count: number, blocks: number): void {
    if (!this.sharesPrompt) held.fill(0, 0, count);
    else
      for (let row = 0; row < count; row += 1)
        held[row] = Math.min(blocks, this.#prefixes.depthOf(slots[row]!));
  }

  /**
   * Reserves what a request will cost on a slot.
   * @param sequence sequence hashes of the prompt's full blocks, kept and never written; null = not known.
   * @param blocks full blocks of the prompt.
   * @param prefillTokens prompt tokens to compute, ≥ 0.
   * @param prefillMs foreseen time of computing them; null = not known.
   * @returns the attempt id that ends the booking.
   */
  book(
    slot: OwnerSlot,
    sequence: HashPairs | null,
    blocks: number,
    prefillTokens: number,
    prefillMs: number | null = null,
  ): number {
    this.ensureCapacity(slot + 1);
    const prefix = sequence === null ? null : this.#prefixes.hold(slot, sequence, blocks);
    const newBlocks = sequence === null ? blocks : this.#prefixes.changedBlocks;
    const first = this.#firstOfSlot[slot] ?? null;
    const booking: Booking = {
      attempt: ++this.#lastAttempt,
      slot,
      prefillTokens,
      prefill: prefillTokens === 0 ? null : (this.#prefills?.begin(slot, prefillTokens, prefillMs) ?? null),
      ownBlocks: sequence === null ? blocks : 0,
      ownWeight: sequence === null ? blocks : 0,
      prefix,
      phase: null,
      renewed: true,
      previous: null,
      next: first,
    };
    if (first !== null) first.previous = booking;
    this.#firstOfSlot[slot] = booking;
    this.#bookings.set(booking.attempt, booking);
    add(this.activePrefillTokens, slot, prefillTokens);
    this.#addBlocks(slot, newBlocks);
    add(this.activeRequests, slot, 1);
    return booking.attempt;
  }

  /**
   * Follows a booking just made through its phases, until it ends.
   * @param uncachedTokens prompt tokens to compute, 0 to all.
   */
  follow(attempt: number, request: FollowedRequest, uncachedTokens: number, now: number): void {
    const booking = this.#bookings.get(attempt);
    if (booking === undefined || booking.phase !== null) return;
    booking.phase = this.phases.begin(booking.slot, request, uncachedTokens, now);
  }

  /** Where a booking is; null = it is not followed, or there is none. */
  phaseOf(attempt: number): BookedPhase | null {
    return this.#bookings.get(attempt)?.phase ?? null;
  }

  /** The first token is out: nothing is left to prefill. False when the attempt holds no booking; repeating changes nothing. */
  prefillCompleted(attempt: number): boolean {
    const booking = this.#bookings.get(attempt);
    if (booking === undefined) return false;
    booking.renewed = true;
    this.#endPrefill(booking);
    return true;
  }

  /**
   * The output grew into one more block. False when the attempt holds no booking.
   * @param weight what each block of the output weighs from now on, and each at the end of the prompt that no other request of
   *   the slot shares; 0 to 1. Null = the new block weighs 1 and nothing else changes.
   */
  addOutputBlock(attempt: number, weight: number | null): boolean {
    const booking = this.#bookings.get(attempt);
    if (booking === undefined) return false;
    booking.renewed = true;
    booking.ownBlocks += 1;
    if (weight === null) {
      booking.ownWeight += 1;
      this.#addBlocks(booking.slot, 1);
      return true;
    }
    const rounded = Math.round(weight / WEIGHT_UNIT) * WEIGHT_UNIT;
    let change = booking.ownBlocks * rounded - booking.ownWeight;
    booking.ownWeight += change;
    if (booking.prefix !== null) {
      this.#prefixes.weigh(booking.slot, booking.prefix, rounded);
      change += this.#prefixes.changedBlocks;
    }
    this.#addBlocks(booking.slot, change);
    return true;
  }

  /** Its owner still wants it. False when the attempt holds no booking. */
  renew(attempt: number): boolean {
    const booking = this.#bookings.get(attempt);
    if (booking === undefined) return false;
    booking.renewed = true;
    return true;
  }

  /** Attempts whose bookings did not get on since the last call, and of which `gotOn`, asked for each once, says the same. */
  idleBookings(gotOn: (attempt: number) => boolean): readonly number[] {
    const idle: number[] = [];
    for (const booking of this.#bookings.values()) {
      if (!gotOn(booking.attempt) && !booking.renewed) idle.push(booking.attempt);
      booking.renewed = false;
    }
    return idle;
  }

  /** Ends a booking. False, and nothing changes, when the attempt holds none: unknown, or freed before. */
  free(attempt: number): boolean {
    const booking = this.#bookings.get(attempt);
    if (booking === undefined) return false;
    this.#bookings.delete(attempt);
    const { slot, previous, next } = booking;
    if (previous === null) this.#firstOfSlot[slot] = next;
    else previous.next = next;
    if (next !== null) next.previous = previous;
    let freed = booking.ownWeight;
    if (booking.prefix !== null) {
      this.#prefixes.release(slot, booking.prefix);
      freed += this.#prefixes.changedBlocks;
    }
    this.#endPrefill(booking);
    if (booking.phase !== null) this.phases.end(booking.phase);
    this.#addBlocks(slot, -freed);
    add(this.activeRequests, slot, -1);
    return true;
  }

  /** Ends every booking of a slot; returns how many there were. */
  freeSlot(slot: OwnerSlot): number {
    let count = 0;
    for (
      let first = this.#firstOfSlot[slot] ?? null;
      first !== null;
      first = this.#firstOfSlot[slot] ?? null
    ) {
      this.free(first.attempt);
      count += 1;
    }
    return count;
  }

  /** Replaces booked prompt tokens by what is left of them now, for `count` slots; where no time is foreseen it changes nothing. */
  decayPrefill(tokens: Float64Array, slots: Int32Array, count: number): void {
    const prefills = this.#prefills;
    if (prefills === null) return;
    const now = prefills.now();
    for (let row = 0; row < count; row += 1) tokens[row] = prefills.tokensAt(slots[row] ?? 0, now);
  }

  #endPrefill(booking: Booking): void {
    add(this.activePrefillTokens, booking.slot, -booking.prefillTokens);
    booking.prefillTokens = 0;
    if (booking.prefill !== null) this.#prefills?.end(booking.slot, booking.prefill);
    booking.prefill = null;
  }

  #addBlocks(slot: OwnerSlot, amount: number): void {
    add(this.#blocks, slot, amount);
    this.activeDecodeBlocks[slot] = Math.floor((this.#blocks[slot] ?? 0) + ROUNDING);
  }
}

function add(column: Float64Array, slot: OwnerSlot, amount: number): void {
  column[slot] = (column[slot] ?? 0) + amount;
}

function grown(column: Float64Array, length: number): Float64Array {
  const longer = new Float64Array(length);
  longer.set(column);
  return longer;
}
