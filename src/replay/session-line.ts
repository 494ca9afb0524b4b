// Checks one line of a session trace: kv-cache-tester's "WEKA" format of Claude Code sessions (callanjfox/kv-cache-tester).
// `t` of a request is when it was sent, `t` of a sub-agent when its end was known: `t` less `duration_ms` is when it started.
import { LineObject } from './line-fields.ts';
import type { TracedLine, TracedSession, TracedTrigger, TracedTurn } from './session-trace.ts';
import { wrong } from './trace-error.ts';

/** Caps of one line. */
export const MAX_TURNS = 100_000;
/** Sub-agents within sub-agents. */
export const MAX_DEPTH = 8;
/** Sessions of one line. */
export const MAX_LINE_SESSIONS = 10_000;
const MAX_LENGTH = 4_194_304;
/** 317 years. */
const MAX_SECONDS = 1e10;
const MAX_BLOCK_SIZE = 4096;
/** Room for what tells copies apart, within the 256 characters that a session id may have. */
const MAX_ID = 128;
const MAX_TEXT = 1024;
const MAX_KINDS = 64;

/** Where a line stands. */
export interface SessionLineContext {
  readonly name: string;
  readonly line: number;
}

/** What a line is read into. */
export interface ParsedSessionLine extends TracedLine {
  readonly blockSize: number;
  readonly requests: number;
  readonly ids: number;
}

/** A request on its way into a turn; times in seconds as in the trace. */
interface Sent {
  readonly sentAt: number;
  readonly endedAt: number;
  readonly think: number;
  readonly turn: Omit<TracedTurn, 'thinkMs' | 'awaits'>;
}

