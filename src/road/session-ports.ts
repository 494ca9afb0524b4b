// What the road tells and asks of sessions: which blocks they have where is for others to keep.
import type { OwnerSlot, PrefixMatch, PromptHashes, SessionOwner } from '../kv/index.ts';
import type { BlockResidency, Partition, Role, SessionContext, SessionLineage } from '../plugin/index.ts';

/** What says whose sessions a request may ask about. */
export interface SessionScope extends SessionOwner {
  readonly partition: Partition;
  readonly role: Role;
}

/** A request of a session. */
export interface SessionRequest extends SessionScope {
  readonly session: SessionContext | null;
}

/** Sessions as the road needs them. */
export interface SessionPorts {
  /** What policies see of sessions; null = nothing is kept. @param slot the booked rank; null = none is yet. */
  lineageFor(scope: SessionScope, slot: OwnerSlot | null): SessionLineage | null;
  /** Which tier holds a block; null where nobody knows what the rank holds. */
  residencyFor(slot: OwnerSlot): BlockResidency | null;
  /** A request is booked on a rank; what that holds of its prompt counts as the session's, later. The hashes must not change afterwards. */
  booked(
    request: SessionRequest,
    slot: OwnerSlot,
    match: PrefixMatch | null,
    hashes: PromptHashes | null,
  ): void;
  /** A request is over, whatever became of it. */
  ended(request: SessionRequest): void;
}
