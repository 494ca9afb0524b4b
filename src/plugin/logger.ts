/** Structured facts of a log line. Never a prompt, a header value or a secret. */
export type LogFields = Readonly<Record<string, string | number | bigint | boolean | null>>;

/** Where components and plugins write their log lines. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** A logger that drops every line, for tests and embedders. */
export const NO_LOG: Logger = Object.freeze({ debug() {}, info() {}, warn() {}, error() {} });
