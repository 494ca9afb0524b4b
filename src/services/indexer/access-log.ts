// One JSON line per answered request, appended to a file. Where the disk cannot follow, lines are dropped and counted: answers do
// not wait for it.
import { createWriteStream, openSync, type WriteStream } from 'node:fs';
import type { Metrics } from '../../observe/index.ts';
import { errorText, type Logger, PointsmanError } from '../../plugin/index.ts';

/** Most bytes that wait for the disk. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
const MAX_TEXT = 256;

/** One request. */
export interface AccessLogEntry {
  /** When it came, ms since 1970. */
  readonly atMs: number;
  readonly remote: string;
  readonly method: string;
  /** Without what follows the question mark. */
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
  /** What the caller calls it; null = nothing. */
  readonly traceId: string | null;
}

/** How an access log is kept. */
export interface AccessLogOptions {
  readonly path: string;
  /** Times in the time zone of this machine, rather than in UTC. */
  readonly localTime: boolean;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** An open access log. */
export class AccessLog {
  readonly #options: AccessLogOptions;
  #stream: WriteStream;

  /** @throws PM_INDEXER_ACCESS_LOG when the file cannot be written. */
  constructor(options: AccessLogOptions) {
    this.#options = options;
    this.#stream = this.#open();
  }

  /** Appends a line. */
  write(entry: AccessLogEntry): void {
    const stream = this.#stream;
    if (stream.errored !== null || stream.writableLength > MAX_WAITING_BYTES) {
      this.#options.metrics.count('pointsman_indexer_access_log_dropped_total');
      return;
    }
    stream.write(`${JSON.stringify(lineOf(entry, this.#options.localTime))}\n`);
  }

  /** Goes on in a new file of the same name, for whoever moved the old one away. @throws PM_INDEXER_ACCESS_LOG, and keeps the old one */
  reopen(): void {
    const next = this.#open();
    this.#stream.end();
    this.#stream = next;
  }

  /** Writes what waits and closes the file. */
  close(): Promise<void> {
    if (this.#stream.closed) return Promise.resolve();
    return new Promise((resolve) => this.#stream.once('close', resolve).end());
  }

  #open(): WriteStream {
    const { log, path } = this.#options;
    let fd: number;
    try {
      fd = openSync(path, 'a', 0o640);
    } catch (cause) {
      throw new PointsmanError(
        'PM_INDEXER_ACCESS_LOG',
        `the access log ${path} cannot be written: ${errorText(cause)}`,
        { cause },
      );
    }
    const stream = createWriteStream(path, { fd });
    stream.on('error', (thrown) => {
      log.error(`the access log cannot be written: ${errorText(thrown)}; /reopen_logs tries again`, {
        path,
        code: 'PM_INDEXER_ACCESS_LOG',
      });
    });
    return stream;
  }
}

function lineOf(entry: AccessLogEntry, localTime: boolean): object {
  const { atMs, durationMs, method, path, remote, status, traceId } = entry;
  return {
    time: timeText(atMs, localTime ? -new Date(atMs).getTimezoneOffset() : null),
    remote,
    method,
    path: path.slice(0, MAX_TEXT),
    status,
    duration_ms: Math.round(durationMs * 1000) / 1000,
    trace_id: traceId === null ? null : traceId.slice(0, MAX_TEXT),
  };
}

/** ISO 8601 with milliseconds. @param offset minutes that the local time is ahead of UTC; null = UTC, written as Z. */
export function timeText(atMs: number, offset: number | null): string {
  if (offset === null) return new Date(atMs).toISOString();
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60].map((part) =>
    String(part).padStart(2, '0'),
  );
  const local = new Date(atMs + offset * 60_000).toISOString();
  return `${local.slice(0, -1)}${offset < 0 ? '-' : '+'}${hours}:${minutes}`;
}
