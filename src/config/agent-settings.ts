// What agents may say of their requests, and how their sessions are told apart.
import { flag, list, or, word } from './values.ts';

/** Whose agent hints are honoured. */
export type AgentHintTrust = 'off' | 'trusted' | 'all';

/** Members of a body that may name a session. */
export const SESSION_BODY_FIELDS = ['session_id', 'prompt_cache_key', 'previous_response_id'] as const;

/** One of them. */
export type SessionBodyField = (typeof SESSION_BODY_FIELDS)[number];

/** The keys under `router` that are about agents. */
export interface AgentSettings {
  readonly hints: AgentHintTrust;
  /** Whether engines are told the priority of a request. */
  readonly forwardPriority: boolean;
  /** Body members that name a session where no header does, in this order. */
  readonly sessionBodyFields: readonly SessionBodyField[];
  /** Whether conversations without any id are told apart by their prompts. */
  readonly keylessSessions: boolean;
}

/** Keys of the file. */
export const agentKeys = () => ({
  agent_hints: or(word(['trusted', 'off', 'all']), 'trusted'),
  forward_priority: or(flag(), true),
  session_body_fields: list(word(SESSION_BODY_FIELDS), 'body fields'),
  keyless_sessions: or(flag(), false),
});

/** The settings of a file's `router` section. */
export function buildAgents(router: {
  readonly agent_hints: AgentHintTrust;
  readonly forward_priority: boolean;
  readonly session_body_fields: readonly SessionBodyField[];
  readonly keyless_sessions: boolean;
}): AgentSettings {
  return {
    hints: router.agent_hints,
    forwardPriority: router.forward_priority,
    sessionBodyFields: router.session_body_fields,
    keylessSessions: router.keyless_sessions,
  };
}
