// Session identity from the canonical headers. Nothing authenticates them: they label a request and place nothing by themselves.
import type { IncomingHttpHeaders } from 'node:http';
import type { SessionContext } from '../plugin/index.ts';
import { agentHeadersOf, type DistinctHeaders } from '../road/index.ts';

const SESSION = 'x-dynamo-session-id';
const PARENT = 'x-dynamo-parent-session-id';
const FINAL = 'x-dynamo-session-final';

/** Longer ids count as absent. */
const MAX_ID_BYTES = 256;

/**
 * The session of a request, frozen; null without a usable session id.
 * @param lastRole role of the last message of a chat, from which the trigger follows; null for other requests.
 * @param distinct every value of every header by itself, from which those of agents are captured
 */
export function readSession(
  headers: IncomingHttpHeaders,
  lastRole: string | null,
  distinct: DistinctHeaders = {},
): SessionContext | null {
  const sessionId = readId(headers[SESSION]);
  if (sessionId === null) return null;
  const parent = readId(headers[PARENT]);
  const final = readBoolean(headers[FINAL]);
  return Object.freeze({
    sessionId,
    ...(parent === null || parent === sessionId ? {} : { parentSessionId: parent }),
    ...(final === null ? {} : { sessionFinal: final }),
    ...(lastRole === null ? {} : { inputTrigger: triggerOf(lastRole) }),
    agentHeaders: agentHeadersOf(distinct),
  });
}

/** Printable text without surrounding blanks; Node hands header bytes over as Latin-1. */
function readId(value: string | readonly string[] | undefined): string | null {
  if (typeof value !== 'string') return null;
  const id = value.trim();
  return id !== '' && id.length <= MAX_ID_BYTES && /^[\x20-\x7e]*$/.test(id) ? id : null;
}

function readBoolean(value: string | readonly string[] | undefined): boolean | null {
  switch (typeof value === 'string' ? value.trim().toLowerCase() : '') {
    case 'true':
    case '1':
      return true;
    case 'false':
    case '0':
      return false;
    default:
      return null;
  }
}

function triggerOf(role: string): string {
  if (role === 'user') return 'user_message';
  return role === 'tool' || role === 'function' ? 'tool_result' : 'other';
}
