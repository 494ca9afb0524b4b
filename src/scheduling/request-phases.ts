// What bookings are at, per slot: before or after their first token, with the work that prompts still ask for. Kept for bookings of
// roles that declare it alone. Sums are of whole numbers below 2^53, so a slot without bookings is exactly zero.
import { type PhaseTable, shareBehind } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { Partition } from '../plugin/index.ts';

/** What is known of a booking that is followed. */
export interface FollowedRequest {
  readonly partition: Partition;
  readonly promptTokens: number;
  /** What its tokens teach; `prefill`: its first one comes when its worker has computed its prompt. */
  readonly learns: { readonly outputLength: boolean; readonly timing: boolean; readonly prefill: boolean };
}

/** Where a booking is. */
export interface BookedPhase extends FollowedRequest {
  readonly slot: OwnerSlot;
  /** Prompt tokens to compute, and those cached before them; see {@link RequestPhases.copies}. */
  uncachedTokens: number;
  cachedTokens: number;
  /** Those cached when it was booked. */
  readonly bookedCachedTokens: number;
  readonly bookedAt: number;
  /** When its first token came; null = not yet. */
  firstTokenAt: number | null;
  /** Prompt tokens booked on its slot at that time. */
  neighbours: number;
  /** Whether its first token comes when its worker has computed its prompt, and waits for nothing else. */
  isComputedAlone: boolean;
}

/** Prompts that a slot computed without a pause, from the first that found nobody before it. */
export interface BusyPeriod {
  readonly ms: number;
  readonly prompts: number;
  /** Prompt tokens that were computed. */
  readonly tokens: number;
  /** Their attention. */
  readonly attention: number;
}

/** A slot that never pauses is looked at after so many prompts. */
const PERIOD_PROMPTS = 32;

/** The sums of all slots. */
export class RequestPhases {
  #prefillRequests: Float64Array = new Float64Array(16);
  #prefillTokens: Float64Array = new Float64Array(16);
  /** Twice the attention, which is a whole number. */
  #doubleAttention: Float64Array = new Float64Array(16);
  /** When the oldest booking without a first token came to the front. */
  #anchors: Float64Array = new Float64Array(16);
  /** The busy period under way: since when, and what has got its first token in it; no number = it cannot be told what took the time. */
  #periodStarts: Float64Array = new Float64Array(16);
  #periodPrompts: Float64Array = new Float64Array(16);
  #periodTokens: Float64Array = new Float64Array(16);
  #periodDoubleAttention: Float64Array = new Float64Array(16);
  /** Bookings without a first token that wait for more than computing. */
  #unclear: Float64Array = new Float64Array(16);
  #decodeRequests: Float64Array = new Float64Array(16);
  #promptTokens: Float64Array = new Float64Array(16);
  /** The most that a slot has ever had: never less than any has. */
  #mostPromptTokens = 0;

