// Under which key a request finds its session's binding. Roles are bound apart, as prefill and decode of a divided model are served by
// different workers; models, routing groups and tenants never meet.
import { createHash } from 'node:crypto';
import { type SessionOwner, sessionKey, sessionTenant } from '../../kv/index.ts';
import type { Partition, Role, SessionContext } from '../../plugin/index.ts';
import type { PlacementConstraints } from '../types.ts';
import { idTooLong, MAX_SESSION_BYTES } from './affinity-errors.ts';
import type { AffinityKey } from './types.ts';

/** What names a request's binding. */
export interface AffinityScope extends SessionOwner {
  readonly partition: Partition;
  readonly role: Role;
}

/** A request as far as its session's binding goes. */
export interface AffinityRequest extends AffinityScope {
  readonly session: Pick<SessionContext, 'sessionId' | 'parentSessionId'> | null;
  readonly constraints: Pick<PlacementConstraints, 'pinnedWorker' | 'excludedWorkers'>;
}

/**
 * The key of a session's binding.
 * @param grouped whether the children of one parent share a binding; the parent has its own.
 * @throws PM_AFFINITY_ID when the id, or the parent's, has more than 256 bytes.
 */
export function affinityKey(
  scope: AffinityScope,
  { parentSessionId, sessionId }: Pick<SessionContext, 'sessionId' | 'parentSessionId'>,
  grouped: boolean,
): AffinityKey {
  const id =
    grouped && parentSessionId !== undefined ? groupIdOf(checked(parentSessionId)) : checked(sessionId);
  return `${scope.role}|${sessionKey(scope.partition, sessionTenant(scope), id)}` as AffinityKey;
}

/**
 * The id that the children of a session share. It begins with a control character, which no id of a client can contain, and its length
 * is the same whatever the parent is called.
 */
export function groupIdOf(parentSessionId: string): string {
  return `\u0001sg:${digest(parentSessionId)}`;
}

/** Whether the ids of a session are short enough. */
export function canBeKey({
  parentSessionId = '',
  sessionId,
}: Pick<SessionContext, 'sessionId' | 'parentSessionId'>): boolean {
  return Math.max(Buffer.byteLength(sessionId), Buffer.byteLength(parentSessionId)) <= MAX_SESSION_BYTES;
}

function checked(id: string): string {
  const bytes = Buffer.byteLength(id);
  if (bytes > MAX_SESSION_BYTES) throw idTooLong(bytes);
  return id;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
