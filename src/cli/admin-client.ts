// How commands ask a running router: requests to its admin API, answers read as exact JSON.
import { parseExactJson } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** Where a router's admin API is unless it is said otherwise. */
export const DEFAULT_ADMIN = 'http://127.0.0.1:8001';

/** How long an answer may take. */
const TIMEOUT_MS = 10_000;

/** An answer that may say no. */
export interface AdminAnswer {
  /** 200, or 409 where the router did not do it. */
  readonly status: number;
  readonly body: unknown;
}

/**
 * The parsed answer of `GET base/path`, or null for 404. `token` goes along as bearer.
 * @param admin what `--admin` says: an http url or `host:port`
 * @throws PointsmanError PM_USAGE for a base that is neither, PM_ADMIN_ANSWER when there is no usable answer
 */
export async function adminGet(admin: string, path: string, token: string | undefined): Promise<unknown> {
  const base = adminUrl(admin);
  const answer = await ask('GET', base, path, token, TIMEOUT_MS);
  return answer?.status === 200 ? answer.body : answer === null ? null : unusable(base, path, answer.status);
}

/**
 * The answer of `POST base/path`, or null for 404.
 * @param timeoutMs how long it may take
 * @throws as {@link adminGet}
 */
export async function adminPost(
  admin: string,
  path: string,
  token: string | undefined,
  timeoutMs: number,
): Promise<AdminAnswer | null> {
  return await ask('POST', adminUrl(admin), path, token, timeoutMs);
}

async function ask(
  method: 'GET' | 'POST',
  base: string,
  path: string,
  token: string | undefined,
  timeoutMs: number,
): Promise<AdminAnswer | null> {
  const url = urlOf(base, path);
  let status: number;
  let text: string;
  try {
    const response = await fetch(url, {
      method,
      signal: AbortSignal.timeout(timeoutMs),
      headers: token ? { authorization: `Bearer ${token}` } : {},
    });
    status = response.status;
    text = await response.text();
  } catch (thrown) {
    throw new PointsmanError(
      'PM_ADMIN_ANSWER',
      `no answer from the admin API at ${base} (${reason(thrown)}); is the router running there? --admin names another address`,
      { cause: thrown },
    );
  }
  if (status === 404) return null;
  if (status === 401 || status === 403) {
    throw new PointsmanError(
      'PM_ADMIN_ANSWER',
      `the admin API at ${base} refused with status ${status}; put its token into POINTSMAN_ADMIN_TOKEN`,
    );
  }
  try {
    if (status === 200 || status === 409) return { status, body: parseExactJson(text) };
  } catch {
    // Falls through to the one answer for everything that is not this API.
  }
  return unusable(base, path, status);
}

/** The url that `--admin` means: itself, or plain http at `host:port`. @throws PointsmanError PM_USAGE. */
function adminUrl(given: string): string {
  const url = /^(\[[0-9a-fA-F:.]+\]|[^/:@?#\s]+):\d+\/?$/.test(given) ? `http://${given}` : given;
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url;
  throw new PointsmanError(
    'PM_USAGE',
    `--admin must be host:port or a url such as ${DEFAULT_ADMIN}, not "${given.slice(0, 80)}"`,
  );
}

function unusable(base: string, path: string, status: number): never {
  throw new PointsmanError(
    'PM_ADMIN_ANSWER',
    `${urlOf(base, path)} answered status ${status} without the JSON expected of the admin API`,
  );
}

function urlOf(base: string, path: string): string {
  return `${base.replace(/\/+$/, '')}${path}`;
}

/** The innermost code of a failed fetch, such as ECONNREFUSED. */
function reason(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return cause instanceof Error ? cause.message : String(cause);
}
