// A vLLM-shaped engine around the simulator core, with faults planted in what it does: nothing but its sockets shows them.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { systemClock } from '../../src/cli/system-clock.ts';
import { encodeEventBatch, type KvEvent, type KvEventBatch } from '../../src/events/index.ts';
import { createBlockHasher, type U64 } from '../../src/kv/index.ts';
import {
  bindEventPublisher,
  bindEventReplay,
  createSimulatedEngine,
  DEFAULT_ENGINE_SETTINGS,
  EngineDriver,
  type EventPublisher,
  type EventReplay,
  type SimulatedEngineSettings,
} from '../../src/simulator/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER, TINY_WORDS } from '../../src/tokens/index.ts';

/** The faults of engines and their operators. */
export const FAULTS = [
  'wrong block size',
  'random hash seed',
  'other template',
  'events off',
  'literal bind address',
  'swapped ranks',
  'hybrid groups',
  'page size 1',
  'salt ignored',
  'old replay',
  'no replay',
  'clock jump',
  'duplicate stores',
  'LoRA mismatch',
  'prefix caching off',
] as const;

/** One of {@link FAULTS}. */
export type Fault = (typeof FAULTS)[number];

/** Adapter that every engine has. */
export const ADAPTER = 'adapter-a';

const BLOCK = 16;
/** Batches after which a clock jumps, and by how much, s. */
const JUMP_AFTER = 2;
const JUMP_SECONDS = 3600;

/** Where a faulty engine is, as its operator would configure it. */
export interface FaultyEngine {
  readonly url: string;
  /** Per rank; `replay` null = none is offered. */
  readonly ranks: readonly { readonly connect: string; readonly replay: string | null }[];
  close(): void;
}

interface Rank {
  readonly driver: EngineDriver;
  readonly publisher: EventPublisher | null;
  readonly replay: EventReplay | null;
  readonly endpoint: string;
}

const hasher = createBlockHasher();
const clock = systemClock();
const tokenizer = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
let started = 0;

/** Starts an engine with faults. */
export async function faultyEngine(faults: readonly Fault[]): Promise<FaultyEngine> {
  const has = (fault: Fault): boolean => faults.includes(fault);
  started += 1;
  const settings: SimulatedEngineSettings = {
    ...DEFAULT_ENGINE_SETTINGS,
    model: 'tiny-sim',
    blockSize: has('wrong block size') ? 24 : BLOCK,
    hashSeed: has('random hash seed') ? 1000 + started : 0,
    timing: 'none',
  };
  const count = has('swapped ranks') ? 2 : 1;
  const ranks: Rank[] = [];
  for (let rank = 0; rank < count; rank += 1) ranks.push(await startRank(rank, settings, has));
  const server = createServer((request, response) => {
    answer(request, response, ranks, has).catch(() => response.destroy());
  });
  await listening(server);
  const address = server.address();
  const places = ranks.map(({ endpoint, replay }) => ({
    connect: endpoint,
    replay: replay?.endpoint ?? null,
  }));
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    // Whoever reads ranks by their ports meets the other one.
    ranks: has('swapped ranks') ? places.toReversed() : places,
    close() {
      server.closeAllConnections();
      server.close();
      for (const { driver, publisher, replay } of ranks) {
        driver.close();
        publisher?.close();
        replay?.close();
      }
    },
  };
}

async function startRank(
  rank: number,
  settings: SimulatedEngineSettings,
  has: (fault: Fault) => boolean,
): Promise<Rank> {
  const kept: { sequence: number; payload: Uint8Array }[] = [];
  const engine = createSimulatedEngine(settings, { hasher, vocabulary: TINY_WORDS });
  const silent = has('events off');
  const literal = has('literal bind address');
  const encode = (batch: KvEventBatch): Uint8Array => {
    const jump = has('clock jump') && kept.length >= JUMP_AFTER ? JUMP_SECONDS : 0;
    const payload = encodeEventBatch({ ...batch, timestamp: batch.timestamp + jump });
    kept.push({ sequence: kept.length, payload });
    return payload;
  };
  const free = `tcp://127.0.0.1:${silent || literal ? await freePort() : 0}`;
  const publisher = silent
    ? null
    : await bindEventPublisher({
        ...{
          topic: '',
          rank,
          history: 0,
          replayFrames: 4,
          faults: null,
          clock,
          encode,
          warn: () => undefined,
        },
        ...(literal ? { live: { address: free, connects: true } } : null),
      });
  const replay =
    silent || has('no replay')
      ? null
      : await bindEventReplay({
          ...{ topic: new Uint8Array(0), frames: 4, history: 10_000, address: 'tcp://127.0.0.1:*' },
          // It stopped keeping what it publishes, or another process answers here.
          since: (from) =>
            kept.filter(({ sequence }) => sequence >= from && !(has('old replay') && sequence > 0)),
          warn: () => undefined,
        });
  const publish = (events: readonly KvEvent[], at: number): void => {
    if (!has('prefix caching off')) publisher?.publish(planted(events, has), at);
  };
  const driver = new EngineDriver({ engine, clock, publish });
  return { driver, publisher, replay, endpoint: publisher?.endpoint ?? free };
}