  /** Makes room for `slots` slots. */
  ensureCapacity(slots: number): void {
    if (slots <= this.#anchors.length) return;
    const length = Math.max(slots, 2 * this.#anchors.length);
    this.#prefillRequests = grown(this.#prefillRequests, length);
    this.#prefillTokens = grown(this.#prefillTokens, length);
    this.#doubleAttention = grown(this.#doubleAttention, length);
    this.#anchors = grown(this.#anchors, length);
    this.#periodStarts = grown(this.#periodStarts, length);
    this.#periodPrompts = grown(this.#periodPrompts, length);
    this.#periodTokens = grown(this.#periodTokens, length);
    this.#periodDoubleAttention = grown(this.#periodDoubleAttention, length);
    this.#unclear = grown(this.#unclear, length);
    this.#decodeRequests = grown(this.#decodeRequests, length);
    this.#promptTokens = grown(this.#promptTokens, length);
  }

  /**
   * A booking begins.
   * @param uncachedTokens prompt tokens to compute, 0 to all.
   * @param now ms of the clock.
   */
  begin(slot: OwnerSlot, request: FollowedRequest, uncachedTokens: number, now: number): BookedPhase {
    this.ensureCapacity(slot + 1);
    const { promptTokens } = request;
    const cachedTokens = promptTokens - uncachedTokens;
    if (this.#prefillRequests[slot] === 0) {
      this.#anchors[slot] = now;
      this.#beginPeriod(slot, now);
    }
    const phase: BookedPhase = {
      ...request,
      slot,
      uncachedTokens,
      cachedTokens,
      bookedCachedTokens: cachedTokens,
      bookedAt: now,
      firstTokenAt: null,
      neighbours: 0,
      isComputedAlone: true,
    };
    // Nobody knows what else its worker waits for.
    if (!request.learns.prefill) this.#blur(phase);
    this.#countPrefill(phase, 1);
    add(this.#promptTokens, slot, promptTokens);
    this.#mostPromptTokens = Math.max(this.#mostPromptTokens, this.#promptTokens[slot] ?? 0);
    return phase;
  }

  /**
   * Its worker copies leading blocks of its prompt from a peer, and will not compute them. Nobody learns from the busy period: what it
   * waited for was not computing alone.
   * @param cachedTokens prompt tokens that it then has; fewer than before change nothing.
   */
  copies(phase: BookedPhase, cachedTokens: number): void {
    const cached = Math.min(cachedTokens, phase.promptTokens);
    if (phase.firstTokenAt !== null || cached <= phase.cachedTokens) return;
    this.#recount(phase, cached);
    this.#blur(phase);
  }

  /** Nothing comes of what {@link copies} told: its worker computes what it was booked for. Repeating changes nothing. */
  copyFailed(phase: BookedPhase): void {
    if (phase.firstTokenAt === null) this.#recount(phase, phase.bookedCachedTokens);
  }

  /** Its first token is out; repeating changes nothing. @returns the busy period that it ends; null = it ends none. */
  firstToken(phase: BookedPhase, now: number): BusyPeriod | null {
    if (phase.firstTokenAt !== null) return null;
    const { slot, uncachedTokens, cachedTokens } = phase;
    this.#countPrefill(phase, -1);
    if (!phase.isComputedAlone) add(this.#unclear, slot, -1);
    add(this.#periodPrompts, slot, 1);
    add(this.#periodTokens, slot, uncachedTokens);
    add(this.#periodDoubleAttention, slot, uncachedTokens * (2 * cachedTokens + uncachedTokens));
    phase.firstTokenAt = now;
    add(this.#decodeRequests, slot, 1);
    this.#anchors[slot] = now;
    const isLong = (this.#periodPrompts[slot] ?? 0) >= PERIOD_PROMPTS;
    return isLong || this.#prefillRequests[slot] === 0 ? this.#endPeriod(slot, now) : null;
  }

  /** The booking is over; call once. */
  end(phase: BookedPhase): void {
    const { slot } = phase;
    if (phase.firstTokenAt === null) {
      this.#countPrefill(phase, -1);
      if (!phase.isComputedAlone) add(this.#unclear, slot, -1);
      this.#periodStarts[slot] = Number.NaN;
    } else add(this.#decodeRequests, slot, -1);
    add(this.#promptTokens, slot, -phase.promptTokens);
  }

  /** Prompt tokens of a slot's bookings. */
  promptTokensOn(slot: OwnerSlot): number {
    return this.#promptTokens[slot] ?? 0;
  }

  /** Writes the sums of `count` slots, which {@link ensureCapacity} was called for, to the rows of a table. */
  fill(table: PhaseTable, slots: Int32Array, count: number, now: number): void {
    const { prefillBehind, prefillRequests, prefillTokens, prefillAttention, prefillFrontMs } = table;
    const { decodeRequests, bookedPromptTokens } = table;
    const requestsOf = this.#prefillRequests;
    const tokensOf = this.#prefillTokens;
    const attentionOf = this.#doubleAttention;
    const anchorOf = this.#anchors;
    const decodeOf = this.#decodeRequests;
    const promptOf = this.#promptTokens;
    for (let row = 0; row < count; row += 1) {
      const slot = slots[row]!;
      const waiting = requestsOf[slot]!;
      prefillRequests[row] = waiting;
      prefillBehind[row] = shareBehind(waiting);
      prefillTokens[row] = tokensOf[slot]!;
      prefillAttention[row] = attentionOf[slot]! / 2;
      // A clock that was set back must not make the past negative.
      prefillFrontMs[row] = waiting > 0 && now > anchorOf[slot]! ? now - anchorOf[slot]! : 0;
      decodeRequests[row] = decodeOf[slot]!;
      bookedPromptTokens[row] = promptOf[slot]!;
    }
    table.mostBookedPromptTokens = this.#mostPromptTokens;
  }

  #recount(phase: BookedPhase, cachedTokens: number): void {
    this.#countPrefill(phase, -1);
    phase.cachedTokens = cachedTokens;
    phase.uncachedTokens = phase.promptTokens - cachedTokens;
    this.#countPrefill(phase, 1);
  }

  /** A booking without a first token turns out to wait for more than computing: nothing is learnt of a period in which it waits. */
  #blur(phase: BookedPhase): void {
    const { slot } = phase;
    if (phase.isComputedAlone) add(this.#unclear, slot, 1);
    phase.isComputedAlone = false;
    this.#periodStarts[slot] = Number.NaN;
  }

  #beginPeriod(slot: OwnerSlot, now: number): void {
    this.#periodStarts[slot] = (this.#unclear[slot] ?? 0) > 0 ? Number.NaN : now;
    this.#periodPrompts[slot] = 0;
    this.#periodTokens[slot] = 0;
    this.#periodDoubleAttention[slot] = 0;
  }

  #endPeriod(slot: OwnerSlot, now: number): BusyPeriod | null {
    const ms = now - (this.#periodStarts[slot] ?? Number.NaN);
    const prompts = this.#periodPrompts[slot] ?? 0;
    const tokens = this.#periodTokens[slot] ?? 0;
    const attention = (this.#periodDoubleAttention[slot] ?? 0) / 2;
    this.#beginPeriod(slot, now);
    return Number.isNaN(ms) ? null : { ms, prompts, tokens, attention };
  }

  #countPrefill({ slot, uncachedTokens, cachedTokens }: BookedPhase, sign: 1 | -1): void {
    add(this.#prefillRequests, slot, sign);
    add(this.#prefillTokens, slot, sign * uncachedTokens);
    add(this.#doubleAttention, slot, sign * uncachedTokens * (2 * cachedTokens + uncachedTokens));
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
