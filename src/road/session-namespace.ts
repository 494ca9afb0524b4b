// Puts a session into the namespace of its request, so that policies can keep equal ids of two tenants apart.
import { type SessionOwner, sessionNamespace } from '../kv/index.ts';
import type { SessionContext } from '../plugin/index.ts';

/** The session as the owner's, frozen; the same one where nobody is named. */
export function sessionWithin(session: SessionContext, owner: SessionOwner): SessionContext {
  const namespace = sessionNamespace(owner);
  return Object.freeze(namespace === null ? session : { ...session, namespace });
}
