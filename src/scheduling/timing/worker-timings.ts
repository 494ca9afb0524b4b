// How long each kind of worker takes to compute prompts and output tokens, learnt from when its tokens came. A kind is a model, a role, an
// engine dialect and what the worker says that it runs on.
import type { Fleet } from '../../fleet/index.ts';
import type { OwnerSlot } from '../../kv/index.ts';
import type { WorkerTiming } from '../../plugin/index.ts';
import type { BookedPhase } from '../request-phases.ts';
import { TimingKind } from './timing-kind.ts';

/** Kinds told apart; further ones share the last. */
const MAX_KINDS = 64;

/** A first token so soon after another of its worker, in ms or as a share of that one's time, came of the same pass. */
const SAME_PASS_MS = 1;
const SAME_PASS_SHARE = 0.02;

/** The kinds of one fleet. */
export class WorkerTimings {
  readonly #fleet: Fleet;
  readonly #kinds: TimingKind[] = [];
  readonly #indexOf = new Map<string, number>();
  /** Kind per slot plus one; 0 = not looked up. */
  #kindOfSlot = new Int32Array(16);
  /** Per slot, the prompts of the last pass that gave first tokens, until the next shows that it is complete; 0 ms = none. */
  #passMs = new Float64Array(16);
  #passTokens = new Float64Array(16);
  #passAttention = new Float64Array(16);
  readonly #timings: WorkerTiming[] = [];
  #shown: readonly WorkerTiming[] | null = null;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  /** The times of all kinds now; another array whenever one of them changed. */
  get timings(): readonly WorkerTiming[] {
    this.#shown ??= Object.freeze([...this.#timings]);
    return this.#shown;
  }

  /** The kinds, by their index. */
  get kinds(): readonly TimingKind[] {
    return this.#kinds;
  }

  /** Writes the kind of each of `count` slots. */
  fill(kindOfRow: Float64Array, slots: Int32Array, count: number): void {
    for (let row = 0; row < count; row += 1) kindOfRow[row] = this.#kindOf(slots[row] ?? 0);
  }

  /** A slot stands for another worker from now on. */
  forget(slot: OwnerSlot): void {
    if (slot >= this.#kindOfSlot.length) return;
    this.#kindOfSlot[slot] = 0;
    this.#passMs[slot] = 0;
  }

  /**
   * A booking's first token came.
   * @param sinceMs since the booking was at the front of its worker's prompts: what came before is not its own time.
   */
  firstToken({ slot, uncachedTokens, cachedTokens }: BookedPhase, sinceMs: number): void {
    this.#kindOf(slot);
    const tokens = Math.max(1, uncachedTokens);
    const attention = tokens * (cachedTokens + tokens / 2);
    const passMs = this.#passMs[slot] ?? 0;
    if (passMs > 0 && sinceMs >= 0 && sinceMs <= Math.max(SAME_PASS_MS, SAME_PASS_SHARE * passMs)) {
      this.#passMs[slot] = passMs + sinceMs;
      this.#passTokens[slot] = (this.#passTokens[slot] ?? 0) + tokens;
      this.#passAttention[slot] = (this.#passAttention[slot] ?? 0) + attention;
      return;
    }
    this.#passOver(slot);
    if (!(sinceMs > 0)) return;
    this.#passMs[slot] = sinceMs;
    this.#passTokens[slot] = tokens;
    this.#passAttention[slot] = attention;
  }

  /**
   * An answer of a slot is complete.
   * @param itlMs mean time between its tokens; null = it had too few.
   * @param promptTokens booked on the slot meanwhile.
   */
  answered(slot: OwnerSlot, itlMs: number | null, promptTokens: number): void {
    this.#passOver(slot);
    if (itlMs === null) return;
    const at = this.#kindOf(slot);
    if (this.#kinds[at]?.decoded(itlMs, promptTokens) === true) this.#changed(at);
  }

  #passOver(slot: OwnerSlot): void {
    const ms = this.#passMs[slot] ?? 0;
    if (ms === 0) return;
    this.#passMs[slot] = 0;
    const at = this.#kindOf(slot);
    const tokens = this.#passTokens[slot] ?? 0;
    if (this.#kinds[at]?.prefilled(tokens, this.#passAttention[slot] ?? 0, ms) === true) this.#changed(at);
  }

  #changed(at: number): void {
    const kind = this.#kinds[at];
    if (kind === undefined) return;
    this.#timings[at] = kind.timing();
    this.#shown = null;
  }

  #kindOf(slot: OwnerSlot): number {
    const known = this.#kindOfSlot[slot] ?? 0;
    if (known > 0) return known - 1;
    if (slot >= this.#kindOfSlot.length) this.#grow(slot + 1);
    const at = this.#lookUp(slot);
    this.#kindOfSlot[slot] = at + 1;
    return at;
  }

  #lookUp(slot: OwnerSlot): number {
    const spec = this.#fleet.workerOfSlot(slot)?.spec;
    const labels = {
      model: spec?.model ?? '',
      role: spec?.role ?? 'aggregated',
      engine: spec?.dialect ?? '',
      device: spec?.device ?? '',
    };
    const key = JSON.stringify(Object.values(labels));
    const known = this.#indexOf.get(key);
    if (known !== undefined) return known;
    const at = Math.min(this.#kinds.length, MAX_KINDS - 1);
    if (this.#kinds.length < MAX_KINDS) {
      this.#indexOf.set(key, at);
      this.#kinds.push(new TimingKind(labels));
      this.#changed(at);
    }
    return at;
  }

  #grow(slots: number): void {
    const length = Math.max(slots, 2 * this.#kindOfSlot.length);
    const kinds = new Int32Array(length);
    kinds.set(this.#kindOfSlot);
    this.#kindOfSlot = kinds;
    this.#passMs = grown(this.#passMs, length);
    this.#passTokens = grown(this.#passTokens, length);
    this.#passAttention = grown(this.#passAttention, length);
  }
}

function grown(column: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const longer = new Float64Array(length);
  longer.set(column);
  return longer;
}
