// What a binding becomes by what another router says of it. Advice alone: an update that is lost or comes late costs affinity, never a
// request. The latest version wins, so routers that have heard the same updates, in whatever order, agree.
import { MAX_SESSION_BYTES } from './affinity-errors.ts';
import type { AffinityTarget } from './types.ts';

/** Versions are ordered by sequence, then by writer; no two writers have the same name. */
export interface BindingVersion {
  readonly sequence: number;
  readonly writer: bigint;
}

/** A binding as one router has it, or hears of it. */
export interface ReplicatedBinding {
  readonly target: AffinityTarget;
  readonly version: BindingVersion;
  /** When it expires, on the clock of the one that has it, in ms. */
  readonly deadline: number;
}

/** What a router knows of the session that an update is about. */
export type ReplicaState =
  /** `full` = there is no room for another binding. */
  | { readonly kind: 'unbound'; readonly full: boolean }
  | { readonly kind: 'initializing' }
  | { readonly kind: 'bound'; readonly binding: ReplicatedBinding; readonly leases: number };

/** What becomes of an update. */
export type ReplicaOutcome =
  | 'inserted'
  | 'refreshed'
  | 'replaced_expired'
  | 'replaced_newer'
  | 'ignored_initializing'
  | 'ignored_conflict'
  | 'rejected_session_id'
  | 'rejected_capacity';

/**
 * Merges an update.
 * @param now ms of the clock.
 * @returns what became of it, and the binding from now on; null = there is none that this router has made or taken over.
 */
export function mergeReplica(
  sessionId: string,
  state: ReplicaState,
  update: ReplicatedBinding,
  now: number,
): { readonly outcome: ReplicaOutcome; readonly binding: ReplicatedBinding | null } {
  const own = state.kind === 'bound' ? state.binding : null;
  if (Buffer.byteLength(sessionId) > MAX_SESSION_BYTES)
    return { outcome: 'rejected_session_id', binding: own };
  if (state.kind === 'initializing') return { outcome: 'ignored_initializing', binding: null };
  if (state.kind === 'unbound') {
    return state.full
      ? { outcome: 'rejected_capacity', binding: null }
      : { outcome: 'inserted', binding: update };
  }
  const { binding, leases } = state;
  if (leases === 0 && binding.deadline <= now) return { outcome: 'replaced_expired', binding: update };
  const order = compareVersions(update.version, binding.version);
  if (isSame(binding.target, update.target)) {
    if (order < 0) return { outcome: 'ignored_conflict', binding };
    const deadline = Math.max(binding.deadline, update.deadline);
    return { outcome: 'refreshed', binding: { ...update, deadline } };
  }
  return order > 0
    ? { outcome: 'replaced_newer', binding: update }
    : { outcome: 'ignored_conflict', binding };
}

/** Below 0 = `a` is the earlier one. */
export function compareVersions(a: BindingVersion, b: BindingVersion): number {
  if (a.sequence !== b.sequence) return a.sequence - b.sequence;
  return a.writer < b.writer ? -1 : a.writer > b.writer ? 1 : 0;
}

function isSame(a: AffinityTarget, b: AffinityTarget): boolean {
  return a.workerId === b.workerId && a.rank === b.rank;
}