interface Spawned {
  readonly session: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Reads one line. Further fields are ignored.
 * @throws PM_REPLAY_TRACE with file, line number, the place of the field and what would be right.
 */
export function parseSessionLine(bytes: Uint8Array, { line, name }: SessionLineContext): ParsedSessionLine {
  const row = LineObject.ofLine(bytes, 'id, block_size and requests', (problem) =>
    wrong(name, line, problem, 'sessions'),
  );
  const id = row.text('id', MAX_ID);
  const blockSize = row.number('block_size', 1, MAX_BLOCK_SIZE, 'whole');
  if (row.has('hash_id_scope')) row.word('hash_id_scope', ['local']);
  const reader = new LineReader(blockSize);
  reader.session(row, { id, parent: -1, startsAfter: -1, startDelayMs: 0 }, 0);
  return {
    blockSize,
    sessions: reader.sessions.flatMap((session) => session ?? []),
    uniqueIds: reader.numbers.size,
    requests: reader.requests,
    ids: reader.ids,
  };
}

class LineReader {
  /** A place is taken when a session begins, so that sub-agents stand behind their parent. */
  readonly sessions: (TracedSession | null)[] = [];
  /** New numbers of the line's ids, in order of appearance. */
  readonly numbers = new Map<number, number>();
  requests = 0;
  ids = 0;
  readonly #names = new Set<string>();
  readonly #blockSize: number;

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /** Reads `requests` of a line or a sub-agent; returns its index. */
  session(row: LineObject, about: Omit<TracedSession, 'turns'>, depth: number): number {
    const index = this.sessions.length;
    if (index >= MAX_LINE_SESSIONS)
      throw row.wrong('requests', `makes more than ${MAX_LINE_SESSIONS} sessions`);
    this.sessions.push(null);
    checkRest(row);
    const entries = row.objects('requests', MAX_TURNS);
    const sent: Sent[] = [];
    for (const entry of entries) {
      if (entry.word('type', ['n', 's', 'subagent']) === 'subagent') continue;
      const request = this.#request(entry);
      const before = sent.at(-1);
      if (before !== undefined && request.sentAt < before.sentAt) {
        throw entry.wrong(
          't',
          `is before that of the request above, ${before.sentAt}; requests stand in order`,
        );
      }
      sent.push(request);
    }
    if (sent.length === 0) throw row.wrong('requests', 'holds no request of type "n" or "s"');
    const spawned = entries.flatMap((entry) =>
      entry.word('type', ['n', 's', 'subagent']) === 'subagent'
        ? [this.#subAgent(entry, about.id, index, sent, depth + 1)]
        : [],
    );
    this.sessions[index] = { ...about, turns: turnsOf(sent, spawned) };
    return index;
  }

  #request(entry: LineObject): Sent {
    const sentAt = entry.number('t', 0, MAX_SECONDS, 'any');
    const inputTokens = entry.number('in', 1, MAX_LENGTH, 'whole');
    const outputTokens = entry.number('out', 0, MAX_LENGTH, 'whole');
    const answer = entry.number('api_time', 0, MAX_SECONDS, 'any', 0);
    entry.number('ttft', 0, MAX_SECONDS, 'any', 0);
    for (const field of ['model', 'stop']) entry.optionalText(field, MAX_TEXT);
    entry.texts('output_types', MAX_KINDS);
    const trigger = triggerOf(entry.texts('input_types', MAX_KINDS));
    const blocks = Math.floor(inputTokens / this.#blockSize);
    const because = `in ${inputTokens} with blocks of ${this.#blockSize} tokens`;
    const ids = Uint32Array.from(entry.ids('hash_ids', blocks, because), (id) => this.#numberOf(id));
    this.requests += 1;
    this.ids += blocks;
    return {
      sentAt,
      endedAt: sentAt + answer,
      think: entry.number('think_time', 0, MAX_SECONDS, 'any', -1),
      turn: { inputTokens, outputTokens: Math.max(1, outputTokens), ids, answerMs: answer * 1000, trigger },
    };
  }

  #subAgent(
    entry: LineObject,
    parentId: string,
    parent: number,
    sent: readonly Sent[],
    depth: number,
  ): Spawned {
    if (depth > MAX_DEPTH)
      throw entry.wrong('type', `is a sub-agent at depth ${depth}; at most ${MAX_DEPTH} are read`);
    const to = entry.number('t', 0, MAX_SECONDS, 'any');
    const from = Math.max(0, to - entry.number('duration_ms', 0, MAX_SECONDS, 'any') / 1000);
    const agent = entry.text('agent_id', MAX_ID);
    entry.number('total_tokens', 0, Number.MAX_SAFE_INTEGER, 'whole', 0);
    entry.number('tool_use_count', 0, Number.MAX_SAFE_INTEGER, 'whole', 0);
    for (const field of ['subagent_type', 'status']) entry.optionalText(field, MAX_TEXT);
    const id = `${parentId}/${agent}`;
    if (id.length > MAX_ID) throw entry.wrong('agent_id', `makes an id of more than ${MAX_ID} characters`);
    if (this.#names.has(id)) {
      throw entry.wrong('agent_id', `is ${agent}, as that of another sub-agent of the same session`);
    }
    this.#names.add(id);
    const starter = Math.max(0, firstSent(sent, (sentAt) => sentAt > from) - 1);
    const startDelayMs = Math.max(0, from - sent[starter]!.endedAt) * 1000;
    const session = this.session(entry, { id, parent, startsAfter: starter, startDelayMs }, depth);
    return { session, from: starter, to };
  }

  #numberOf(id: number): number {
    const known = this.numbers.get(id);
    if (known !== undefined) return known;
    const number = this.numbers.size;
    this.numbers.set(id, number);
    return number;
  }
}

/** Index of the first request from whose time on something holds, which holds of all later times; their number where there is none. */
function firstSent(sent: readonly Sent[], holds: (sentAt: number) => boolean): number {
  let low = 0;
  let high = sent.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sent[middle]!.sentAt)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A sub-agent is awaited by the first turn that was sent after its end. */
function turnsOf(sent: readonly Sent[], spawned: readonly Spawned[]): readonly TracedTurn[] {
  const awaited = new Map<number, Spawned[]>();
  for (const one of spawned) {
    const by = Math.max(
      one.from + 1,
      firstSent(sent, (sentAt) => sentAt >= one.to),
    );
    const others = awaited.get(by);
    if (others === undefined) awaited.set(by, [one]);
    else others.push(one);
  }
  return sent.map(({ sentAt, think, turn }, index) => {
    const before = sent[index - 1];
    const awaits = awaited.get(index) ?? [];
    const ended = Math.max(before?.endedAt ?? 0, ...awaits.map(({ to }) => to));
    const gap = awaits.length === 0 && think >= 0 ? think : Math.max(0, sentAt - ended);
    return { ...turn, thinkMs: gap * 1000, awaits: awaits.map(({ session }) => session) };
  });
}

/** What is new in a prompt; a prompt that brings answers along is a conversation sent again, and says nothing of what came last. */
function triggerOf(kinds: readonly string[]): TracedTrigger {
  if (kinds.includes('tool_use') || kinds.includes('thinking')) return null;
  if (kinds.includes('tool_result')) return 'tool_result';
  return kinds.includes('text') ? 'user_message' : null;
}

function checkRest(row: LineObject): void {
  row.texts('models', MAX_KINDS);
  row.number('tool_tokens', 0, MAX_LENGTH, 'whole', 0);
  row.number('system_tokens', 0, MAX_LENGTH, 'whole', 0);
}
