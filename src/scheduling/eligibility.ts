// Who may take a request at all: allow-list, pin, adapter, state, required taints. These are the host's rules; no policy can widen them.
import { holdsAdapter, type Worker } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import { EXCLUSION_REASONS, type ExclusionReason, type PlacementConstraints } from './types.ts';

/** Number of a reason in {@link EXCLUSION_REASONS}. */
const REASON = Object.fromEntries(EXCLUSION_REASONS.map((reason, number) => [reason, number])) as Readonly<
  Record<ExclusionReason, number>
>;

/** Number of the reason `busy`. It is the last that counts: whoever is busy may take the request in every other respect. */
export const BUSY = REASON.busy;

/** Number of the reason `not_pinned`. */
export const NOT_PINNED = REASON.not_pinned;

/** What is asked of candidates, prepared once per request. */
export interface EligibilityRules {
  /** Null = any. */
  readonly allowed: ReadonlySet<bigint> | null;
  readonly pinnedWorker: bigint | null;
  /** Null = any rank of the pinned worker. */
  readonly pinnedRank: number | null;
  /** Empty = none. */
  readonly excluded: readonly bigint[];
  /** LoRA adapter that the worker must hold; null = none. */
  readonly adapter: string | null;
  readonly requiredTaints: readonly string[];
}

/** Rules of a request that asks for nothing; `rulesOf` answers this very object then. */
export const NO_RULES: EligibilityRules = {
  allowed: null,
  pinnedWorker: null,
  pinnedRank: null,
  excluded: [],
  adapter: null,
  requiredTaints: [],
};

/** The rules that a request's constraints and its adapter make. */
export function rulesOf(constraints: PlacementConstraints, adapter: string | null): EligibilityRules {
  const { allowedWorkers, pinnedWorker, requiredTaints, excludedWorkers = [] } = constraints;
  const asksNothing = allowedWorkers === null && pinnedWorker === null && requiredTaints.length === 0;
  if (asksNothing && adapter === null && excludedWorkers.length === 0) return NO_RULES;
  return {
    allowed: allowedWorkers === null ? null : new Set<bigint>(allowedWorkers),
    pinnedWorker: pinnedWorker?.workerId ?? null,
    pinnedRank: pinnedWorker?.rank ?? null,
    excluded: excludedWorkers,
    adapter,
    requiredTaints,
  };
}

/**
 * Number of the first reason why a worker's rank may not take the request; -1 = it may. In this order: who is allowed, who is there,
 * who fits; a worker that is lost is never called unfit.
 */
export function exclusionOf(worker: Worker | null, rank: number, rules: EligibilityRules): number {
  if (worker === null) return REASON.gone;
  const { id } = worker.spec;
  if (rules.allowed !== null && !rules.allowed.has(id)) return REASON.not_allowed;
  if (rules.pinnedWorker !== null) {
    if (id !== rules.pinnedWorker) return REASON.not_pinned;
    if (rules.pinnedRank !== null && rank !== rules.pinnedRank) return REASON.not_pinned;
  }
  if (rules.excluded.includes(id)) return REASON.excluded;
  if (rules.adapter !== null && !holdsAdapter(worker, rules.adapter)) return REASON.missing_adapter;
  const { state, taints } = worker;
  if (state !== 'ready') return REASON[state];
  for (const taint of rules.requiredTaints) if (!taints.includes(taint)) return REASON.missing_taint;
  return -1;
}

/** Those that were turned away, with reasons; reused by every decision. */
export class ExcludedColumns {
  count = 0;
  slots = new Int32Array(16);
  reasons = new Uint8Array(16);

  /** Notes a slot with the number of its reason. */
  add(slot: OwnerSlot, reason: number): void {
    if (this.count === this.slots.length) this.#grow(this.count + 1);
    this.slots[this.count] = slot;
    this.reasons[this.count] = reason;
    this.count += 1;
  }

  /** Notes the slots at [from, to), all with the number of one reason. */
  addRange(slots: Int32Array, from: number, to: number, reason: number): void {
    const count = this.count + to - from;
    if (count > this.slots.length) this.#grow(count);
    this.slots.set(slots.subarray(from, to), this.count);
    this.reasons.fill(reason, this.count, count);
    this.count = count;
  }

  #grow(count: number): void {
    const capacity = Math.max(count, this.slots.length * 2);
    const slots = new Int32Array(capacity);
    const reasons = new Uint8Array(capacity);
    slots.set(this.slots);
    reasons.set(this.reasons);
    this.slots = slots;
    this.reasons = reasons;
  }

  /** How many there are for the reason of this number. */
  countOf(reason: number): number {
    let count = 0;
    for (let at = 0; at < this.count; at += 1) if (this.reasons[at] === reason) count += 1;
    return count;
  }

  /** How many there are per reason, in words: `2 draining, 1 suspect`; those that a pin leaves out are not worth a word. */
  summary(): string {
    const counts = EXCLUSION_REASONS.map((reason, number) => ({ reason, count: this.countOf(number) }));
    return counts
      .filter(({ reason, count }) => count > 0 && reason !== 'not_pinned')
      .map(({ reason, count }) => `${count} ${reason.replace('_', ' ')}`)
      .join(', ');
  }
}
