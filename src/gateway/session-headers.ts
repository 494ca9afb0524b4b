// Whose request it is, from the headers of the router and of the agents it knows. Nothing authenticates them: they label a request and
// place nothing by themselves.
import type { SessionBodyField } from '../config/index.ts';
import type { SessionContext } from '../plugin/index.ts';
import { agentHeadersOf, type DistinctHeaders } from '../road/index.ts';
import type { JsonObject } from './request-fields.ts';

const FINAL = 'x-dynamo-session-final';

/** Longer ids count as absent. */
const MAX_ID_BYTES = 256;

/** How an agent names its sessions. */
interface Identity {
  /** Without a usable value of this header the row does not count. */
  readonly key: string;
  /** Headers of the session's id, of which the first usable one counts. */
  readonly session: readonly string[];
  /** Likewise of the session it was started by. */
  readonly parent: readonly string[];
  /** Where only sessions with this header have a parent. */
  readonly child?: string;
  /** A header that says of a request that it compacts the conversation, and how. */
  readonly compaction?: { readonly header: string; readonly says: (value: string) => boolean };
}

const CANONICAL: Identity = {
  key: 'x-dynamo-session-id',
  session: ['x-dynamo-session-id'],
  parent: ['x-dynamo-parent-session-id'],
};

/** Agents by their own headers, in the order in which they are asked. The last one is also what other clients send. */
const AGENTS: readonly Identity[] = [
  {
    // Claude Code: an agent within a session is one of its own, and a child of another agent or of the session.
    key: 'x-claude-code-session-id',
    session: ['x-claude-code-agent-id', 'x-claude-code-session-id'],
    parent: ['x-claude-code-parent-agent-id', 'x-claude-code-session-id'],
    child: 'x-claude-code-agent-id',
  },
  {
    // Codex
    key: 'thread-id',
    session: ['thread-id'],
    parent: ['x-codex-parent-thread-id'],
    compaction: { header: 'x-codex-turn-metadata', says: isCompactionMetadata },
  },
  {
    // DeepSeek's harness
    key: 'x-deepseek-harness-session-id',
    session: ['x-deepseek-harness-session-id'],
    parent: ['x-deepseek-harness-parent-session-id'],
    compaction: { header: 'x-deepseek-harness-compact', says: (value) => value === '1' },
  },
  {
    // OpenCode, and clients of vLLM
    key: 'x-session-id',
    session: ['x-session-id'],
    parent: ['x-parent-session-id'],
  },
];

/**
 * The session of a request, frozen; null without a usable session id. The router's own headers go before an agent's.
 * @param headers every value of every header by itself; of one that was sent several times the first names a session.
 * @param lastRole role of the last message of a chat, from which the trigger follows; null for other requests.
 * @param bodyId id from a member of the body, for requests without a usable header; null = none.
 */
export function readSession(
  headers: DistinctHeaders,
  lastRole: string | null,
  bodyId: string | null = null,
): SessionContext | null {
  const agent = AGENTS.find(({ key }) => readId(headers, key) !== null) ?? null;
  const identity = readId(headers, CANONICAL.key) === null ? agent : CANONICAL;
  const sessionId = identity === null ? bodyId : firstId(headers, identity.session);
  if (sessionId === null) return null;
  const parent = identity === null ? null : parentId(headers, identity);
  const final = readBoolean(firstValue(headers, FINAL));
  return Object.freeze({
    sessionId,
    ...(parent === null || parent === sessionId ? {} : { parentSessionId: parent }),
    ...(final === null ? {} : { sessionFinal: final }),
    ...(lastRole === null ? {} : { inputTrigger: triggerOf(lastRole) }),
    agentHeaders: agentHeadersOf(headers),
    ...(agent !== null && isCompaction(headers, agent) ? { compaction: true } : {}),
  });
}

/** The id in the first of these members of a body that holds a usable one; null = none does. */
export function readBodySessionId(body: JsonObject, fields: readonly SessionBodyField[]): string | null {
  for (const field of fields) {
    const value = body[field];
    const id = typeof value === 'string' ? value.trim() : '';
    if (isId(id)) return id;
  }
  return null;
}

function parentId(headers: DistinctHeaders, { child, parent }: Identity): string | null {
  return child === undefined || readId(headers, child) !== null ? firstId(headers, parent) : null;
}

function firstId(headers: DistinctHeaders, names: readonly string[]): string | null {
  for (const name of names) {
    const id = readId(headers, name);
    if (id !== null) return id;
  }
  return null;
}

/** Printable text without surrounding blanks; Node hands header bytes over as Latin-1. */
function readId(headers: DistinctHeaders, name: string): string | null {
  const id = firstValue(headers, name);
  return isId(id) ? id : null;
}

function isId(id: string): boolean {
  return id !== '' && id.length <= MAX_ID_BYTES && /^[\x20-\x7e]*$/.test(id);
}

/** The first value of a header without the blanks around it; empty when it was not sent. */
function firstValue(headers: DistinctHeaders, name: string): string {
  return headers[name]?.[0]?.trim() ?? '';
}

function readBoolean(value: string): boolean | null {
  switch (value.toLowerCase()) {
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

/** What the last message of a chat says of why its turn was sent. */
export function triggerOf(role: string): string {
  if (role === 'user') return 'user_message';
  return role === 'tool' || role === 'function' ? 'tool_result' : 'other';
}

function isCompaction(headers: DistinctHeaders, { compaction }: Identity): boolean {
  return compaction?.says(firstValue(headers, compaction.header)) ?? false;
}

/** Whether what Codex says of a turn is JSON that calls it a compaction. */
function isCompactionMetadata(value: string): boolean {
  // Headers are bounded, and most are of other turns: only what can be one is parsed.
  if (!value.includes('"compaction"')) return false;
  try {
    const metadata: unknown = JSON.parse(value);
    if (typeof metadata !== 'object' || metadata === null) return false;
    return 'request_kind' in metadata && metadata.request_kind === 'compaction';
  } catch {
    return false;
  }
}
