// Small questions to an engine outside of any request: whether it is alive, and what it says about KV hints and of
// itself. Each opens its own
// short connection, so that an answer says something about new connections too.
import { request } from 'undici';
import {
  type Probe,
  parseCapabilities,
  type RecognizedEngine,
  type Worker,
  type WorkerCapabilities,
} from '../fleet/index.ts';
import { type Clock, errorText, type Logger, PointsmanError } from '../plugin/index.ts';
import { AUTO, DIALECTS, dialectOf, dialectProblem } from './dialects.ts';
import type { AskEngine } from './engine-description.ts';
import { recognizeEngine } from './recognize-engine.ts';
import { type ReportedLoad, readReportedLoad } from './reported-load.ts';

const MAX_ANSWER_BYTES = 1024 * 1024;
/** The events of a busy engine within one pause between two questions, with every token of their prompts. */
const MAX_EVENTS_BYTES = 64 * 1024 * 1024;

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
 * What a worker's engine says of its own load: where its dialect says, else at `GET /metrics`; null when it says nothing of it.
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers, or more than a MiB.
 */
export async function askReportedLoad(worker: Worker, signal: AbortSignal): Promise<ReportedLoad | null> {
  const { url } = worker.spec;
  const { load } = dialectProblem(worker) === null ? dialectOf(worker, DIALECTS) : {};
  const told = load === undefined ? null : await load(engineAt(url, signal));
  if (told !== null) return told;
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

/** Asks the engine at a base url, until `signal` fires. */
export function engineAt(url: string, signal: AbortSignal): AskEngine {
  return async ({ method, path, body }) => {
    const answer = await ask(url, path, signal, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    return { status: answer.status, text: answer.body.toString('utf8') };
  };
}

/**
 * Takes the KV events that an engine keeps for whoever asks (TensorRT-LLM's `/kv_cache_events`).
 * @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers, or more than 64 MiB.
 */
export async function pollKvEvents(
  address: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly text: string }> {
  const { pathname } = new URL(address);
  const base = address.slice(0, address.length - pathname.length);
  const { body, status } = await ask(base, pathname, signal, { method: 'POST' }, MAX_EVENTS_BYTES);
  return { status, text: body.toString('utf8') };
}

/** What a probe over HTTP needs. */
export interface HttpProbeOptions {
  /** Whether a worker's engine is to be asked for its hint capabilities. */
  readonly asks: (workerId: bigint) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What an engine says of itself may come later than this without anything coming of it, in ms. */
const DESCRIBE_MS = 1_000;

/**
 * A fleet probe over HTTP: health, and, when they are due, capabilities (where `asks` says that this worker is to be asked) and what the
 * engine says that it is. An advertisement that cannot be used counts as none and is logged; an engine that does not describe itself is as
 * healthy as before. A worker that no request can be written for is not healthy.
 */
export function createHttpProbe(options: HttpProbeOptions): Probe {
  const { asks, log } = options;
  return async (worker, { askCapabilities: due, signal }) => {
    const { id, url } = worker.spec;
    if (!(await probeHealth(url, signal))) return { healthy: false };
    if (!due) return { healthy: true };
    const capabilities = asks(id) ? await usableCapabilities(worker, signal, log) : undefined;
    const known = {
      ...worker,
      capabilities: capabilities === undefined ? worker.capabilities : capabilities,
    };
    const engine = await describedEngine(known, signal, options);
    const found = {
      healthy: true,
      ...(capabilities === undefined ? {} : { capabilities }),
      ...(engine === undefined ? {} : { engine }),
    } as const;
    const problem = dialectProblem({
      ...known,
      engine: engine === undefined ? (worker.engine ?? null) : engine,
    });
    if (problem === null) return found;
    log.warn(problem, { worker: id });
    return { healthy: false };
  };
}

async function usableCapabilities(
  { spec: { id, url } }: Worker,
  signal: AbortSignal,
  log: Logger,
): Promise<WorkerCapabilities | null> {
  try {
    return await askCapabilities(url, signal);
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError) || thrown.code !== 'PM_CAPABILITIES_INVALID') throw thrown;
    log.warn(thrown.message, { worker: id });
    return null;
  }
}

/** Null = another engine than configured, or none that is known; undefined = nothing was learned. */
async function describedEngine(
  worker: Worker,
  signal: AbortSignal,
  { clock, log }: HttpProbeOptions,
): Promise<RecognizedEngine | null | undefined> {
  const { dialect, id, url } = worker.spec;
  const limit = new AbortController();
  const cancel = clock.schedule(DESCRIBE_MS, () => limit.abort());
  try {
    const engine = await recognizeEngine(
      worker,
      engineAt(url, AbortSignal.any([signal, limit.signal])),
      DIALECTS,
    );
    const before = worker.engine ?? null;
    if (engine === null && dialect !== AUTO) {
      log.warn(
        `worker ${id} has dialect "${dialect}", but its engine does not answer as one: check its url, or name another dialect`,
        { worker: id },
      );
    } else if (
      engine &&
      (before?.dialect !== engine.dialect || before.description.version !== engine.description.version)
    ) {
      const { version } = engine.description;
      log.info('a worker says what it is', { worker: id, dialect: engine.dialect, version });
    }
    return engine;
  } catch (thrown) {
    log.debug(`an engine does not describe itself: ${errorText(thrown)}`, { worker: id });
    return undefined;
  } finally {
    cancel();
  }
}

function unusable(problem: string): PointsmanError {
  return new PointsmanError(
    'PM_CAPABILITIES_INVALID',
    `the capability advertisement cannot be used: ${problem}`,
  );
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

function get(url: string, path: string, signal: AbortSignal): Promise<Answer> {
  return ask(url, path, signal, { method: 'GET' });
}

async function ask(
  url: string,
  path: string,
  signal: AbortSignal,
  options: {
    readonly method: 'GET' | 'POST';
    readonly body?: string;
    readonly headers?: Record<string, string>;
  },
  maxBytes = MAX_ANSWER_BYTES,
): Promise<Answer> {
  try {
    const whole = url.replace(/\/$/, '') + path;
    const { statusCode, body } = await request(whole, { ...options, reset: true, signal });
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of body) {
      const bytes = Buffer.from(part);
      size += bytes.length;
      if (size > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
      parts.push(bytes);
    }
    return { status: statusCode, body: Buffer.concat(parts) };
  } catch (thrown) {
    throw new PointsmanError(
      'PM_ENGINE_UNREACHABLE',
      `the engine did not answer ${options.method} ${path}: ${errorText(thrown)}`,
      { cause: thrown },
    );
  }
}
