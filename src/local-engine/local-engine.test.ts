import { afterEach, describe, expect, it } from 'vitest';
import { engineRequestFixture } from '../../tests/gateway-fixtures.ts';
import type { EngineReport } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import { type KvHintAction, seededRng } from '../plugin/index.ts';
import { ids, names, type TestEngine, testEngine } from './engine.fixtures.ts';

const started: TestEngine[] = [];
afterEach(async () => {
  for (const engine of started.splice(0)) await engine.close();
});

async function start(over: Parameters<typeof testEngine>[0] = {}): Promise<TestEngine> {
  const engine = await testEngine(over);
  started.push(engine);
  return engine;
}

const hint = (...actions: readonly [string, KvHintAction['payload']][]) => ({
  hint: {
    protocol_version: '0.1' as const,
    message_id: 'm1',
    actions: actions.map(([name, payload], index) => {
      const [action_type = '', action_version = ''] = name.split('@');
      return { action_id: `a${index + 1}`, action_type, action_version, payload };
    }),
  },
});

const stored = (events: readonly KvEvent[]): bigint[] =>
  events.flatMap((event) => (event.kind === 'stored' ? names(event.external) : []));

describe('KV of a prompt', () => {
  it('is shared with nobody of another cache_salt, and named apart', async () => {
    const on = await start();
    const prompt = ids(100, 2);
    const cached = async (body: Readonly<Record<string, unknown>>): Promise<number | null | undefined> =>
      (await on.ask(prompt, {}, { max_tokens: 1, temperature: 0, ...body })).report?.cachedTokens;
    expect(await cached({ cache_salt: 'one' })).toBe(0);
    expect(await cached({ cache_salt: 'one' })).toBe(96);
    expect(await cached({ cache_salt: 'two' })).toBe(0);
    expect(await cached({})).toBe(0);
    const said = on.events.flatMap((event) => (event.kind === 'stored' ? [event.cacheSalt] : []));
    expect([...new Set(said)]).toEqual(['one', 'two', null]);
    expect(on.announced()).toEqual(on.resident());
  });

  it('is used again in whole blocks, and gives the same answer', async () => {
    const on = await start();
    const prompt = ids(100, 1);
    const first = await on.ask(prompt, {}, { max_tokens: 12 });
    expect(first.report).toEqual({
      ...{ promptTokens: 100, cachedTokens: 0, outputTokens: 12 },
      ...{ finishReason: 'length', source: 'usage' },
    });
    const again = await on.ask(prompt, {}, { max_tokens: 12 });
    expect(again.report?.cachedTokens).toBe(96);
    expect(JSON.parse(again.body).choices).toEqual(JSON.parse(first.body).choices);
    // 100 tokens of prompt and 11 of answer have KV: the last one that is drawn has none.
    expect(stored(on.events).length).toBe(6);
    expect(on.announced()).toEqual(on.resident());
  });

  it('of one whole number of blocks is computed from its last block on', async () => {
    const on = await start();
    await on.ask(ids(64, 2));
    expect((await on.ask(ids(64, 2))).report?.cachedTokens).toBe(48);
  });

  it('goes with the answer: the next turn rests on both', async () => {
    const on = await start();
    const prompt = ids(40, 3);
    const { body } = await on.ask(prompt, { stream: true }, { max_tokens: 30 });
    expect(body.endsWith('data: [DONE]\n\n')).toBe(true);
    const event = on.events.findLast((one) => one.kind === 'stored');
    const told = event?.kind === 'stored' ? [...event.tokenIds] : [];
    // Blocks 0 to 3 are announced with their tokens, of which the last came from the model.
    const held = on.events.flatMap((one) => (one.kind === 'stored' ? [...one.tokenIds] : []));
    expect(held.slice(0, 40)).toEqual(prompt);
    expect(told.length % 16).toBe(0);
    expect((await on.ask([...held, ...ids(9, 4)])).report?.cachedTokens).toBe(64);
  });

  it('that two conversations share is copied, so that neither loses its own', async () => {
    const on = await start({ sequences: 3, contextTokens: 1536 });
    const shared = ids(64, 5);
    const one = [...shared, ...ids(80, 6)];
    const other = [...shared, ...ids(80, 7)];
    await on.ask(one);
    expect((await on.ask(other)).report?.cachedTokens).toBe(64);
    expect((await on.ask([...one, ...ids(5, 8)])).report?.cachedTokens).toBe(144);
    expect((await on.ask([...other, ...ids(5, 9)])).report?.cachedTokens).toBe(144);
    expect(on.announced()).toEqual(on.resident());
  });

  it('that was copied is the KV of the same tokens: the answers agree', async () => {
    const copied = await start({ sequences: 2 });
    const shared = ids(80, 10);
    await copied.ask([...shared, ...ids(70, 11)]);
    const fork = await copied.ask([...shared, ...ids(30, 12)], {}, { max_tokens: 16 });
    expect(fork.report?.cachedTokens).toBe(80);
    const fresh = await start();
    const computed = await fresh.ask([...shared, ...ids(30, 12)], {}, { max_tokens: 16 });
    expect(computed.report?.cachedTokens).toBe(0);
    expect(JSON.parse(fork.body).choices).toEqual(JSON.parse(computed.body).choices);
  });

  it('gives way to others from the least recently used sequence, the last block first in one event', async () => {
    const on = await start();
    await on.ask(ids(200, 13));
    await on.ask(ids(60, 14));
    await on.ask(ids(90, 15));
    const removed = on.events.filter(({ kind }) => kind === 'removed');
    expect(removed.length).toBe(1);
    const [gone] = removed;
    const first = stored(on.events).slice(0, 12);
    expect(gone?.kind === 'removed' ? names(gone.external) : []).toEqual(first.reverse());
    expect((await on.ask(ids(60, 14))).report?.cachedTokens).toBe(48);
    expect((await on.ask(ids(200, 13))).report?.cachedTokens).toBe(0);
    expect(on.announced()).toEqual(on.resident());
  });
});

