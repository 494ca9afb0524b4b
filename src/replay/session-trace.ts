// A trace of agent sessions in memory, as the lines of its file: one session each with the sub-agents it started, all over the ids
// of their line. Times are ms.

/** Where a session's prompt comes from, by the kinds of its new content; null = the trace does not say. */
export type TracedTrigger = 'user_message' | 'tool_result' | null;

/** One request of a session. */
export interface TracedTurn {
  readonly inputTokens: number;
  /** From 1: an answer has a token. */
  readonly outputTokens: number;
  /** Ids of the full blocks, renumbered from 0 within the line; what is left over has none. */
  readonly ids: Uint32Array;
  /** From the end of what it waits for until it is sent; of no meaning for the first turn of a session. */
  readonly thinkMs: number;
  /** How long the answer took when the trace was taken; 0 = not known. */
  readonly answerMs: number;
  /** Sessions of the line whose end it waits for, besides the answer to the turn before it. */
  readonly awaits: readonly number[];
  readonly trigger: TracedTrigger;
}

/** One conversation: that of the line, or of a sub-agent. */
export interface TracedSession {
  /** Unique in the trace. */
  readonly id: string;
  /** Index in its line of the session that started it; −1 = none, it is the line's own. */
  readonly parent: number;
  /** A sub-agent starts so long after the answer to this turn of its parent. */
  readonly startsAfter: number;
  readonly startDelayMs: number;
  readonly turns: readonly TracedTurn[];
}

/** A session and its sub-agents; the session itself comes first, every sub-agent behind its parent. */
export interface TracedLine {
  readonly sessions: readonly TracedSession[];
  /** Different ids of all its prompts. */
  readonly uniqueIds: number;
}

/** A trace of sessions. */
export interface SessionTrace {
  readonly kind: 'sessions';
  /** File name without folder. */
  readonly name: string;
  /** Tokens per id. */
  readonly blockSize: number;
  readonly lines: readonly TracedLine[];
}

/** Tokens of the largest prompt of a line. */
export function largestPrompt({ sessions }: TracedLine): number {
  let most = 0;
  for (const { turns } of sessions) for (const turn of turns) most = Math.max(most, turn.inputTokens);
  return most;
}
