// A client may leave at any moment. Every await of the doors is found in the compiled program, and at each of them a request is
// cut off: nothing may stay booked, nothing may stay under way. An await that no case comes to fails the test.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RunningRouter, StartRouterOptions } from '../src/cli/running-router.ts';
import { parseConfig } from '../src/config/index.ts';
import { NO_LOG } from '../src/plugin/index.ts';
import { engines, routerYaml, until, words } from './live-support.ts';
import { type WatchedProgram, watchedProgram } from './support/await-sites.ts';

/** The doors, and what they await of the tokens room. */
const WATCHED = ['gateway', 'tokens/token-source.js', 'tokens/local-source.js', 'tokens/tokenizer-pool.js'];

/** Awaits that no request waits at, and why. */
const OUTSIDE_REQUESTS: Readonly<Record<string, string>> = {
  'tokens/token-source.js: this.#ids.start()': 'a start, before the door is open',
  'tokens/token-source.js: this.#ids?.close()': 'the end of a stop, when the door is closed',
  "tokens/tokenizer-pool.js: Promise.all(threads.map((thread) => run(thread, { kind: 'che":
    'a start, before the door is open',
  "tokens/tokenizer-pool.js: Promise.allSettled([piscina.run({ kind: 'dispose' })])":
    'the end of a stop, when the door is closed, and of tokenizers in GGUF files alone',
};

let program: WatchedProgram;
let start: (options: StartRouterOptions) => Promise<RunningRouter>;
let systemClock: () => StartRouterOptions['clock'];
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
  ({ startRouter: start } = await program.import<{ startRouter: typeof start }>('cli/running-router.js'));
  ({ systemClock } = await program.import<{ systemClock: typeof systemClock }>('cli/system-clock.js'));
});
afterEach(() => program.watch(null));
afterAll(() => {
  program?.remove();
  unsubscribe('net.server.socket', onServed);
});

/** A request as a client sends it, and what can be done to it. */
interface Client {
  /** Resolves when the answer ended or the connection did. */
  readonly over: Promise<void>;
  leave(): void;
}

function post(url: string, path: string, body: object, cut = false): Client {
  const text = JSON.stringify(body);
  const request = httpRequest(`${url}${path}`, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
  });
  const over = new Promise<void>((resolve) => {
    request.on('response', (response) => response.resume());
    request.on('error', () => resolve());
    request.on('close', () => resolve());
  });
  // A body of which the end does not come yet keeps the door reading.
  if (cut) request.write(text.slice(0, -1), () => setImmediate(() => request.end(text.slice(-1))));
  else request.end(text);
  return { over, leave: () => request.destroy() };
}

/** A request under way. */
interface Running {
  readonly client: Client;
  /** Whether the client may leave when nothing else made it. */
  readonly canLeave: (on: RunningRouter) => boolean;
  /** What ends beside it. */
  readonly rest?: Promise<unknown>;
}

const isBooked = (on: RunningRouter): boolean => on.core.road.activeBookings() === 1;

/** The case in which the engines are asked for the ids of the prompt. */
const ENGINE_TELLS = 'a completion whose token ids an engine tells';

/** What clients do; between them they come to every await. The engines are slow: no answer would end by itself but that of one token. */
const CASES: Readonly<Record<string, (on: RunningRouter) => Running>> = {
  'a completion': (on) => ({
    client: post(on.url, '/v1/completions', { model: 'tiny', prompt: words(40, 1), max_tokens: 500 }, true),
    canLeave: isBooked,
  }),
  [ENGINE_TELLS]: (on) => ({
    client: post(on.url, '/v1/completions', { model: 'tiny', prompt: words(40, 4), max_tokens: 500 }),
    canLeave: isBooked,
  }),
  'a chat, streaming': (on) => ({
    client: post(on.url, '/v1/chat/completions', {
      model: 'tiny',
      stream: true,
      max_tokens: 500,
      messages: [{ role: 'user', content: words(40, 2) }],
    }),
    canLeave: isBooked,
  }),
  'a chat whose next turn is computed ahead': (on) => ({
    client: post(on.url, '/v1/chat/completions', {
      model: 'tiny',
      max_tokens: 1,
      messages: [{ role: 'user', content: 'Hello' }],
      session_id: 'agent',
      nvext: { agent_hints: { speculative_prefill: true } },
    }),
    canLeave: ({ core }) => core.decisions?.list(1, {})[0]?.door === 'speculative',
  }),
  'a chat while the router stops': (on) => {
    const client = post(on.url, '/v1/chat/completions', {
      model: 'tiny',
      max_tokens: 500,
      messages: [{ role: 'user', content: words(40, 3) }],
    });
    let stopping = false;
    const rest = until('the request is booked', () => isBooked(on)).then(() => {
      stopping = true;
      return on.stop(60_000);
    });
    return { client, canLeave: () => stopping, rest };
  },
};

