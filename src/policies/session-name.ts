// Under which name a policy keeps what it knows of a session: equal ids of two tenants are two sessions. An instance is of one partition.
import type { SessionContext } from '../plugin/index.ts';

/** The name of a session. */
export function sessionName({ namespace, sessionId }: SessionContext): string {
  return within(namespace, sessionId);
}

/** The name of its parent; null = it has none. */
export function parentName({ namespace, parentSessionId }: SessionContext): string | null {
  return parentSessionId === undefined ? null : within(namespace, parentSessionId);
}

/** A namespace holds no blank, so the first one ends it. */
function within(namespace = '', sessionId: string): string {
  return `${namespace} ${sessionId}`;
}
