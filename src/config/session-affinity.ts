// `router.session_affinity`: whether the requests of a session stay on one worker.
import type { FileValue } from './schema.ts';
import { duration, or, section, whole, word } from './values.ts';

const YEAR = 31_536_000_000;

/** How sessions are bound to workers. */
export interface SessionAffinitySettings {
  /** `hard`: a session goes to its worker or fails; `soft`: its worker is preferred. */
  readonly mode: 'off' | 'hard' | 'soft';
  /** How long a binding lasts after the end of its last request, 1 s to 365 days. */
  readonly ttlMs: number;
  /** Whether the children of one parent are bound together. */
  readonly groupsSubagents: boolean;
  /** Most bindings. */
  readonly maxSessions: number;
}

/** The keys. */
export const sessionAffinityKeys = () =>
  section({
    mode: or(word(['off', 'hard', 'soft']), 'off'),
    ttl: or(duration(1000, YEAR), 300_000),
    subagents: or(word(['grouped', 'own']), 'grouped'),
    max_sessions: or(whole(1, 1_000_000), 65_536),
  });

/** The settings in a checked file. */
export function buildSessionAffinity(keys: FileValue['router']['session_affinity']): SessionAffinitySettings {
  const { max_sessions: maxSessions, mode, subagents, ttl: ttlMs } = keys;
  return { mode, ttlMs, groupsSubagents: subagents === 'grouped', maxSessions };
}
