// The built program in processes of its own, and what a test needs between and beside them: a relay that keeps raw request
// bodies, a KV event link that can be cut, questions to admin API and /metrics.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Publisher, Subscriber } from 'zeromq';
import { type SpawnedSimulators, spawnSimulators } from '../../src/cli/spawn-simulators.ts';
import { decodeEventBatch, encodeEventBatch, type KvEvent } from '../../src/events/index.ts';
import type { DecisionRecord } from '../../src/observe/index.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const TOO_LONG_MS = 20_000;

const closers: (() => Promise<unknown> | unknown)[] = [];

/** Ends everything started here, the newest first. */
export async function stopAll(): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

/** A folder with these files and nothing else, outside of the repository, so that nothing above it resolves a package. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'pointsman-plugins-'));
  closers.push(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** What `pointsman check --json` says of `router.yaml` among the files. */
export async function check(
  files: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const args = [MAIN, 'check', join(folderOf(files), 'router.yaml'), '--json'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const text = async (stream: AsyncIterable<Buffer>): Promise<string> => {
    const parts: Buffer[] = [];
    for await (const part of stream) parts.push(part);
    return Buffer.concat(parts).toString();
  };
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code: code as number | null, out, err };
}

/** One `pointsman sim` process, many times faster than life, that waits long for a source's answer unless told otherwise. */
export async function simulators(count: number, ...args: string[]): Promise<SpawnedSimulators> {
  const patient = ['--speed', '1000', '--fetch-reserve-timeout-ms', '5000'];
  const spawned = await spawnSimulators({ count, args: [...patient, ...args], logs: 'ignore' });
  closers.push(() => spawned.stop());
  return spawned;
}

/** A worker as `router.yaml` lists it. */
export interface YamlWorker {
  readonly url: string;
  /** Absent = where the engine says. */
  readonly kvEvents?: string;
  /** Its advertisement; absent = what the engine says. */
  readonly capabilities?: unknown;
}

/** `router.yaml` for model `tiny` on these workers, ids from 1; callers on loopback are trusted. */
export function routerYaml(workers: readonly YamlWorker[], policies: string): string {
  const list = workers.map(({ url, kvEvents, capabilities }, index) => {
    const events = kvEvents === undefined ? '' : `, kv_events: { "0": { connect: "${kvEvents}" } }`;
    const said = capabilities === undefined ? '' : `, capabilities: ${JSON.stringify(capabilities)}`;
    return `  - { id: ${index + 1}, model: tiny, url: "${url}", dialect: sim${events}${said} }`;
  });
  return `models: { tiny: { served_as: tiny-sim, block_size: 16, tokens: { source: estimate } } }
router: { trust_routing_fields_from: [127.0.0.0/8], trust_incoming_hints_from: [127.0.0.0/8] }
workers:
${list.join('\n')}
${policies}
`;
}

/** A running `pointsman serve`. */
export interface Serving {
  readonly url: string;
  readonly admin: string;
  readonly log: () => string;
  readonly pid: number;
  /** Writes a file beside `router.yaml`, as editors do: another file is renamed over it. */
  write(name: string, text: string): void;
  /** Deletes one. */
  remove(name: string): void;
  /** Signal that ended the process, once it has ended; null = it ended by itself. */
  readonly ended: Promise<string | null>;
}

/** Serves `router.yaml` among the files with the built program. */
export async function serve(files: Readonly<Record<string, string>>): Promise<Serving> {
  const folder = folderOf(files);
  const args = [
    'serve',
    '--config',
    join(folder, 'router.yaml'),
    '--port',
    '0',
    '--admin-port',
    '0',
    '--json',
  ];
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'], cwd: folder });
  const ended = once(child, 'close');
  closers.push(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let log = '';
  child.stderr.on('data', (part: Buffer) => {
    log += part.toString();
  });
  const first = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
  if (typeof first[0] !== 'string') throw new Error(`serve ended: ${log}`);
  const { url, admin } = JSON.parse(first[0]) as { url: string; admin: string };
  return {
    url,
    admin,
    log: () => log,
    pid: child.pid ?? 0,
    write(name, text) {
      writeFileSync(join(folder, `${name}.new`), text);
      renameSync(join(folder, `${name}.new`), join(folder, name));
    },
    remove: (name) => rmSync(join(folder, name)),
    ended: ended.then(([, signal]) => signal as string | null),
  };
}

/** A completion's answer, as far as tests look at it. */
export interface Completion {
  readonly requestId: string;
  readonly worker: string | null;
  readonly cachedTokens: number;
  readonly outcomes: string | null;
}

/** Sends a completion of token ids and reads its answer; `more` is JSON text of further members, for integers beyond doubles. */
export async function complete(
  url: string,
  prompt: readonly number[],
  headers: Readonly<Record<string, string>> = {},
  more = '',
): Promise<Completion> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: `{"prompt":[${prompt.join()}],"max_tokens":2${more}}`,
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  const { usage } = JSON.parse(text) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
  return {
    requestId: response.headers.get('x-request-id') ?? '',
    worker: response.headers.get('x-pointsman-worker'),
    cachedTokens: usage.prompt_tokens_details.cached_tokens,
    outcomes: response.headers.get('x-kv-hint-outcomes'),
  };
}

