// Reads a Mooncake JSONL file, compressed or not, line by line. Every line is checked; the first wrong one ends the reading with
// its number and what would be right, and nothing is kept.
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { PointsmanError, systemReason } from '../plugin/index.ts';
import { TRACE_BLOCK_SIZE, type Trace, TraceBuilder } from './trace.ts';
import { wrong } from './trace-error.ts';
import { parseTraceLine } from './trace-line.ts';

/** Bytes of one line. */
export const MAX_LINE_BYTES = 4 * 1024 * 1024;
/** Requests of one trace. */
export const MAX_REQUESTS = 5_000_000;
/** Block ids of one trace, all requests together. */
export const MAX_IDS = 100_000_000;

const NEWLINE = 0x0a;

/**
 * Reads a trace.
 * @param limit read only this many requests, from 1; null = all.
 * @throws PM_REPLAY_TRACE naming the file and, for a wrong line, its number.
 */
export async function readTrace(file: string, limit: number | null = null): Promise<Trace> {
  const name = basename(file) || JSON.stringify(file);
  const builder = new TraceBuilder();
  let line = 0;
  try {
    for await (const bytes of linesOf(file, name)) {
      line += 1;
      if (isBlank(bytes)) continue;
      parseTraceLine(bytes, { name, line, builder });
      if (builder.requests > MAX_REQUESTS) {
        throw wrong(name, line, `a trace holds at most ${MAX_REQUESTS} requests`);
      }
      if (builder.ids > MAX_IDS) throw wrong(name, line, `a trace holds at most ${MAX_IDS} hash_ids in all`);
      if (builder.requests === limit) break;
    }
  } catch (thrown) {
    if (thrown instanceof PointsmanError) throw thrown;
    throw new PointsmanError(
      'PM_REPLAY_TRACE',
      line === 0
        ? `cannot read the trace ${file === '' ? '""' : file}: ${systemReason(thrown)}`
        : `${name} cannot be read after line ${line}: ${systemReason(thrown)}`,
      {
        cause: thrown,
        details: { file: name, line },
      },
    );
  }
  if (builder.requests === 0) {
    throw new PointsmanError(
      'PM_REPLAY_TRACE',
      `${name} holds no request; a trace has one JSON object per line, with ${TRACE_BLOCK_SIZE}-token hash_ids`,
      { details: { file: name } },
    );
  }
  return builder.build(name);
}

async function* linesOf(file: string, name: string): AsyncGenerator<Buffer> {
  const raw = createReadStream(file);
  const source = file.endsWith('.gz') ? pipeline(raw, createGunzip(), () => undefined) : raw;
  let rest: Buffer[] = [];
  let restBytes = 0;
  let line = 1;
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        const piece = chunk.subarray(start, end);
        checkLength(restBytes + piece.length, name, line);
        yield rest.length === 0 ? piece : Buffer.concat([...rest, piece]);
        rest = [];
        restBytes = 0;
        start = end + 1;
        line += 1;
      }
      if (start === chunk.length) continue;
      rest.push(chunk.subarray(start));
      restBytes += chunk.length - start;
      checkLength(restBytes, name, line);
    }
    if (restBytes > 0) yield Buffer.concat(rest);
  } finally {
    raw.destroy();
  }
}

function checkLength(bytes: number, name: string, line: number): void {
  if (bytes > MAX_LINE_BYTES) throw wrong(name, line, `the line is longer than ${MAX_LINE_BYTES} bytes`);
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}
