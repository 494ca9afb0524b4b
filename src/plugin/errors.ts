// The one error base of Pointsman. A code, a sentence, structured details; recognised across two copies of the package.
import { ERROR_CODES, type ErrorCode } from './error-codes.ts';

const BRAND: unique symbol = Symbol.for('pointsman.error') as never;

/** Structured facts about an error: shown in JSON answers and logs, so never a prompt and never a secret. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | null>>;

/** Options of {@link PointsmanError}. */
export interface PointsmanErrorOptions {
  readonly cause?: unknown;
  readonly details?: ErrorDetails;
}

/**
 * Every error Pointsman raises on purpose. `code` is stable (`PM_CONFIG_UNKNOWN_KEY`); `message` is one sentence that says
 * what is wrong, where, and what would be right. `instanceof` holds across two copies of the package.
 */
export class PointsmanError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, options: PointsmanErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'PointsmanError';
    this.code = code;
    this.details = options.details ?? {};
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** HTTP status a door answers with when this error ends a request. */
  get status(): number {
    return ERROR_CODES[this.code].status;
  }

  /** Whether the same request may succeed when sent again. */
  get retryable(): boolean {
    return ERROR_CODES[this.code].retryable;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    try {
      return typeof value === 'object' && value !== null && BRAND in value;
    } catch {
      // A proxy that refuses to be looked at.
      return false;
    }
  }
}

/** The text of any thrown value, for messages and logs. Never throws, whatever a plugin threw. */
export function errorText(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return String(text);
  } catch {
    // Plugins throw what they like, also what has no text or throws when it is asked for one.
    return 'something without a text was thrown';
  }
}

/** Short words for a failed read; the system's own text repeats the path. */
export function systemReason(thrown: unknown): string {
  const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : '';
  switch (code) {
    case 'ENOENT':
      return 'no such file';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EISDIR':
      return 'it is a folder';
    case 'ELOOP':
      return 'its links lead in a circle';
    default:
      return errorText(thrown);
  }
}
