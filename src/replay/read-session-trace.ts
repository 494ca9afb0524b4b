// Reads a session trace line by line, and tells which kind of trace a file is.
import { PointsmanError } from '../plugin/index.ts';
import { nameOf, readLines } from './read-lines.ts';
import { MAX_IDS, MAX_REQUESTS } from './read-trace.ts';
import { parseSessionLine } from './session-line.ts';
import type { SessionTrace, TracedLine } from './session-trace.ts';
import { type TraceFormat, wrong } from './trace-error.ts';

/** Bytes of one line, which is a whole session. */
export const MAX_SESSION_LINE_BYTES = 64 * 1024 * 1024;
/** Lines of one trace. */
export const MAX_SESSIONS = 1_000_000;

/** What only a line of sessions begins with; an object of its own is not parsed for it twice. */
const SESSION_FIELD = /"requests"\s*:\s*\[/;
/** Fields before `requests` that a line may have. */
const LOOKED_AT_BYTES = 64 * 1024;

/**
 * Reads a session trace.
 * @param limit read only this many lines, from 1; null = all.
 * @throws PM_REPLAY_TRACE naming the file and, for a wrong line, its number and the place in it.
 */
export async function readSessionTrace(file: string, limit: number | null = null): Promise<SessionTrace> {
  const name = nameOf(file);
  const lines: TracedLine[] = [];
  /** Lines by session; negative = it is a sub-agent there. */
  const places = new Map<string, number>();
  let blockSize = 0;
  let requests = 0;
  let ids = 0;
  await readLines(file, MAX_SESSION_LINE_BYTES, (bytes, line) => {
    const parsed = parseSessionLine(bytes, { name, line });
    const refuse = (problem: string): PointsmanError => wrong(name, line, problem, 'sessions');
    for (const { id, parent } of parsed.sessions) {
      const known = places.get(id);
      if (known !== undefined) {
        const which = parent < 0 ? `id is ${id}` : `requests hold a sub-agent with the id ${id}`;
        const whose = known < 0 ? 'a sub-agent of line' : 'line';
        throw refuse(`${which}, as that of ${whose} ${Math.abs(known)}; each session has its own`);
      }
      places.set(id, parent < 0 ? line : -line);
    }
    if (lines.length === 0) blockSize = parsed.blockSize;
    if (parsed.blockSize !== blockSize) {
      throw refuse(`block_size is ${parsed.blockSize}, but ${blockSize} above; a trace has one`);
    }
    requests += parsed.requests;
    ids += parsed.ids;
    lines.push({ sessions: parsed.sessions, uniqueIds: parsed.uniqueIds });
    if (lines.length > MAX_SESSIONS) throw refuse(`a trace holds at most ${MAX_SESSIONS} sessions`);
    if (requests > MAX_REQUESTS) throw refuse(`a trace holds at most ${MAX_REQUESTS} requests`);
    if (ids > MAX_IDS) throw refuse(`a trace holds at most ${MAX_IDS} hash_ids in all`);
    return lines.length !== limit;
  });
  if (lines.length === 0) {
    throw new PointsmanError(
      'PM_REPLAY_TRACE',
      `${name} holds no session; a session trace has one per line`,
      {
        details: { file: name },
      },
    );
  }
  return { kind: 'sessions', name, blockSize, lines };
}

/**
 * The kind of a trace, by its first line that is not blank: one with `requests` is a session. Anything else is taken for Mooncake's,
 * whose reader says what is wrong.
 * @throws PM_REPLAY_TRACE when the file cannot be read.
 */
export async function traceFormatOf(file: string): Promise<TraceFormat> {
  let format: TraceFormat = 'mooncake';
  await readLines(file, MAX_SESSION_LINE_BYTES, (bytes) => {
    if (SESSION_FIELD.test(bytes.toString('latin1', 0, LOOKED_AT_BYTES))) format = 'sessions';
    return false;
  });
  return format;
}
