// A session goes through every policy of a request and into its record: none of them may write to it.
import type { SessionContext } from '../plugin/index.ts';

/** The session itself, frozen with its headers. */
export function frozenSession(session: SessionContext | null): SessionContext | null {
  if (session === null || Object.isFrozen(session)) return session;
  for (const values of Object.values(session.agentHeaders)) Object.freeze(values);
  Object.freeze(session.agentHeaders);
  return Object.freeze(session);
}
