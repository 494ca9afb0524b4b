/**
 * Who a request belongs to, read from its headers; frozen. Absent parts were not sent. Without a usable `x-dynamo-session-id` there is
 * no session, whatever the other headers say. Nothing authenticates these headers.
 */
export interface SessionContext {
  /** Header `x-dynamo-session-id`: 1 to 256 printable ASCII characters without the blanks around them; anything else counts as not sent. */
  readonly sessionId: string;
  /** Header `x-dynamo-parent-session-id`, under the same rules; absent when it is the session's own id. */
  readonly parentSessionId?: string;
  /** Header `x-dynamo-session-final`, `true` or `1`, `false` or `0`: true on the last request of the session. */
  readonly sessionFinal?: boolean;
  /**
   * What caused a chat request, by the role of its last message: `user_message` (`user`), `tool_result` (`tool`, `function`) or `other`.
   * Absent for completions.
   */
  readonly inputTrigger?: string;
  /**
   * Headers that coding agents send about themselves, by lower-case name, each value as it was sent: `x-claude-code-*`, `x-codex-*`,
   * `thread-id`, `session-id` beside a `thread-id`, `x-session-id`, `x-parent-session-id`, `x-openai-subagent` and
   * `x-openai-memgen-request`. At most 64 values, 16 KiB each, 32 KiB with their names in all; what exceeds that is left out.
   */
  readonly agentHeaders: Readonly<Record<string, readonly string[]>>;
  /** Whether the agent compacts its conversation; the router does not set it in this version. */
  readonly compaction?: boolean;
}
