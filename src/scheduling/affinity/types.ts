// Which worker the requests of a session go to, in the words of the table and of those who ask it.
import type { WorkerId } from '../../plugin/index.ts';

/** `hard`: a bound session goes to its worker or fails. `soft`: its worker is preferred. */
export type AffinityMode = 'hard' | 'soft';

/** Where a session is bound. */
export interface AffinityTarget {
  readonly workerId: WorkerId;
  /** Null = any rank of the worker. */
  readonly rank: number | null;
}

/** A session's binding within its model, role and tenant, as `affinityKey` writes it. */
export type AffinityKey = string & { readonly affinityKey: unique symbol };

/** Bounds of the table, read at each use. */
export interface AffinityLimits {
  /** How long a binding lasts after the end of its last request, in ms. */
  readonly ttlMs: number;
  /** Most bindings, those included that are being made. */
  readonly maxSessions: number;
}

/**
 * What a dispatch made of a binding: `initialised` = it is new; `kept` = it stays where it is; `moved` = it goes to where the request ran;
 * `overtaken` = another request has changed it meanwhile, and that stays; `conflict` = the request ran elsewhere although it was bound
 * hard, and the binding is gone.
 */
export type CommitOutcome = 'initialised' | 'kept' | 'moved' | 'overtaken' | 'conflict';
