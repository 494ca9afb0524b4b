// Clients of the selection service may leave at any moment. Every await of the service is found in the compiled program, and at each
// of them a call is cut off: nothing may stay booked or claimed. An await that no case comes to fails the test.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SelectionRouter, SelectionRouterOptions } from '../src/cli/selection-router.ts';
import { parseConfig, SELECTION_SERVICE_DEFAULTS } from '../src/config/index.ts';
import { NO_LOG, type PluginRegistry } from '../src/plugin/index.ts';
import { until } from './live-support.ts';
import { type WatchedProgram, watchedProgram } from './support/await-sites.ts';
import { ask, workerRecord } from './support/selection-client.ts';

const WATCHED = ['services/selection', 'services/http-door.js', 'services/dump-answer.js'];

/** Awaits that no call waits at, and why. */
const OUTSIDE_CALLS: Readonly<Record<string, string>> = {
  "services/http-door.js: new Promise((resolve, reject) => { server.once('error', (cau": 'a start',
  'services/selection/http-server.js: listenAt(server, { name: NAME, host, port })': 'a start',
  'services/selection/start-selection.js: listenSelection({ host, port, token, selection: new Selectio':
    'a start',
  'services/selection/start-selection.js: server.close()': 'a stop',
  'services/http-door.js: Promise.all(running)': 'a stop',
  'services/http-door.js: closed': 'a stop',
  'services/dump-answer.js: drained(response, clock)':
    'only a reader that is slower than its dump is waited for',
};

let program: WatchedProgram;
let start: (options: SelectionRouterOptions) => Promise<SelectionRouter>;
let systemClock: () => SelectionRouterOptions['clock'];
let service: SelectionRouter;
/** Calls made so far. */
let calls = 0;
/** Sockets that a server of this process holds open. */
const served = new Set<Socket>();
const onServed = (message: unknown): void => {
  const { socket } = message as { socket: Socket };
  served.add(socket);
  socket.once('close', () => served.delete(socket));
};

beforeAll(async () => {
  subscribe('net.server.socket', onServed);
  program = watchedProgram(WATCHED);
  ({ startSelectionRouter: start } = await program.import<{ startSelectionRouter: typeof start }>(
    'cli/selection-router.js',
  ));
  ({ systemClock } = await program.import<{ systemClock: typeof systemClock }>('cli/system-clock.js'));
  const { config, source } = parseConfig('request_classifier: slowly', 'router.yaml');
  service = await start({
    config,
    source,
    settings: { ...SELECTION_SERVICE_DEFAULTS, port: 0 },
    clock: systemClock(),
    log: NO_LOG,
    register: registerSlowly,
  });
  expect((await ask(service.url, 'POST', '/workers', workerRecord(1))).status).toBe(201);
  calls += 1;
});
afterEach(() => program.watch(null));
afterAll(async () => {
  await service?.stop();
  program?.remove();
  unsubscribe('net.server.socket', onServed);
});

/** A classifier that answers a moment later, so that bookings have something to wait for. */
const registerSlowly = (registry: PluginRegistry): void =>
  registry.registerRequestClassifier('slowly', () => ({
    create: () => ({ classify: () => new Promise((resolve) => setImmediate(() => resolve(undefined))) }),
  }));

interface Client {
  /** Status of the answer; null = there was none. */
  readonly over: Promise<number | null>;
  leave(): void;
}

function call(url: string, method: string, path: string, body: object | null): Client {
  const request = httpRequest(`${url}${path}`, { method, agent: false });
  const over = new Promise<number | null>((resolve) => {
    request.on('response', (response) => {
      response.resume();
      response.on('close', () => resolve(response.complete ? (response.statusCode ?? null) : null));
    });
    request.on('error', () => resolve(null));
  });
  request.end(body === null ? undefined : JSON.stringify(body));
  return { over, leave: () => request.destroy() };
}

const PROMPT = { token_ids: [1, 2, 3, 4, 5] };

/** What clients call; between them they come to every await. */
const CASES: Readonly<Record<string, readonly [string, string, object | null]>> = {
  select: ['POST', '/select', { ...PROMPT, selection_id: 'other' }],
  'select and reserve': ['POST', '/select_and_reserve', { ...PROMPT, selection_id: 'r' }],
  replay: ['POST', '/reservations', { selection_id: 'r' }],
  'reserve a worker': ['POST', '/reservations', { ...PROMPT, selection_id: 'r', worker_id: 1 }],
  metrics: ['GET', '/metrics', null],
  dump: ['GET', '/dump', null],
};

/** Waits until every call so far is over, those included whose client left: the service counts them when they are. */
async function callsOver(): Promise<void> {
  for (;;) {
    const { value } = await ask(service.url, 'GET', '/metrics');
    const counts = String(value.text).matchAll(/^pointsman_selector_requests_total\{.*\} (\d+)$/gm);
    const over = [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    if (over === calls) {
      calls += 1;
      return;
    }
    calls += 1;
  }
}

/** Runs a case with a client that leaves at `site`; null = it stays. Returns the awaits that were passed. */
async function run(name: string, site: string | null): Promise<ReadonlySet<string>> {
  const passed = new Set<string>();
  let leave = (): void => {
    throw new Error('there is no client yet');
  };
  /** Set once the client left: resolves when the service has seen it, and nothing goes on before. */
  let seen: Promise<void> | null = null;
  if (name === 'replay') {
    const selected = await ask(service.url, 'POST', '/select', { ...PROMPT, selection_id: 'r' });
    expect(selected.status).toBe(200);
    calls += 1;
  }
  program.watch({
    at(here, awaited) {
      passed.add(here);
      if (seen === null && here === site) {
        const others = served.size - 1;
        leave();
        seen = until('the service saw the client leave', () => served.size <= others);
      }
      if (seen === null) return awaited;
      // Whoever fails meanwhile is awaited later.
      Promise.resolve(awaited).catch(() => undefined);
      return seen.then(() => awaited);
    },
  });
  const [method, path, body] = CASES[name]!;
  calls += 1;
  const client = call(service.url, method, path, body);
  leave = client.leave;
  const status = await client.over;
  await seen;
  program.watch(null);
  await callsOver();
  if (site === null) {
    expect(status).toBeLessThan(300);
    if (service.reservedIds() === 1) {
      expect((await ask(service.url, 'DELETE', '/reservations/r')).status).toBe(200);
      calls += 1;
    }
  } else expect(seen, `the client left at ${site}`).not.toBeNull();
  expect(service.core.road.activeBookings(), `${name} at ${site}`).toBe(0);
  expect(service.reservedIds(), `${name} at ${site}`).toBe(0);
  expect(service.core.road.unsettled()).toBe(false);
  return passed;
}

describe('a client that leaves', () => {
  it('leaves no booking and no claim, at whichever await of the service it does', {
    timeout: 120_000,
  }, async () => {
    const cases: (readonly [string, string])[] = [];
    const reached = new Set<string>(Object.keys(OUTSIDE_CALLS));
    for (const name of Object.keys(CASES)) {
      for (const site of await run(name, null)) {
        cases.push([name, site]);
        reached.add(site);
      }
    }
    expect(
      program.sites.filter((site) => !reached.has(site)),
      'awaits that no case comes to',
    ).toEqual([]);
    for (const [name, site] of cases) await run(name, site);
  });
});