describe('requests at the same time', () => {
  it('run in sequences of their own, and one more waits', async () => {
    const on = await start({ sequences: 4, contextTokens: 2048 });
    const all = await Promise.all(
      Array.from({ length: 9 }, (_, index) => on.ask(ids(70, 20 + index), {}, { max_tokens: 20 })),
    );
    expect(all.map(({ report }) => report?.outputTokens)).toEqual(Array(9).fill(20));
    expect(all.map(({ tokens }) => tokens)).toEqual(Array(9).fill(20));
    // What they said beside each other is what they say alone.
    const alone = await (await start()).ask(ids(70, 25), {}, { max_tokens: 20 });
    expect(JSON.parse(all[5]?.body ?? '').choices).toEqual(JSON.parse(alone.body).choices);
    expect(on.announced()).toEqual(on.resident());
    expect(on.engine.load()).toEqual({ running: 0, waiting: 0, kvUsage: 0 });
  });

  it('are refused beyond what may wait', async () => {
    const on = await start({ sequences: 1, contextTokens: 512, maxWaiting: 1 });
    const all = await Promise.all([on.ask(ids(30, 1)), on.ask(ids(30, 2)), on.ask(ids(30, 3))]);
    expect(all.map(({ error }) => error?.message ?? null)).toEqual([
      null,
      null,
      'the engine in this process has 1 requests waiting (max_waiting)',
    ]);
    expect(all[2]?.error?.details).toEqual({ engine_status: 503, retry_after: '1' });
  });

  it('keep what is announced what they hold, in any order, with any ends', async () => {
    const on = await start({ sequences: 3, contextTokens: 768, maxWaiting: 64 });
    const rng = seededRng(99);
    const stems = [ids(60, 1), ids(90, 2), ids(33, 3)];
    const waves: Promise<unknown>[] = [];
    for (let at = 0; at < 60; at += 1) {
      const prompt = [
        ...(stems[rng.integer(3)] ?? []).slice(0, 10 + rng.integer(80)),
        ...ids(1 + rng.integer(40), at),
      ];
      const exchange = on.engine.dispatch(
        engineRequestFixture({
          tokens: Uint32Array.from(prompt),
          body: { temperature: 0, max_tokens: 1 + rng.integer(12) },
          stream: rng.integer(2) === 0,
        }),
        { head() {}, data() {}, tokens() {}, finished() {}, failed() {} },
      );
      if (rng.integer(4) === 0)
        waves.push(Promise.resolve().then(() => setImmediate(() => exchange.abort())));
      if (rng.integer(5) === 0) await new Promise((resolve) => setTimeout(resolve, rng.integer(4)));
    }
    // A request behind all others: when it is through, they are.
    await Promise.all([...waves, on.ask(ids(20, 777))]);
    await on.ask(ids(20, 778));
    while (on.engine.load().running !== 0) await new Promise((resolve) => setImmediate(resolve));
    expect(on.announced()).toEqual(on.resident());
  });
});

