// Answers of `/kv_cache_events`, from their text to the index.
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { type Bench, bench } from './applier.fixtures.ts';
import { encodeEventBatch } from './encode-batch.ts';
import { MAX_POLLED_EVENTS, TrtllmEvents } from './trtllm-events.ts';

const ANSWERS: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(new URL('../../tests/fixtures/trtllm-kv-events.json', import.meta.url), 'utf8'),
);

const BLOCK = 4;
const PROMPT = Array.from({ length: 12 }, (_, at) => at + 1);

/** A server's answers on their way into an index. */
class Server {
  readonly bench: Bench = bench({ blockSizeOf: () => BLOCK });
  readonly #events = new TrtllmEvents(0);
  #seconds = 1_700_000_000;

  /** @returns what was wrong. */
  answers(text: string): readonly string[] {
    this.#seconds += 1;
    const { batches, problems } = this.#events.read(text, BLOCK, this.#seconds);
    for (const { batch, sequence } of batches)
      this.bench.applier.onBatch(1, sequence, encodeEventBatch(batch));
    return problems;
  }

  replay(...names: string[]): void {
    for (const name of names) expect(this.answers(ANSWERS[name] ?? '')).toEqual([]);
  }

  says(...events: object[]): readonly string[] {
    return this.answers(JSON.stringify(events));
  }

  /** Leading blocks of the prompt that the index has. */
  get depth(): number {
    return this.bench.depth(1, PROMPT, { blockSize: BLOCK });
  }
}

const tokens = (from: number, count = BLOCK): object[] =>
  Array.from({ length: count }, (_, at) => ({ token_id: from + at, token_extra_id: 0 }));
const block = (hash: unknown, from: number, more: object = {}): object => ({
  block_hash: hash,
  tokens: tokens(from),
  ...more,
});
const stored = (id: number, parent: unknown, blocks: object[], more: object = {}): object => ({
  event_id: id,
  data: { type: 'stored', parent_hash: parent, blocks },
  ...more,
});
const created = (id: number, window: number): object => ({
  event_id: id,
  data: { type: 'created' },
  window_size: window,
});

describe('recorded answers', () => {
  it('become blocks under their own hashes of 64 bits, without partly filled ones and other windows', () => {
    const server = new Server();
    server.replay('start', 'stored');
    expect([server.depth, server.bench.index.stats().blocks]).toEqual([2, 2]);
    server.replay('empty', 'grown');
    expect(server.depth).toBe(3);
    // Of a partly filled block and of a smaller window nothing was told, so nothing is taken back.
    server.replay('removed');
    expect(server.depth).toBe(2);
    const feed = server.bench.applier.feed(1);
    expect(feed).toMatchObject({ lastSequence: 8, gaps: 0, missedBatches: 0, stale: false });
    expect(server.bench.applier.orphanBlocks(1)).toBe(0);
  });

  it('that are lost show as a gap, and the stream counts as stale', () => {
    const server = new Server();
    server.replay('start', 'stored', 'removed');
    expect(server.bench.applier.feed(1)).toMatchObject({ gaps: 1, missedBatches: 2, stale: true });
  });

  it('begin anew with a server that starts anew, whose windows are learned again', () => {
    const server = new Server();
    server.replay('start', 'stored', 'grown');
    expect(server.says(created(0, 16), stored(1, null, [block(1, 1)], { window_size: 16 }))).toEqual([]);
    expect([server.depth, server.bench.applier.feed(1)?.restarts]).toEqual([1, 1]);
  });
});

describe('a store', () => {
  it('chains its blocks behind its parent, each behind the one before it', () => {
    const server = new Server();
    server.says(stored(0, null, [block(1, 1)]), stored(1, 1, [block(2, 5), block(3, 9)]));
    expect(server.depth).toBe(3);
    server.says({ event_id: 2, data: { type: 'removed', block_hashes: [2] } });
    expect(server.depth).toBe(1);
  });

  it('takes negative hashes as signed forms, and SHA-256 by its first 16 digits', () => {
    const server = new Server();
    const digest = `00000000000000ff${'a'.repeat(48)}`;
    server.says(stored(0, null, [block(-1, 1)]));
    server.answers(
      `[${JSON.stringify(stored(1, 0, [block(digest, 5)])).replace('"parent_hash":0', '"parent_hash":18446744073709551615')}]`,
    );
    expect(server.depth).toBe(2);
    server.says({ event_id: 2, data: { type: 'removed', block_hashes: [255] } });
    expect(server.depth).toBe(1);
  });

  it.each([
    ['of an adapter', { lora_id: 3 }],
    ['with images', { mm_keys: [{ type: 'mm_key', hash: 'ab', start_offset: 0 }] }],
    ['with ids of its own', { tokens: [...tokens(5, 3), { token_id: 8, token_extra_id: 9 }] }],
  ])('%s is left out with all behind it, and so is its removal', (_, more) => {
    const server = new Server();
    const blocks = [block(1, 1), block(2, 5, more), block(3, 9)];
    expect(server.says(stored(0, null, blocks), stored(1, 3, [block(4, 13)]))).toEqual([]);
    expect([server.depth, server.bench.index.stats().blocks]).toEqual([1, 1]);
    expect(server.bench.applier.orphanBlocks(1)).toBe(0);
    expect(server.says({ event_id: 2, data: { type: 'removed', block_hashes: [2, 3, 4, 1] } })).toEqual([]);
    expect(server.depth).toBe(0);
  });

  it('of a larger window than those before takes their place', () => {
    const server = new Server();
    server.says(stored(0, null, [block(1, 1), block(2, 5)], { window_size: 8 }));
    expect(server.depth).toBe(2);
    server.says(stored(1, null, [block(1, 1)], { window_size: 4096 }));
    server.says(stored(2, 1, [block(2, 5)], { window_size: 8 }));
    expect(server.depth).toBe(1);
  });
});

