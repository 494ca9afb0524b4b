// Which sessions of a trace a replay runs and when they start: copies with tokens of their own, drawn starts, the long ones left out.
import { PointsmanError } from '../plugin/index.ts';
import {
  largestPrompt,
  type SessionTrace,
  type TracedLine,
  type TracedSession,
  type TracedTurn,
} from './session-trace.ts';
import { promptMemory } from './trace.ts';

/** Engines write answers of tokens below this; prompts are made of those from here on, so that neither is taken for the other. */
export const FIRST_PROMPT_TOKEN = 32_768;
/** Token numbers fit a map of signed 32-bit values. */
const MAX_TOKEN = 2 ** 31 - 1;
/** Requests of a replay. */
const MAX_TURNS = 5_000_000;

/** How a session trace is replayed. */
export interface SessionSettings {
  /** Copies of every line, each with blocks of its own. */
  readonly copies: number;
  /** Sessions start at random within so long, ms. */
  readonly window_ms: number;
  /** No think time is longer, ms. */
  readonly think_cap_ms: number;
  /** Lines with a longer prompt are left out; null = none is. */
  readonly max_context: number | null;
}

/** A session that is replayed. */
export interface PlannedSession {
  readonly turns: readonly TracedTurn[];
  readonly sessionId: string;
  /** Index of the session that starts it; −1 = it starts at `startAt`. */
  readonly parent: number;
  readonly startsAfter: number;
  readonly startDelayMs: number;
  /** ms; 0 for one with a parent. */
  readonly startAt: number;
  /** Index of the first session of its line and copy: `awaits` of its turns count from there. */
  readonly family: number;
  /** Token of id 0 of its line and copy. */
  readonly firstToken: number;
  /** Token of what is left over behind the blocks of its first turn; those of the next ones follow. */
  readonly firstTail: number;
  /** Different ids of its line. */
  readonly uniqueIds: number;
}

/** The sessions of a replay; parents stand before their sub-agents. */
export interface SessionPlan {
  readonly kind: 'sessions';
  readonly name: string;
  readonly blockSize: number;
  readonly sessions: readonly PlannedSession[];
  /** Turns of all sessions. */
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Lines that were left out for their longest prompt. */
  readonly dropped: number;
  /** Lines that are replayed, each in so many copies. */
  readonly kept: number;
  /** Tokens that stand for blocks with an id lie in [`FIRST_PROMPT_TOKEN`, here). */
  readonly endOfIds: number;
  /** Tokens of the longest prompt and its answer. */
  readonly largest: number;
  readonly settings: SessionSettings;
}

/**
 * Draws the sessions of a replay; the same for the same trace, settings and seed. A session's start does not depend on which others
 * are left out.
 * @throws PM_REPLAY_SETTINGS when no line is short enough, or when there are more tokens or requests than can be told apart.
 */
export function planSessions(trace: SessionTrace, settings: SessionSettings, seed: number): SessionPlan {
  const { copies, max_context: maxContext, window_ms: windowMs } = settings;
  const kept = trace.lines.flatMap((line, index) =>
    maxContext === null || largestPrompt(line) <= maxContext ? [{ line, index }] : [],
  );
  if (kept.length === 0) {
    throw refused(
      `every session of ${trace.name} has a prompt of more than ${maxContext} tokens; raise --max-context`,
    );
  }
  const requests = copies * kept.reduce((sum, { line }) => sum + turnsOf(line), 0);
  // Before anything is made of them.
  if (requests > MAX_TURNS) {
    throw refused(
      `${copies} copies of ${trace.name} make ${requests} requests; at most ${MAX_TURNS} are replayed`,
    );
  }
  const sessions: PlannedSession[] = [];
  const tokens = new TokenRange(kept.reduce((sum, { line }) => sum + line.uniqueIds, 0) * copies);
  for (const { index, line } of kept) {
    for (let copy = 1; copy <= copies; copy += 1) {
      const family = sessions.length;
      const firstToken = tokens.ids(line.uniqueIds);
      for (const session of line.sessions) {
        sessions.push({
          ...placed(session, family, copy),
          startAt: session.parent < 0 ? windowMs * drawn(seed, index, copy) : 0,
          firstToken,
          firstTail: tokens.tails(session.turns.length),
          uniqueIds: line.uniqueIds,
        });
      }
    }
  }
  const turns = sessions.flatMap((session) => session.turns);
  return {
    kind: 'sessions',
    name: trace.name,
    blockSize: trace.blockSize,
    sessions,
    requests,
    inputTokens: turns.reduce((sum, turn) => sum + turn.inputTokens, 0),
    outputTokens: turns.reduce((sum, turn) => sum + turn.outputTokens, 0),
    dropped: trace.lines.length - kept.length,
    kept: kept.length,
    endOfIds: tokens.endOfIds,
    largest: turns.reduce((most, turn) => Math.max(most, turn.inputTokens + turn.outputTokens), 0),
    settings,
  };
}

/** Tokens of a turn's prompt: each id for its whole block, then one of its own for what is left over. */
export function turnTokens(plan: SessionPlan, session: PlannedSession, turn: number): Uint32Array {
  const { ids, inputTokens } = session.turns[turn]!;
  const { blockSize } = plan;
  const tokens = promptMemory(inputTokens);
  let at = 0;
  for (const id of ids) {
    const token = session.firstToken + id;
    // Blocks are small: a call of `fill` for each costs more than these words.
    for (const end = at + blockSize; at < end; at += 1) tokens[at] = token;
  }
  return tokens.fill(session.firstTail + turn, at);
}

function turnsOf({ sessions }: TracedLine): number {
  return sessions.reduce((sum, { turns }) => sum + turns.length, 0);
}

function placed(session: TracedSession, family: number, copy: number) {
  return {
    turns: session.turns,
    // The line's id comes first in that of a sub-agent, so that a copy is one tree of ids.
    sessionId: `${copy}/${session.id}`,
    parent: session.parent < 0 ? -1 : family + session.parent,
    startsAfter: session.startsAfter,
    startDelayMs: session.startDelayMs,
    family,
  };
}

/** Numbers tokens: those of ids first, then those of what is left over. */
class TokenRange {
  readonly endOfIds: number;
  #nextId = FIRST_PROMPT_TOKEN;
  #nextTail: number;

  constructor(ids: number) {
    this.endOfIds = FIRST_PROMPT_TOKEN + ids;
    this.#nextTail = this.endOfIds;
  }

  ids(count: number): number {
    this.#nextId += count;
    return this.#nextId - count;
  }

  tails(count: number): number {
    this.#nextTail += count;
    if (this.#nextTail > MAX_TOKEN) {
      throw refused(`the blocks of all copies make more than ${MAX_TOKEN} tokens; take fewer --copies`);
    }
    return this.#nextTail - count;
  }
}

/** In [0, 1): MurmurHash3's finalizer (public domain) over seed, line and copy. */
function drawn(seed: number, line: number, copy: number): number {
  const start = mixed(mixed(seed) ^ Math.floor(seed / 2 ** 32));
  return mixed(mixed(start ^ mixed(line + 1)) ^ (copy * 0x9e3779b1)) / 2 ** 32;
}

function mixed(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

function refused(message: string): PointsmanError {
  return new PointsmanError('PM_REPLAY_SETTINGS', message);
}
