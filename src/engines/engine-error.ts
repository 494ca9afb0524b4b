// Turns an engine's error answer into a Pointsman error: a 4xx keeps its status and message, because it is about the request;
// the text of a 5xx stays inside, because it may tell paths and internals.
import { PointsmanError } from '../plugin/index.ts';
import { isJsonObject } from './json-value.ts';

/** At most this much of an error body is read. */
export const MAX_ERROR_BYTES = 64 * 1024;
const MAX_MESSAGE = 2_000;

/**
 * The error for a status ≥ 300. `details.engine_status` is the engine's status; `details.retry_after` its Retry-After header.
 * @param explain what to say behind a refusal's message; null = nothing.
 */
export function engineError(
  status: number,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
  explain: (message: string) => string | null = () => null,
): PointsmanError {
  const retryAfter = headers['retry-after'];
  const details = { engine_status: status, ...(retryAfter === undefined ? {} : { retry_after: retryAfter }) };
  if (status < 400) {
    const sentence = `the engine answered with status ${status}, which is no answer to a request to generate`;
    return new PointsmanError('PM_ENGINE_FAILED', sentence, { details });
  }
  if (status >= 500) {
    return new PointsmanError('PM_ENGINE_FAILED', `the engine failed with status ${status}`, { details });
  }
  const said = engineMessage(body.toString('utf8'));
  const more = said === null ? null : explain(said);
  const message = more === null ? said : `${said} (${more})`;
  return new PointsmanError(
    'PM_ENGINE_REFUSED',
    message ?? `the engine refused the request with status ${status}`,
    { details },
  );
}

/**
 * The message of the known error shapes: `{error:{message}}` (OpenAI, vLLM), `{error:"…"}` and `{message}` (TensorRT-LLM,
 * Dynamo), `{detail}` (FastAPI).
 */
function engineMessage(text: string): string | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isJsonObject(parsed)) return null;
  const inner = isJsonObject(parsed.error) ? parsed.error.message : parsed.error;
  for (const candidate of [inner, parsed.message, parsed.detail]) {
    if (typeof candidate === 'string' && candidate !== '') return candidate.slice(0, MAX_MESSAGE);
  }
  return null;
}