it.each([
  [{ data: {} }, 'an event has no event_id that is a whole number'],
  [{ event_id: 0, data: 5 }, 'event 0: data is not an object'],
  [{ event_id: 0, data: { type: 'stored' } }, 'event 0: blocks is no list of at most 65536'],
  [stored(0, 'x', []), 'event 0: parent_hash is not a hash'],
  [stored(0, null, [block(1.5, 1)]), 'event 0: block_hash is not a hash'],
  [stored(0, null, [{ block_hash: 1 }]), 'event 0: a block has no tokens'],
  [
    stored(0, null, [{ block_hash: 1, tokens: tokens(1, 5) }]),
    "event 0: a block has 5 tokens where the model's have 4; set block_size of the model to tokens_per_block of the server",
  ],
  [
    stored(0, null, [{ block_hash: 1, tokens: [...tokens(1, 3), { token_id: 'x' }] }]),
    'event 0: a token_id is not a whole number below 2^32',
  ],
  [stored(0, null, [], { window_size: -1 }), 'event 0: window_size is not a whole number'],
  [
    { event_id: 0, data: { type: 'removed', block_hashes: ['x'] } },
    'event 0: a hash in block_hashes is none',
  ],
  [
    stored(0, null, [], { attention_dp_rank: 1 }),
    'events of attention_dp_rank 1 are left out: one url stands for rank 0 alone',
  ],
])('what is wrong with %j is said, and its number is missed', (event, problem) => {
  const server = new Server();
  expect(server.says(event)).toEqual([problem]);
  expect(server.bench.applier.feed(1)).toBeNull();
});

it('an answer that is no list of events is refused without its text', () => {
  const events = new TrtllmEvents(0);
  for (const [text, sentence] of [
    ['[secret', 'the answer of /kv_cache_events is not JSON'],
    ['{}', `the answer of /kv_cache_events is no list of at most ${MAX_POLLED_EVENTS} events`],
    [
      `[${'0,'.repeat(MAX_POLLED_EVENTS)}0]`,
      `the answer of /kv_cache_events is no list of at most ${MAX_POLLED_EVENTS} events`,
    ],
  ] as const) {
    expect(() => events.read(text, BLOCK, 1)).toThrow(sentence);
  }
});

it('reads any JSON, and any cut or changed answer, without throwing anything but its own error', () => {
  const server = new Server();
  const survives = (text: string): void => {
    try {
      server.answers(text);
    } catch (thrown) {
      if (!(thrown instanceof PointsmanError)) throw thrown;
    }
  };
  const hash = fc.oneof(
    fc.integer(),
    fc.bigInt({ min: 0n, max: 2n ** 65n }).map(String),
    fc.string(),
    fc.constant(null),
  );
  const data = fc.record(
    {
      type: fc.constantFrom('stored', 'removed', 'created', 'updated', 'other'),
      parent_hash: hash,
      lora_id: fc.jsonValue(),
      block_hashes: fc.oneof(fc.array(hash), fc.jsonValue()),
      blocks: fc.oneof(
        fc.array(
          fc.record(
            {
              block_hash: hash,
              tokens: fc.array(fc.record({ token_id: fc.integer() }), { maxLength: 6 }),
              mm_keys: fc.jsonValue(),
            },
            { requiredKeys: [] },
          ),
        ),
        fc.jsonValue(),
      ),
    },
    { requiredKeys: ['type'] },
  );
  const event = fc.record(
    {
      event_id: fc.oneof(fc.nat(50), fc.jsonValue()),
      data,
      window_size: fc.oneof(fc.nat(3), fc.jsonValue()),
    },
    { requiredKeys: [] },
  );
  fc.assert(fc.property(fc.array(event, { maxLength: 8 }), (events) => survives(JSON.stringify(events))));
  fc.assert(fc.property(fc.json(), survives));
  const text = ANSWERS.stored ?? '';
  for (let at = 0; at < text.length; at += 7) {
    survives(text.slice(0, at));
    survives(`${text.slice(0, at)}9${text.slice(at + 1)}`);
  }
  // Whatever came, what comes after it is read.
  const after = new Server();
  after.replay('start', 'stored');
  expect(after.depth).toBe(2);
});
