// The conversations of a router that are known by their prompts: made when they are first asked for, as long as the configuration does.
import { randomUUID } from 'node:crypto';
import type { AgentSettings } from '../config/index.ts';
import { type KeylessLimits, KeylessSessions } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';

const LIMITS: KeylessLimits = { maxBytes: 32 * 2 ** 20, maxConversations: 16_384, ttlMs: 3_600_000 };

/** Answers null while `keyless_sessions` is off; then nothing is known any more. */
export function keylessSessions(
  settings: () => Pick<AgentSettings, 'keylessSessions'>,
  metrics: Metrics,
): () => KeylessSessions | null {
  let sessions: KeylessSessions | null = null;
  metrics.gauge('pointsman_keyless_conversations', () => sessions?.count ?? 0);
  metrics.gauge('pointsman_keyless_bytes', () => sessions?.bytes ?? 0);
  return () => {
    if (!settings().keylessSessions) sessions = null;
    // Bindings, engines and other routers may still know what was named before, or elsewhere.
    else sessions ??= new KeylessSessions(LIMITS, randomUUID());
    return sessions;
  };
}
