// What each slot's KV pool is likely to be asked for again, the distinct prompt tokens that bookings used lately, each counting e^(−age / T),
// and the pressure that this puts on the pool. Kept for bookings of roles that declare it alone. Prompts are looked at once every 2,048
// tokens: a sequence hash stands for all before it. What was looked at is kept in two generations, of which the older goes as a whole:
// nothing is ever gone through.
import type { HashPairs, OwnerSlot } from '../kv/index.ts';

/** Ms in which what was used counts 1/e of what it did. */
export const WORKING_SET_MS = 300_000;
/** Prompt tokens that one look stands for, or a block where that is more. */
export const LOOK_TOKENS = 2_048;
/** Age of a generation at which it becomes the older one: what goes then has been unused for that long, and counts e⁻³ at most. */
const GENERATION_MS: number = 3 * WORKING_SET_MS;
/** Looks of a generation, of all slots; some 70 bytes each. With more of them it becomes the older one sooner, for every slot alike. */
const MOST_LOOKS = 2 ** 17;
/** Age up to which pressures stand as they were computed, unless their slot is used. */
const FRESH_MS = 1_000;
/** Sums grow with time until they are rebased. */
const REBASED_MS: number = 64 * WORKING_SET_MS;

/** When each look was last used, by 53 bits of its hash. */
type Looks = Map<number, number>;

interface WorkingSet {
  young: Looks;
  old: Looks;
  readonly blockSize: number;
}

/** The working sets of all slots. */
export class WorkingSets {
  readonly #poolTokens: (slot: OwnerSlot, blockSize: number) => number | null;
  readonly #mostLooks: number;
  readonly #sets: (WorkingSet | null)[] = [];
  /** Tokens × e^((used − epoch) / T) of the generations, summed, per slot: these change with what is used alone, not with time. */
  #young: Float64Array = new Float64Array(16);
  #old: Float64Array = new Float64Array(16);
  #pressures: Float64Array = new Float64Array(16);
  /** When each of them was computed. */
  #pressedAt: Float64Array = new Float64Array(16);
  /** Those computed before are too old. */
  #freshSince = 0;
  #epoch = 0;
  /** The latest time that was told: a clock that was set back stands still until it is there again. */
  #latest = 0;
  #youngSince = 0;
  #youngLooks = 0;

  /**
   * @param poolTokens tokens that the KV pool of a slot holds, in blocks of so many tokens; null = nobody says.
   * @param mostLooks looks of a generation, of all slots.
   */
  constructor(
    poolTokens: (slot: OwnerSlot, blockSize: number) => number | null,
    mostLooks: number = MOST_LOOKS,
  ) {
    this.#poolTokens = poolTokens;
    this.#mostLooks = mostLooks;
  }

