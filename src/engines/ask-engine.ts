// Small questions to an engine outside of any request: its hint capabilities, and whether it is alive. Each opens its own
// short connection, so that an answer says something about new connections too.
import { request } from 'undici';
import { errorText, PointsmanError } from '../plugin/index.ts';
import { type EngineAdvertisement, parseAdvertisement } from './capabilities.ts';

/** Options of both questions. */
export interface AskOptions {
  /** Time for the whole answer in ms; default 2,000. */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 2_000;
const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * What the engine at a base url advertises; null when it says that it has no such endpoint (404 or 501).
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers in time, PM_ENGINE_CAPABILITIES when the answer is unusable.
 */
export async function askCapabilities(
  url: string,
  options: AskOptions = {},
): Promise<EngineAdvertisement | null> {
  const { status, body } = await get(url, '/kv_hints/capabilities', options);
  if (status === 404 || status === 501) return null;
  if (status !== 200) {
    throw new PointsmanError(
      'PM_ENGINE_CAPABILITIES',
      `KV hint capabilities: the engine answered with status ${status}`,
      {
        details: { engine_status: status },
      },
    );
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString('utf8'));
  } catch {
    throw new PointsmanError('PM_ENGINE_CAPABILITIES', 'KV hint capabilities: the answer is not JSON');
  }
  return parseAdvertisement(parsed);
}

/** Whether `GET /health` answers with a 2xx in time. Never throws. */
export async function probeHealth(url: string, options: AskOptions = {}): Promise<boolean> {
  try {
    const { status } = await get(url, '/health', options);
    return status >= 200 && status < 300;
  } catch {
    return false;
  }
}

async function get(
  url: string,
  path: string,
  options: AskOptions,
): Promise<{ status: number; body: Buffer }> {
  try {
    const { statusCode, body } = await request(url.replace(/\/$/, '') + path, {
      reset: true,
      signal: AbortSignal.timeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS),
    });
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of body) {
      const bytes = Buffer.from(part);
      size += bytes.length;
      if (size > MAX_ANSWER_BYTES) throw new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
      parts.push(bytes);
    }
    return { status: statusCode, body: Buffer.concat(parts) };
  } catch (thrown) {
    throw new PointsmanError(
      'PM_ENGINE_UNREACHABLE',
      `the engine did not answer GET ${path}: ${errorText(thrown)}`,
      {
        cause: thrown,
      },
    );
  }
}