describe('an aborted request', () => {
  it('is silent at once, and its sequence serves the next', async () => {
    const on = await start({ sequences: 1, contextTokens: 2048 });
    let heard = 0;
    let report: EngineReport | null = null;
    const exchange = on.engine.dispatch(
      engineRequestFixture({
        tokens: Uint32Array.from(ids(50, 1)),
        stream: true,
        body: { max_tokens: 1900, ignore_eos: true },
      }),
      {
        head() {},
        data() {},
        tokens() {
          heard += 1;
          if (heard === 5) exchange.abort();
        },
        finished(told) {
          report = told;
        },
        failed() {},
      },
    );
    const next = await on.ask(ids(50, 1));
    expect([heard, report]).toEqual([5, null]);
    expect(next.report?.cachedTokens).toBe(48);
    expect(on.announced()).toEqual(on.resident());
  });

  it('stops amid its prompt, of which whole blocks stay', async () => {
    const on = await start({ sequences: 1, contextTokens: 4096 });
    const prompt = ids(3000, 1);
    let began = false;
    const exchange = on.engine.dispatch(engineRequestFixture({ tokens: Uint32Array.from(prompt) }), {
      head() {
        began = true;
      },
      data() {},
      tokens() {},
      finished() {},
      failed() {},
    });
    while (!on.events.some(({ kind }) => kind === 'stored'))
      await new Promise((resolve) => setImmediate(resolve));
    exchange.abort();
    const { report } = await on.ask(prompt);
    expect(began).toBe(true);
    expect(report?.cachedTokens).toBeGreaterThanOrEqual(64);
    expect(report?.cachedTokens).toBeLessThan(2990);
    expect((report?.cachedTokens ?? 0) % 16).toBe(0);
  });

  it('waits for a client that takes nothing, and ends when that is gone', async () => {
    const on = await start({ sequences: 1 });
    let heard = 0;
    const exchange = on.engine.dispatch(
      engineRequestFixture({
        tokens: Uint32Array.from(ids(20, 1)),
        stream: true,
        body: { max_tokens: 40, ignore_eos: true },
      }),
      {
        head() {},
        data() {},
        tokens() {
          heard += 1;
          if (heard === 3) exchange.pause();
        },
        finished() {},
        failed() {},
      },
    );
    while (heard < 3) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(heard).toBe(3);
    exchange.abort();
    expect((await on.ask(ids(20, 1))).report?.cachedTokens).toBe(16);
  });
});

