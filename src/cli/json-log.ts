// The log of long-running commands: one JSON line per entry on stderr, so that stdout stays for results.
import { pino } from 'pino';
import type { LogFields, Logger } from '../plugin/index.ts';

/** Where log lines go; `process.stderr` fits. */
export interface LogStream {
  write(line: string): void;
}

/** A log whose level can change. */
export interface JsonLog extends Logger {
  /** Drops entries below this level of `observe.log_level` from now on. */
  setLevel(level: string): void;
}

/** A logger that drops entries below `level`, one of those of `observe.log_level`. */
export function createJsonLog(level: string, stream: LogStream): JsonLog {
  const log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
  return {
    debug: (message, fields) => log.debug(writable(fields), message),
    info: (message, fields) => log.info(writable(fields), message),
    warn: (message, fields) => log.warn(writable(fields), message),
    error: (message, fields) => log.error(writable(fields), message),
    setLevel(wanted) {
      log.level = wanted;
    },
  };
}

/** Ids become decimal text: JSON readers round bare 64-bit integers. */
function writable(fields: LogFields = {}): Record<string, string | number | boolean | null> {
  const plain: Record<string, string | number | boolean | null> = {};
  for (const [name, value] of Object.entries(fields)) {
    plain[name] = typeof value === 'bigint' ? value.toString() : value;
  }
  return plain;
}
