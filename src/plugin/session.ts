/**
 * Who a request belongs to, read from its headers; frozen. Absent parts were not sent. Without a usable session id there is no session,
 * whatever the other headers say. Nothing authenticates these headers.
 */
export interface SessionContext {
  /**
   * 1 to 256 printable ASCII characters without the blanks around them; anything else counts as not sent. The first of: header
   * `x-dynamo-session-id`; `x-claude-code-agent-id` or `x-claude-code-session-id`, where the latter was sent; `thread-id`;
   * `x-deepseek-harness-session-id`; `x-session-id`. Then, where configured, a member of the body, or `\u0001kl:` and a name for a
   * conversation that the router tells by its prompts.
   */
  readonly sessionId: string;
  /**
   * Under the same rules, from the header that goes with the id: `x-dynamo-parent-session-id`; for an agent of Claude Code
   * `x-claude-code-parent-agent-id`, else `x-claude-code-session-id`; `x-codex-parent-thread-id`;
   * `x-deepseek-harness-parent-session-id`; `x-parent-session-id`. Absent when it is the session's own id.
   */
  readonly parentSessionId?: string;
  /**
   * Whose ids these are: equal ids of different namespaces, models or routing groups are different sessions, so whoever keeps
   * something by session has to keep it by all of them. 32 hexadecimal digits that stand for the tenant of the request, else for its
   * cache salt, and are the same after a restart; absent when it has neither. A parent is always of the same namespace.
   */
  readonly namespace?: string;
  /** Header `x-dynamo-session-final`, `true` or `1`, `false` or `0`: true on the last request of the session. */
  readonly sessionFinal?: boolean;
  /**
   * What caused a chat request, by the role of its last message: `user_message` (`user`), `tool_result` (`tool`, `function`) or `other`.
   * Absent for completions.
   */
  readonly inputTrigger?: string;
  /**
   * Headers that coding agents send about themselves, by lower-case name, each value as it was sent: `x-claude-code-*`, `x-codex-*`,
   * `thread-id`, `session-id` beside a `thread-id`, `x-session-id`, `x-parent-session-id`, `x-openai-subagent`,
   * `x-openai-memgen-request` and `x-dynamo-retention-ttl-ms`. At most 64 values, 16 KiB each, 32 KiB with their names in all; what
   * exceeds that is left out.
   */
  readonly agentHeaders: Readonly<Record<string, readonly string[]>>;
  /**
   * True when the agent compacts its conversation by this request: `x-codex-turn-metadata` with `request_kind` `compaction`, or
   * `x-deepseek-harness-compact: 1`, beside the id that such an agent sends; else absent.
   */
  readonly compaction?: boolean;
}
