// Errors in the shape of the OpenAI API: `{"error": {message, type, param, code}}`.
import { PointsmanError } from '../plugin/index.ts';
import { STREAM_END_CODES, WIRE_CODES } from './wire-codes.ts';

/** An error answer, ready to send. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Codes that OpenAI clients know by another name. */
const API_CODES: Readonly<Record<string, string>> = WIRE_CODES;

/** What follows in the log only; a client cannot act on it and it may tell internals. */
const INTERNAL = new PointsmanError('PM_INTERNAL', 'something failed inside the router');

/** Any thrown value as a Pointsman error; unknown ones become PM_INTERNAL without their text. */
export function publicError(thrown: unknown): PointsmanError {
  return thrown instanceof PointsmanError ? thrown : INTERNAL;
}

/**
 * The answer for an error before any byte went out.
 * @param overloadStatus takes the place of 429 where the router itself refuses (limits.overload_status).
 */
export function errorAnswer(error: PointsmanError, overloadStatus: number): ErrorAnswer {
  const status = statusOf(error, overloadStatus);
  const headers: Record<string, string> = { 'content-type': 'application/json; charset=utf-8' };
  const retryAfter = error.details.retry_after;
  if (typeof retryAfter === 'string' && /^\d{1,9}$/.test(retryAfter)) headers['retry-after'] = retryAfter;
  else if (status === 429 || status === 503 || status === overloadStatus) headers['retry-after'] = '1';
  if (typeof error.details.allow === 'string') headers.allow = error.details.allow;
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  return { status, headers, body: errorJson(error, status, API_CODES[error.code] ?? error.code) };
}

/**
 * The event that ends a stream whose engine was lost after the first byte. No `[DONE]` follows, so that no client takes the
 * answer for complete.
 */
export function errorEvent(error: PointsmanError): string {
  const code = error.code === 'PM_SHUTTING_DOWN' ? STREAM_END_CODES.stopping : STREAM_END_CODES.other;
  return `data: ${errorJson(error, 502, code)}\n\n`;
}

function statusOf(error: PointsmanError, overloadStatus: number): number {
  const engine = error.details.engine_status;
  if (typeof engine === 'number') {
    // A refusal is about the request and keeps its status; of failures only 503 says something the client can use.
    if (error.code === 'PM_ENGINE_REFUSED' && engine >= 400 && engine < 500) return engine;
    if (error.code === 'PM_ENGINE_FAILED' && engine === 503) return 503;
  }
  // A sender over its own share is told so, whatever overload is called.
  if (error.code === 'PM_CLASSIFIER_RATE_LIMITED') return error.status;
  return error.status === 429 ? overloadStatus : error.status;
}

function errorJson(error: PointsmanError, status: number, code: string): string {
  const param = error.details.param;
  return JSON.stringify({
    error: {
      message: error.message,
      type: typeOf(status),
      param: typeof param === 'string' ? param : null,
      code,
      ...detailsOf(error),
    },
  });
}

/**
 * What stands behind an error, for clients that read more than the status: `details` of a refusal by load with its reason and figures,
 * or with the number of tries of a request that was sent to several workers.
 */
function detailsOf(error: PointsmanError): { readonly details?: Readonly<Record<string, unknown>> } {
  const { refusal, retry_after: seconds, tries, ...figures } = error.details;
  if (typeof refusal === 'string') {
    return { details: { reason: refusal, ...figures, retry_after_seconds: Number(seconds) } };
  }
  return typeof tries === 'number' ? { details: { tries } } : {};
}

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 408) return 'timeout_error';
  if (status === 429 || status === 529) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}
