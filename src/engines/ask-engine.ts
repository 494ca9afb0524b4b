// Small questions to an engine outside of any request: whether it is alive, and what it says about KV hints. Each opens its own
// short connection, so that an answer says something about new connections too.
import { request } from 'undici';
import { type Probe, parseCapabilities, type WorkerCapabilities } from '../fleet/index.ts';
import { errorText, type Logger, PointsmanError } from '../plugin/index.ts';
import { dialectProblem } from './dialects.ts';
import { type ReportedLoad, readReportedLoad } from './reported-load.ts';

const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * What the engine at a base url advertises; null when it says that it has no such endpoint (404 or 501).
 * @param signal ends the question early.
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers, PM_CAPABILITIES_INVALID when the answer is unusable.
 */
export async function askCapabilities(url: string, signal: AbortSignal): Promise<WorkerCapabilities | null> {
  const { status, body } = await get(url, '/kv_hints/capabilities', signal);
  if (status === 404 || status === 501) return null;
  if (status !== 200) throw unusable(`the engine answered with status ${status}`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString('utf8'));
  } catch {
    throw unusable('it is not JSON');
  }
  return parseCapabilities(parsed);
}

/**
 * What the engine at a base url says of its own load at `GET /metrics`; null when it says nothing of it.
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers, or more than a MiB.
 */
export async function askReportedLoad(url: string, signal: AbortSignal): Promise<ReportedLoad | null> {
  const { status, body } = await get(url, '/metrics', signal);
  return status === 200 ? readReportedLoad(body.toString('utf8')) : null;
}

/** Whether `GET /health` answers with a 2xx. Never throws. */
export async function probeHealth(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { status } = await get(url, '/health', signal);
    return status >= 200 && status < 300;
  } catch {
    return false;
  }
}

/**
 * A fleet probe over HTTP: health, and capabilities when they are due and `asks` says that this worker is to be asked. An
 * advertisement that cannot be used counts as none and is logged. A worker that no request can be written for is not healthy.
 */
export function createHttpProbe(options: {
  readonly asks: (workerId: bigint) => boolean;
  readonly log: Logger;
}): Probe {
  return async (worker, { askCapabilities: due, signal }) => {
    const { id, url } = worker.spec;
    if (!(await probeHealth(url, signal))) return { healthy: false };
    if (!due || !options.asks(id)) return { healthy: true };
    let capabilities: WorkerCapabilities | null = null;
    try {
      capabilities = await askCapabilities(url, signal);
    } catch (thrown) {
      if (!(thrown instanceof PointsmanError) || thrown.code !== 'PM_CAPABILITIES_INVALID') throw thrown;
      options.log.warn(thrown.message, { worker: id });
    }
    const problem = dialectProblem({ ...worker, capabilities });
    if (problem === null) return { healthy: true, capabilities };
    options.log.warn(problem, { worker: id });
    return { healthy: false };
  };
}

function unusable(problem: string): PointsmanError {
  return new PointsmanError(
    'PM_CAPABILITIES_INVALID',
    `the capability advertisement cannot be used: ${problem}`,
  );
}

async function get(
  url: string,
  path: string,
  signal: AbortSignal,
): Promise<{ status: number; body: Buffer }> {
  try {
    const { statusCode, body } = await request(url.replace(/\/$/, '') + path, { reset: true, signal });
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
      { cause: thrown },
    );
  }
}
