// Lines of a trace file, compressed or not, one at a time and bounded.
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { PointsmanError, systemReason } from '../plugin/index.ts';
import { wrong } from './trace-error.ts';

const NEWLINE = 0x0a;

/** A file's name as messages show it. */
export function nameOf(file: string): string {
  return basename(file) || JSON.stringify(file);
}

/**
 * Hands on every line that is not blank, with its number from 1, until `take` answers false.
 * @param mostBytes bytes of one line.
 * @throws PM_REPLAY_TRACE for a file that cannot be read or a longer line, and whatever `take` throws.
 */
export async function readLines(
  file: string,
  mostBytes: number,
  take: (bytes: Buffer, line: number) => boolean,
): Promise<void> {
  const name = nameOf(file);
  let line = 0;
  try {
    for await (const bytes of linesOf(file, name, mostBytes)) {
      line += 1;
      if (isBlank(bytes)) continue;
      if (!take(bytes, line)) break;
    }
  } catch (thrown) {
    if (thrown instanceof PointsmanError) throw thrown;
    throw new PointsmanError(
      'PM_REPLAY_TRACE',
      line === 0
        ? `cannot read the trace ${file === '' ? '""' : file}: ${systemReason(thrown)}`
        : `${name} cannot be read after line ${line}: ${systemReason(thrown)}`,
      { cause: thrown, details: { file: name, line } },
    );
  }
}

async function* linesOf(file: string, name: string, mostBytes: number): AsyncGenerator<Buffer> {
  const raw = createReadStream(file);
  const source = file.endsWith('.gz') ? pipeline(raw, createGunzip(), () => undefined) : raw;
  const checkLength = (bytes: number): void => {
    if (bytes > mostBytes) throw wrong(name, line, `the line is longer than ${mostBytes} bytes`);
  };
  let rest: Buffer[] = [];
  let restBytes = 0;
  let line = 1;
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        const piece = chunk.subarray(start, end);
        checkLength(restBytes + piece.length);
        yield rest.length === 0 ? piece : Buffer.concat([...rest, piece]);
        rest = [];
        restBytes = 0;
        start = end + 1;
        line += 1;
      }
      if (start === chunk.length) continue;
      rest.push(chunk.subarray(start));
      restBytes += chunk.length - start;
      checkLength(restBytes);
    }
    if (restBytes > 0) yield Buffer.concat(rest);
  } finally {
    raw.destroy();
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}
