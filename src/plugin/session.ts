/** Who a request belongs to, read from its headers; frozen. Absent parts were not sent. */
export interface SessionContext {
  readonly sessionId: string;
  readonly parentSessionId?: string;
  /** True on the last request of the session. */
  readonly sessionFinal?: boolean;
  /** What caused this request, for example `user_message` or `tool_result`. */
  readonly inputTrigger?: string;
  /** Captured agent headers by lower-case name. */
  readonly agentHeaders: Readonly<Record<string, readonly string[]>>;
  readonly compaction?: boolean;
}