describe('hints', () => {
  it('retain blocks: others give way first', async () => {
    const on = await start();
    await on.ask(ids(100, 1));
    const blockHashes = BigUint64Array.from(stored(on.events));
    const retain = hint(['kv.retain@1.0', { block_hashes: blockHashes, priority: 50, ttl_ms: 60_000 }]);
    expect((await on.ask(ids(40, 2), retain)).outcomes).toEqual([
      {
        actionId: 'a1',
        outcome: 'accepted',
        reason: null,
        blocksAsked: 6,
        blocksDone: 6,
        bytes: null,
        ms: null,
      },
    ]);
    await on.ask(ids(40, 3));
    await on.ask(ids(40, 4));
    expect((await on.ask(ids(100, 1))).report?.cachedTokens).toBe(96);
  });

  it('retain what they can, and say what they lost', async () => {
    const on = await start({ sequences: 1, contextTokens: 512 });
    await on.ask(ids(300, 1));
    const blockHashes = BigUint64Array.from(stored(on.events));
    const retain = hint(['kv.retain@1.0', { block_hashes: blockHashes, priority: 50, ttl_ms: 60_000 }]);
    const { outcomes } = await on.ask([...ids(300, 1), ...ids(5, 2)], retain);
    expect(outcomes).toMatchObject([{ outcome: 'clipped', blocksAsked: 18, blocksDone: 16 }]);
    await on.ask(ids(40, 3));
    await on.ask(ids(40, 4));
    expect(on.events.filter(({ kind }) => kind === 'hint-outcome')).toMatchObject([
      { messageId: 'm1', actionId: 'a1', outcome: 'clipped', reason: 'evicted' },
    ]);
  });

  it('evict blocks from the end of sequences, and nothing in between', async () => {
    const on = await start();
    await on.ask(ids(100, 1));
    const all = stored(on.events);
    const evict = (from: number, to: number) =>
      hint(['kv.evict@1.0', { block_hashes: BigUint64Array.from(all.slice(from, to)) }]);
    expect((await on.ask(ids(20, 2), evict(1, 3))).outcomes).toMatchObject([
      { outcome: 'rejected', reason: 'in_use', blocksAsked: 2, blocksDone: 0 },
    ]);
    expect((await on.ask(ids(20, 2), evict(3, 6))).outcomes).toMatchObject([
      { outcome: 'accepted', blocksAsked: 3, blocksDone: 3 },
    ]);
    expect((await on.ask(ids(20, 2), evict(3, 6))).outcomes).toMatchObject([{ outcome: 'missing' }]);
    expect(on.announced()).toEqual(on.resident());
    expect((await on.ask(ids(100, 1))).report?.cachedTokens).toBe(48);
  });

  it('evict at the end of their request, its own blocks too', async () => {
    const on = await start();
    const payload = { block_hashes: [], execute_at: 'request_completion', current_request_block_start: 2 };
    const { outcomes } = await on.ask(ids(100, 1), hint(['kv.evict@1.0', payload]));
    expect(outcomes).toMatchObject([{ outcome: 'deferred' }]);
    expect(on.events.filter(({ kind }) => kind === 'hint-outcome')).toMatchObject([
      { outcome: 'accepted', blocks: 4 },
    ]);
    expect((await on.ask(ids(100, 1))).report?.cachedTokens).toBe(32);
  });

  it('that it does not know are refused, and the request is served', async () => {
    const on = await start();
    const { outcomes, report } = await on.ask(
      ids(20, 1),
      hint(
        ['kv.fetch@1.0', { source_control_endpoint: 'tcp://x:1', block_hashes: [] }],
        ['kv.other@3.0', {}],
      ),
    );
    expect(outcomes.map(({ outcome, reason }) => [outcome, reason])).toEqual([
      ['rejected', 'unsupported'],
      ['rejected', 'unsupported'],
    ]);
    expect(report?.outputTokens).toBe(4);
  });
});

describe('a request that cannot be served', () => {
  it('is refused in words', async () => {
    const on = await start();
    const refusal = async (...args: Parameters<TestEngine['ask']>): Promise<string | undefined> =>
      (await on.ask(...args)).error?.message;
    expect(await refusal(ids(512, 1))).toBe(
      'the prompt has 512 tokens, but a sequence of this engine holds 512, with at least one of answer',
    );
    expect(await refusal([5, 9_999])).toBe("token id 9999 is not in the model's vocabulary");
    expect(await refusal([5], { tokens: null })).toBe(
      'the prompt has no exact token ids: this engine takes text only, and no images',
    );
    expect(await refusal([5], {}, { logprobs: 3 })).toBe('logprobs is not supported by this engine');
    expect(await refusal([5], {}, { temperature: 9 })).toBe('temperature must be a number from 0 to 2');
    expect((await on.ask(ids(511, 1))).report?.outputTokens).toBe(1);
  });
});
