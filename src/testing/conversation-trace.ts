// Traffic for trials: conversations that take turns, share a system prompt and grow.
import { seededRng } from '../plugin/index.ts';

/** Whose request it is, with all that the headers of a request can say; what is left out or null was not sent. */
export interface TraceSession {
  /** 1 to 256 characters. */
  readonly session_id: string;
  /** 1 to 256 characters. */
  readonly parent_session_id?: string | null;
  /** True on the last request of the session. */
  readonly session_final?: boolean | null;
  /** `user_message`, `tool_result` or `other`. */
  readonly input_trigger?: string | null;
  /** Values by name. */
  readonly agent_headers?: Readonly<Record<string, readonly string[]>> | null;
}

/** One request of a trace, with the fields of a line of a Mooncake trace. */
export interface TraceRequest {
  /** Arrival, ms; not before that of the request above. */
  readonly timestamp: number;
  /** Tokens of the prompt, from 1. */
  readonly input_length: number;
  /** Tokens to generate, from 1. */
  readonly output_length: number;
  /** One id per 512 tokens of the prompt, from 0; an id stands for its block and everything before it. */
  readonly hash_ids: readonly number[];
  /** The session, 1 to 256 characters; policies see it as `session.sessionId`. */
  readonly session_id?: string | null;
  /** The session with its parent, its end, its trigger and agent headers; goes before `session_id`. */
  readonly session_context?: TraceSession | null;
}

/** What conversations are like; all numbers whole and from 1. */
export interface ConversationTraceOptions {
  /** Default 16. */
  readonly conversations?: number;
  /** Requests of each; default 5. */
  readonly turns?: number;
  /** Blocks of 512 tokens that all begin with; default 2. */
  readonly systemBlocks?: number;
  /** Blocks of 512 tokens that each turn adds; default 2. */
  readonly turnBlocks?: number;
  /** Tokens generated per turn; default 64. */
  readonly outputTokens?: number;
  /** Mean time between two turns of a conversation, ms; default 4,000. */
  readonly gapMs?: number;
  /** Default 1. */
  readonly seed?: number;
}

/** Makes a trace; equal options make equal traces. Each conversation is a session: `conversation-1`, `conversation-2`, …. */
export function conversationTrace(options: ConversationTraceOptions = {}): readonly TraceRequest[] {
  const { conversations = 16, turns = 5, systemBlocks = 2, turnBlocks = 2, outputTokens = 64 } = options;
  const { gapMs = 4_000, seed = 1 } = options;
  const rng = seededRng(seed);
  const requests: TraceRequest[] = [];
  let nextId = systemBlocks;
  for (let conversation = 0; conversation < conversations; conversation += 1) {
    const ids = Array.from({ length: systemBlocks }, (_, id) => id);
    let timestamp = rng.integer(gapMs);
    for (let turn = 0; turn < turns; turn += 1) {
      for (let block = 0; block < turnBlocks; block += 1) ids.push(nextId++);
      requests.push({
        timestamp,
        input_length: ids.length * 512,
        output_length: outputTokens,
        hash_ids: [...ids],
        session_id: `conversation-${conversation + 1}`,
      });
      timestamp += Math.round(gapMs * (0.5 + rng.next()));
    }
  }
  return requests.sort((a, b) => a.timestamp - b.timestamp);
}