/** The awaits that a run came by: those before the client left, and those that came only after. */
interface Passed {
  readonly before: ReadonlySet<string>;
  readonly after: ReadonlySet<string>;
}

/** Runs a case. The client leaves at `site`, and is seen to have left before the program goes on; at null, once it is booked. */
async function run(yaml: string, name: string, site: string | null): Promise<Passed> {
  const { config, source } = parseConfig(yaml, 'router.yaml');
  const on = await start({ config, source, clock: systemClock(), log: NO_LOG });
  const before = new Set<string>();
  const after = new Set<string>();
  let leave = (): void => {
    throw new Error('there is no client yet');
  };
  let left = false;
  try {
    program.watch({
      at(here, awaited) {
        if (left && !before.has(here)) after.add(here);
        if (left) return awaited;
        before.add(here);
        if (here !== site) return awaited;
        left = true;
        leave();
        return until('the door saw the client leave', () => served.size === 0).then(() => awaited);
      },
    });
    const { client, canLeave, rest } = CASES[name]!(on);
    leave = client.leave;
    if (site === null) {
      await until('the client may leave', () => canLeave(on));
      left = true;
      client.leave();
    }
    await client.over;
    expect(left, `the client left at ${site}`).toBe(true);
    await rest;
    await until('nothing is under way', () => on.gateway.activeRequests() === 0);
    await nothingAhead(on);
    await until('nothing is booked', () => on.core.road.activeBookings() === 0);
    expect(on.core.scheduler.loads.activeBookings).toBe(0);
    return { before, after };
  } finally {
    program.watch(null);
    await on.stop(0);
    await until('the doors are closed', () => served.size === 0);
  }
}

/** Waits until no next turn is computed ahead. */
async function nothingAhead(on: RunningRouter): Promise<void> {
  let text = await on.metrics.text();
  while (!/^pointsman_speculative_prefills_active 0$/m.test(text)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    text = await on.metrics.text();
  }
}

describe('a client that leaves', () => {
  it('leaves nothing behind, at whichever await of a door it does', { timeout: 300_000 }, async () => {
    const { engines: fleet } = await engines(2, '--speed', '0.01');
    const router = 'router: { agent_hints: all, session_body_fields: [session_id] }';
    const local = routerYaml(
      fleet.map(({ url }) => url),
      router,
    );
    const asking = local.replace(/tokens: \{.*\}/, 'tokens: { source: engine }');
    const yamlOf = (name: string): string => (name === ENGINE_TELLS ? asking : local);
    const cases = new Map<string, string>();
    const reached = new Set<string>(Object.keys(OUTSIDE_REQUESTS));
    for (const name of Object.keys(CASES)) {
      const { before, after } = await run(yamlOf(name), name, null);
      for (const site of before) if (!cases.has(site)) cases.set(site, name);
      for (const site of [...before, ...after]) reached.add(site);
    }
    expect(
      program.sites.filter((site) => !reached.has(site)),
      'awaits that no case comes to',
    ).toEqual([]);
    expect([...reached].filter((site) => !program.sites.includes(site))).toEqual([]);
    for (const [site, name] of cases) await run(yamlOf(name), name, site);
  });
});