/** As {@link complete} through a router, on the worker of that id. */
export function completeOn({ url }: Serving, worker: number, prompt: readonly number[], more = '') {
  return complete(url, prompt, { 'x-dynamo-worker-instance-id': String(worker) }, `,"model":"tiny"${more}`);
}

/** The finished decision of a request; its u64 values are not exact here. */
export async function decisionOf({ admin }: Serving, requestId: string): Promise<DecisionRecord> {
  return eventually(`request ${requestId} is recorded`, async () => {
    const answer = await fetch(`${admin}/decisions?request=${requestId}`);
    const [record] = JSON.parse(await answer.text()) as DecisionRecord[];
    return record?.outcome ? record : undefined;
  });
}

/** Value of a line of a Prometheus text; 0 while the line is not there. */
export async function metric(url: string, line: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `));
  return found === undefined ? 0 : Number(found.slice(line.length + 1));
}

/** Waits until a metric has reached a value. */
export async function metricReaches(url: string, line: string, least: number): Promise<void> {
  await eventually(`${line} reaches ${least}`, async () =>
    (await metric(url, line)) >= least ? true : undefined,
  );
}

/** Asks until there is an answer, for what other processes bring about in their own time. */
export async function eventually<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = performance.now() + TOO_LONG_MS;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A relay in front of an engine. */
export interface RecordingRelay {
  readonly url: string;
  /** Raw bodies of completion requests, as they came in. */
  readonly bodies: readonly string[];
}

/** Relays every request to the engine behind it and keeps the bytes of completion bodies. */
export async function recordingRelay(target: string): Promise<RecordingRelay> {
  const bodies: string[] = [];
  const server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.on('end', () => {
      const body = Buffer.concat(parts);
      if (incoming.url === '/v1/completions' || incoming.url === '/v1/chat/completions')
        bodies.push(body.toString('utf8'));
      const { method = 'GET', url = '/', headers } = incoming;
      const onward = httpRequest(`${target}${url}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy());
      onward.end(body);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null) throw new Error('the relay has no port');
  return { url: `http://127.0.0.1:${bound.port}`, bodies };
}

/** A KV event link between an engine and the router. */
export interface EventLink {
  /** Where the router subscribes. */
  readonly endpoint: string;
  /** Hashes of all stored blocks that came by since it stands, in order. */
  readonly stored: readonly bigint[];
  /** From here on nothing gets through. */
  cut(): void;
  /** Sends events of the test's own, as the engine's next batch. */
  publish(events: readonly KvEvent[]): Promise<void>;
}

/**
 * Passes an engine's KV events on until it is cut. An engine learns of a subscription some time after the connection stands and drops
 * events until then: so the link stands once events of prompts made for that have come through.
 */
export async function eventLink(engine: {
  readonly url: string;
  readonly kv_events: string;
}): Promise<EventLink> {
  const subscriber = new Subscriber({ linger: 0 });
  const publisher = new Publisher({ linger: 0 });
  await publisher.bind('tcp://127.0.0.1:*');
  const stored: bigint[] = [];
  let blocksOfLast = 0;
  let cut = false;
  let next = 0n;
  subscriber.subscribe('');
  subscriber.connect(engine.kv_events);
  const pump = (async () => {
    for await (const frames of subscriber) {
      if (cut) continue;
      const [, sequence, payload] = frames;
      next = (sequence?.readBigUInt64BE() ?? 0n) + 1n;
      const hashes = storedHashes(payload ?? Buffer.alloc(0));
      stored.push(...hashes);
      if (hashes.length > 0) blocksOfLast = hashes.length;
      await publisher.send(frames);
    }
  })();
  closers.push(async () => {
    subscriber.close();
    await pump;
    publisher.close();
  });
  // An engine announces a block once, so another prompt of one block each time.
  let seed = 1000;
  await eventually('events of the engine come through', async () => {
    await complete(engine.url, promptOf(seed, 17));
    seed += 1;
    return stored.length > 0 ? true : undefined;
  });
  // A batch of another size, behind all that are still on their way.
  await complete(engine.url, promptOf(seed, 49));
  await eventually('the last of them has come by', async () => (blocksOfLast === 3 ? true : undefined));
  stored.length = 0;
  return {
    endpoint: publisher.lastEndpoint ?? '',
    stored,
    cut() {
      cut = true;
    },
    async publish(events) {
      const sequence = Buffer.alloc(8);
      sequence.writeBigUInt64BE(next);
      next += 1n;
      await publisher.send(['', sequence, encodeEventBatch({ timestamp: 0, events, rank: 0 })]);
    },
  };
}

function storedHashes(payload: Uint8Array): bigint[] {
  const hashes: bigint[] = [];
  for (const event of decodeEventBatch(payload).events) {
    if (event.kind !== 'stored') continue;
    const { external } = event;
    for (let at = 0; at < external.length; at += 2) {
      hashes.push((BigInt(external[at + 1] ?? 0) << 32n) | BigInt(external[at] ?? 0));
    }
  }
  return hashes;
}

/** Token ids of a prompt, another one for every seed. */
export function promptOf(seed: number, tokens: number): number[] {
  return Array.from({ length: tokens }, (_, at) => 1 + ((seed * 7919 + at * 31 + (at >> 4)) % 4000));
}
