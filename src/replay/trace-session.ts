// The session of a trace line: `session_id` as Mooncake traces have it, or `session_context` with everything a request's headers
// could say.
import type { SessionContext } from '../plugin/index.ts';

/** What is wrong with a field, for the trace's own error. */
export type SessionFault = (text: string) => Error;

const MAX_ID = 256;

/** What `session_context` may hold. */
export const SESSION_FIELDS: readonly string[] = [
  'session_id',
  'parent_session_id',
  'session_final',
  'input_trigger',
  'agent_headers',
];

/**
 * The session a line names, frozen; null when it names none. `session_context` goes before `session_id`.
 * @throws what `fault` makes of a field that is not of its kind.
 */
export function sessionOfLine(
  row: Readonly<Record<string, unknown>>,
  fault: SessionFault,
): SessionContext | null {
  const context = row.session_context ?? null;
  if (context === null) {
    const sessionId = row.session_id ?? null;
    return sessionId === null ? null : frozen({ sessionId: idOf(sessionId, 'session_id', fault) });
  }
  if (!isRecord(context)) throw fault('session_context must be an object with a session_id');
  const at = (name: string): unknown => context[name] ?? null;
  const parent = at('parent_session_id');
  const final = at('session_final');
  const trigger = at('input_trigger');
  if (final !== null && typeof final !== 'boolean') {
    throw fault('session_context.session_final must be true or false');
  }
  if (trigger !== null && typeof trigger !== 'string') {
    throw fault('session_context.input_trigger must be a text');
  }
  return frozen({
    sessionId: idOf(at('session_id'), 'session_context.session_id', fault),
    ...(parent === null ? {} : { parentSessionId: idOf(parent, 'session_context.parent_session_id', fault) }),
    ...(final === null ? {} : { sessionFinal: final }),
    ...(trigger === null ? {} : { inputTrigger: trigger }),
    agentHeaders: headersOf(at('agent_headers') ?? {}, fault),
  });
}

function idOf(value: unknown, field: string, fault: SessionFault): string {
  if (typeof value === 'string' && value !== '' && value.length <= MAX_ID) return value;
  throw fault(`${field} must be a text of 1 to ${MAX_ID} characters`);
}

function headersOf(value: unknown, fault: SessionFault): SessionContext['agentHeaders'] {
  const isList = (one: unknown): one is readonly string[] =>
    Array.isArray(one) && one.every((text) => typeof text === 'string');
  if (!isRecord(value)) throw fault('session_context.agent_headers must be an object of lists of texts');
  const entries = Object.entries(value).map(([name, values]) => {
    if (!isList(values)) throw fault(`session_context.agent_headers.${name} must be a list of texts`);
    return [name.toLowerCase(), Object.freeze([...values])] as const;
  });
  return Object.freeze(Object.fromEntries(entries));
}

function frozen(session: Omit<SessionContext, 'agentHeaders'> & Partial<SessionContext>): SessionContext {
  return Object.freeze({ ...session, agentHeaders: session.agentHeaders ?? Object.freeze({}) });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