/** What the engine says of its blocks, with its faults. */
function planted(events: readonly KvEvent[], has: (fault: Fault) => boolean): KvEvent[] {
  return events.flatMap((event): KvEvent[] => {
    if (event.kind === 'hint-outcome' || event.kind === 'cleared') return [event];
    const scope = { groupIndex: 0, attentionKind: 'full_attention', locality: null, unsupported: null };
    const other = { ...scope, groupIndex: 1, attentionKind: 'sliding_window' };
    const grouped = (one: KvEvent): KvEvent[] =>
      has('hybrid groups') && (one.kind === 'stored' || one.kind === 'removed')
        ? [
            { ...one, scope },
            { ...one, scope: other },
          ]
        : [one];
    if (event.kind === 'removed') return grouped(event);
    const { cacheSalt, loraName } = namespaceOf(event.cacheSalt);
    const named = { ...event, cacheSalt, loraName: has('LoRA mismatch') ? null : loraName };
    const pages = has('page size 1') ? singleTokens(named) : [named];
    const twice = has('duplicate stores') ? [...pages, ...pages] : pages;
    return twice.flatMap(grouped);
  });
}

/** A block as pages of one token each; the last page has the block's own hash. */
function singleTokens(event: Extract<KvEvent, { kind: 'stored' }>): KvEvent[] {
  const { blockSize, external, tokenIds } = event;
  const pages: KvEvent[] = [];
  let parent: U64 | null = event.parent;
  for (let block = 0; block < external.length / 2; block += 1) {
    const low = external[2 * block] ?? 0;
    const high = external[2 * block + 1] ?? 0;
    for (let at = 0; at < blockSize; at += 1) {
      const isLast = at === blockSize - 1;
      const hash: U64 = isLast
        ? { lo: low, hi: high }
        : { lo: (low ^ (at + 1)) >>> 0, hi: (high ^ 0x5a5a5a5a) >>> 0 };
      const token = block * blockSize + at;
      pages.push({
        ...event,
        external: Uint32Array.of(hash.lo, hash.hi),
        parent,
        tokenIds: tokenIds.slice(token, token + 1),
        blockSize: 1,
      });
      parent = hash;
    }
  }
  return pages;
}

/** The core knows one namespace; adapter and salt share it. */
function namespaceOf(namespace: string | null): { cacheSalt: string | null; loraName: string | null } {
  const [adapter = '', salt = ''] = (namespace ?? '').split('|');
  return { cacheSalt: salt === '' ? null : salt, loraName: adapter === '' ? null : adapter };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  ranks: readonly Rank[],
  has: (fault: Fault) => boolean,
): Promise<void> {
  const path = request.url ?? '/';
  const json = (status: number, value: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  if (path === '/health') {
    response.writeHead(200).end();
    return;
  }
  const isChat = path === '/v1/chat/completions';
  if (request.method !== 'POST' || !(isChat || path === '/v1/completions' || path === '/tokenize')) {
    json(404, { error: { message: 'Not Found' } });
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const body: Record<string, unknown> = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  const tokens = tokensOf(body, has('other template'));
  if (path === '/tokenize') {
    json(200, { count: tokens.length, tokens: [...tokens] });
    return;
  }
  const rank = ranks[Number(request.headers['x-data-parallel-rank'] ?? 0)] ?? ranks[0];
  if (rank === undefined) return;
  started += 1;
  const id = `r${started}`;
  const adapter = body.model === ADAPTER ? ADAPTER : '';
  const salt = typeof body.cache_salt === 'string' && !has('salt ignored') ? body.cache_salt : '';
  const apart = has('prefix caching off') ? id : '';
  const namespace = `${adapter}|${salt}${apart}`;
  let cached = 0;
  await new Promise<void>((resolve) => {
    rank.driver.submit(
      {
        ...{ id, tokens, sessionId: null, hint: null },
        outputTokens: typeof body.max_tokens === 'number' ? body.max_tokens : 1,
        cacheSalt: namespace === '|' ? null : namespace,
      },
      {
        admitted(cachedTokens) {
          cached = cachedTokens;
        },
        token: () => undefined,
        finished: () => resolve(),
      },
    );
  });
  const choice = isChat ? { message: { role: 'assistant', content: ' on' } } : { text: ' on' };
  json(200, {
    id,
    object: isChat ? 'chat.completion' : 'text_completion',
    created: 0,
    model: 'tiny-sim',
    choices: [{ index: 0, ...choice, finish_reason: 'length' }],
    usage: {
      prompt_tokens: tokens.length,
      completion_tokens: 1,
      total_tokens: tokens.length + 1,
      prompt_tokens_details: { cached_tokens: cached },
    },
  });
}

function tokensOf(body: Record<string, unknown>, otherTemplate: boolean): Uint32Array {
  if (Array.isArray(body.prompt)) return Uint32Array.from(body.prompt.map(Number));
  if (typeof body.prompt === 'string') return tokenizer.encode(body.prompt, true);
  const text = tokenizer.renderChat(body.messages, { addGenerationPrompt: true });
  return tokenizer.encode(otherTemplate ? `the other ${text}` : text, false);
}

async function listening(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

/**
 * A port that nobody listens on, and that nobody gets by asking for any: systems give those out from 32768 on. Between its choice and its use
 * lie seconds, in which the other engines here, and other tests, ask for many.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const server = createTcpServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** `router.yaml` for a model `tiny` on such engines, ids from 1; `extra` goes before. */
export function faultyFleetYaml(engines: readonly FaultyEngine[], extra = ''): string {
  const workers = engines.map(({ ranks, url }, index) => {
    const events = ranks.map(
      ({ connect, replay }, rank) =>
        `"${rank}": { connect: "${connect}"${replay === null ? '' : `, replay: "${replay}"`} }`,
    );
    return `  - { id: ${index + 1}, model: tiny, url: "${url}", dialect: sim, capabilities: none, adapters: [${ADAPTER}], ranks: { count: ${ranks.length} }, kv_events: { ${events.join(', ')} } }`;
  });
  return `${extra}
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models:
  tiny:
    served_as: tiny-sim
    block_size: ${BLOCK}
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
${workers.join('\n')}
`;
}
