// Headers that coding agents send about themselves, captured for plugins with the session they belong to. An allow-list: nothing
// that could hold a credential is on it.
import type { SessionContext } from '../plugin/index.ts';

const PREFIXES = ['x-claude-code-', 'x-codex-'];
const NAMES: ReadonlySet<string> = new Set([
  'session-id',
  'thread-id',
  'x-openai-subagent',
  'x-openai-memgen-request',
  'x-session-id',
  'x-parent-session-id',
  // How long the blocks of the session are to be kept (`kv_retain_session`).
  'x-dynamo-retention-ttl-ms',
]);

/** Values beyond these are left out one by one; smaller ones behind them may still fit. */
const MAX_VALUES = 64;
const MAX_VALUE_BYTES = 16_384;
/** Of names and values together, a name counted with each of its values. */
const MAX_BYTES = 32_768;

const NONE: SessionContext['agentHeaders'] = Object.freeze({});

/** Header values by lower-case name, each as it was sent, in order. */
export type DistinctHeaders = Readonly<Record<string, readonly string[] | undefined>>;

/** The captured headers, frozen. `session-id` counts only beside a `thread-id`, which says that it is an agent's. */
export function agentHeadersOf(headers: DistinctHeaders): SessionContext['agentHeaders'] {
  const hasThread = (headers['thread-id'] ?? []).some((value) => value.trim() !== '' && isText(value));
  const captured: Record<string, readonly string[]> = Object.create(null);
  let values = 0;
  let bytes = 0;
  for (const [name, sent = []] of Object.entries(headers)) {
    if (!NAMES.has(name) && !PREFIXES.some((prefix) => name.startsWith(prefix))) continue;
    if (name === 'session-id' && !hasThread) continue;
    const kept = sent.filter((value) => {
      const size = name.length + value.length;
      if (!isText(value) || value.length > MAX_VALUE_BYTES) return false;
      if (values === MAX_VALUES || bytes + size > MAX_BYTES) return false;
      values += 1;
      bytes += size;
      return true;
    });
    if (kept.length > 0) captured[name] = Object.freeze(kept);
  }
  return values === 0 ? NONE : Object.freeze(captured);
}

/** Bytes of a session's texts, its headers with their names; every character of them is one. */
export function sessionBytes(session: SessionContext | null): number {
  if (session === null) return 0;
  const { agentHeaders, inputTrigger = '', namespace = '', parentSessionId = '', sessionId } = session;
  let bytes = sessionId.length + parentSessionId.length + namespace.length + inputTrigger.length;
  for (const [name, values] of Object.entries(agentHeaders))
    for (const value of values) bytes += name.length + value.length;
  return bytes;
}

/** Node hands header bytes over as Latin-1; text is what every reader agrees on. */
function isText(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}
