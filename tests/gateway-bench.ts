// A gateway with a scripted road and a manual clock behind real sockets.
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { RouterConfig } from '../src/config/index.ts';
import { createGateway, type Gateway } from '../src/gateway/index.ts';
import type { Metrics, Readiness } from '../src/observe/index.ts';
import { type Logger, ManualClock } from '../src/plugin/index.ts';
import { createTokenSource } from '../src/tokens/index.ts';
import { routerConfigFixture, ScriptedRoad } from './gateway-fixtures.ts';

/** What a test drives and sees. */
export interface Bench {
  readonly gateway: Gateway;
  readonly road: ScriptedRoad;
  readonly url: string;
  readonly port: number;
  readonly counts: string[];
  readonly clock: ManualClock;
  config: RouterConfig;
  /** Models by LoRA adapter. */
  adapters: ReadonlyMap<string, readonly string[]>;
  readiness: Readiness;
  readonly logged: string[];
}

/** Starts one; it is stopped after the test. */
export async function bench(config: Partial<RouterConfig> = {}): Promise<Bench> {
  const road = new ScriptedRoad();
  const clock = new ManualClock(1_000_000);
  const counts: string[] = [];
  const logged: string[] = [];
  const metrics: Metrics = {
    count: (name, labels = {}) => counts.push(`${name} ${Object.values(labels).join(' ')}`),
    observe() {},
    gauge() {},
  };
  const started: Omit<Bench, 'gateway' | 'url' | 'port'> = {
    road,
    clock,
    counts,
    logged,
    config: routerConfigFixture(config),
    adapters: new Map(),
    readiness: { reasons: [], warnings: [] },
  };
  const tokens = createTokenSource({
    model: 'tiny',
    setting: { source: 'estimate' },
    maxPromptTokens: () => started.config.limits.promptTokens,
    metrics,
    clock,
  });
  let ids = 0;
  const gateway = createGateway({
    road,
    config: () => started.config,
    tokens: (model) => (model === 'tiny' ? tokens : undefined),
    adapters: { all: () => started.adapters },
    readiness: () => started.readiness,
    metrics,
    clock,
    log: recordingLog(logged),
    newRequestId: () => `req-${++ids}`,
  });
  const { port } = await gateway.listen('127.0.0.1', 0);
  const ready: Bench = Object.assign(started, { gateway, port, url: `http://127.0.0.1:${port}` });
  onTestFinished(async () => {
    const stopped = gateway.stop(0);
    // Fires the deadline, then the last-bytes timers, whatever connections a test left open.
    let open = true;
    void stopped.then(() => {
      open = false;
    });
    while (open) {
      clock.advanceTo(clock.now() + 500);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  return ready;
}

/** Sends a JSON body, or a text as it is. */
export function post(
  on: Bench,
  body: unknown,
  headers: Record<string, string> = {},
  path = '/v1/completions',
): Promise<Response> {
  return fetch(on.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** Status and error object of an error answer. */
export async function errorOf(
  response: Promise<Response>,
): Promise<{ status: number; error: Record<string, unknown> }> {
  const answer = await response;
  const body = (await answer.json()) as { error: Record<string, unknown> };
  return { status: answer.status, error: body.error };
}

/** A small completion. */
export const COMPLETION = { model: 'tiny', prompt: 'hello world', max_tokens: 4 };
/** The same, streaming. */
export const STREAM = { ...COMPLETION, stream: true };
/** Head of an engine's stream. */
export const SSE = { 'content-type': 'text/event-stream; charset=utf-8' };
/** What the engine says at the end. */
export const REPORT = {
  promptTokens: 3,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;

/** A bare connection: what was sent, and all that came back until the other side closed. */
export function raw(on: Bench, request: string): { socket: Socket; text: Promise<string> } {
  const socket = connect(on.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const text = new Promise<string>((resolve) => {
    let all = '';
    socket.on('data', (part) => {
      all += part;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(all));
  });
  socket.write(request);
  return { socket, text };
}

function recordingLog(lines: string[]): Logger {
  const write = (message: string, fields: object = {}): void => {
    lines.push(`${message} ${Object.values(fields).join(' ')}`);
  };
  return { debug: write, info: write, warn: write, error: write };
}