  /** Looks kept, of all slots. */
  get looks(): number {
    let looks = 0;
    for (const set of this.#sets) looks += set == null ? 0 : set.young.size + set.old.size;
    return looks;
  }

  /**
   * A booking uses a prompt.
   * @param sequence sequence hashes of its full blocks.
   * @param blockSize tokens per block, ≥ 1.
   * @param now ms of the clock.
   */
  use(slot: OwnerSlot, sequence: HashPairs, blockSize: number, now: number): void {
    const at = this.#advance(now);
    const { old, young } = this.#setOf(slot, blockSize);
    const step = Math.max(1, Math.round(LOOK_TOKENS / blockSize));
    const tokens = step * blockSize;
    const blocks = sequence.length >>> 1;
    const weight = tokens * this.#weight(at);
    let youngSum = this.#young[slot]!;
    let oldSum = this.#old[slot]!;
    for (let block = step - 1; block < blocks; block += step) {
      // What fits into a number: 32 bits of the high word and 21 of the low.
      const key = sequence[2 * block + 1]! * 2 ** 21 + (sequence[2 * block]! >>> 11);
      const used = young.get(key);
      if (used !== undefined) youngSum -= tokens * this.#weight(used);
      else {
        this.#youngLooks += 1;
        const before = old.get(key);
        if (before !== undefined) {
          oldSum -= tokens * this.#weight(before);
          old.delete(key);
        }
      }
      young.set(key, at);
      youngSum += weight;
    }
    // What rounding left must not stay.
    this.#young[slot] = Math.max(0, youngSum);
    this.#old[slot] = old.size === 0 ? 0 : Math.max(0, oldSum);
    this.#press(slot, at);
  }

  /** The slot is somebody else's, its worker gone, or its engine another one. */
  forget(slot: OwnerSlot): void {
    if (slot < this.#pressures.length) this.#pressures[slot] = 0;
    const set = this.#sets[slot] ?? null;
    if (set === null) return;
    this.#youngLooks -= set.young.size;
    this.#sets[slot] = null;
    this.#young[slot] = 0;
    this.#old[slot] = 0;
  }

  /** Tokens of the working set of a slot. */
  tokens(slot: OwnerSlot, now: number): number {
    if (slot >= this.#young.length) return 0;
    return (this.#young[slot]! + this.#old[slot]!) / this.#weight(Math.max(now, this.#latest));
  }

  /**
   * Writes the pressures on the pools of `count` slots to the rows of a column: e^(−pool / working set), from 0 to 1. Were what is used new
   * at a steady rate, the pool would forget what was unused for T × pool / working set, which then still counts that much. 0 where nobody says
   * how large the pool is.
   */
  fill(column: Float64Array, slots: Int32Array, count: number, now: number): void {
    // Also where the clock was set back.
    if (now < this.#freshSince || now - this.#freshSince >= FRESH_MS) this.#freshSince = now;
    const since = this.#freshSince;
    const pressures = this.#pressures;
    const pressedAt = this.#pressedAt;
    const length = pressures.length;
    for (let row = 0; row < count; row += 1) {
      const slot = slots[row]!;
      if (slot >= length) {
        column[row] = 0;
        continue;
      }
      if (pressedAt[slot]! < since || pressedAt[slot]! > now) this.#press(slot, since);
      column[row] = pressures[slot]!;
    }
  }

  #press(slot: OwnerSlot, at: number): void {
    const set = this.#sets[slot] ?? null;
    const tokens = set === null ? 0 : this.tokens(slot, at);
    const pool = set === null || tokens === 0 ? null : this.#poolTokens(slot, set.blockSize);
    this.#pressures[slot] = pool === null ? 0 : Math.exp(-pool / tokens);
    this.#pressedAt[slot] = at;
  }

  #weight(used: number): number {
    return Math.exp((used - this.#epoch) / WORKING_SET_MS);
  }

  #setOf(slot: OwnerSlot, blockSize: number): WorkingSet {
    if (slot >= this.#young.length) {
      this.#young = grown(this.#young, slot + 1);
      this.#old = grown(this.#old, slot + 1);
      this.#pressures = grown(this.#pressures, slot + 1);
      this.#pressedAt = grown(this.#pressedAt, slot + 1);
    }
    let set = this.#sets[slot] ?? null;
    // Another block size: other blocks, none of which its engine has yet.
    if (set !== null && set.blockSize !== blockSize) {
      this.forget(slot);
      set = null;
    }
    if (set === null) {
      set = { young: new Map(), old: new Map(), blockSize };
      this.#sets[slot] = set;
    }
    return set;
  }

  /** The time that counts as now. Lets go of what is too old, and keeps sums far from the largest numbers. */
  #advance(now: number): number {
    const at = Math.max(now, this.#latest);
    this.#latest = at;
    if (at - this.#youngSince >= GENERATION_MS || this.#youngLooks >= this.#mostLooks) this.#age(at);
    if (at - this.#epoch >= REBASED_MS) {
      const share = 1 / this.#weight(at);
      for (let slot = 0; slot < this.#young.length; slot += 1) {
        this.#young[slot]! *= share;
        this.#old[slot]! *= share;
      }
      this.#epoch = at;
    }
    return at;
  }

  /** The young generation becomes the old one, and that is forgotten. */
  #age(at: number): void {
    for (let slot = 0; slot < this.#sets.length; slot += 1) {
      const set = this.#sets[slot] ?? null;
      if (set === null) continue;
      if (set.young.size === 0) this.#sets[slot] = null;
      else {
        set.old = set.young;
        set.young = new Map();
      }
    }
    const sums = this.#old.fill(0);
    this.#old = this.#young;
    this.#young = sums;
    this.#youngSince = at;
    this.#youngLooks = 0;
  }
}

function grown(sums: Float64Array, least: number): Float64Array {
  const longer = new Float64Array(Math.max(least, 2 * sums.length));
  longer.set(sums);
  return longer;
}
