import { describe, expect, it } from 'vitest';
import { checkHintPolicy, openHintPolicy, type TrialBooking, testHintPolicy } from '../../testing/index.ts';
import { counting, hashes, WrittenLineage } from '../lineage.fixtures.ts';
import { kvReleaseSession } from './policy.ts';

const worker = { workerId: 1n, rank: 0 };

/** One instance over a lineage that the test writes; prompts are given in blocks of 16. */
async function bench(parameters: unknown = {}) {
  const lineage = new WrittenLineage();
  const { book } = await openHintPolicy(kvReleaseSession, {
    parameters,
    context: { capabilities: ['kv.evict@1.0'], lineage },
  });
  return {
    lineage,
    turn(id: string, blocks: number, found: number, more: Partial<TrialBooking['session']> & object = {}) {
      const result = book({
        session: { sessionId: id, ...more },
        promptTokens: 16 * blocks,
        cache: { deviceBlocks: found },
      });
      expect([result.dropped, result.error]).toEqual([null, null]);
      return result.actions.map(({ payload }) => payload);
    },
  };
}

const final = { sessionFinal: true };
const list = (...parts: readonly bigint[][]) => BigUint64Array.from(parts.flat());

describe('the final request', () => {
  it('gives up what no other session has, and what it computes itself beyond what it found', async () => {
    const { lineage, turn } = await bench();
    lineage.set('s', worker, [...hashes(1, 3), ...hashes(10, 2)]).set('t', worker, hashes(1, 3));
    expect(turn('s', 5, 3)).toEqual([]);
    expect(turn('s', 8, 5, final)).toEqual([
      {
        block_hashes: list(hashes(10, 2)),
        execute_at: 'request_completion',
        current_request_block_start: 5,
      },
    ]);
  });

  it('may be a minimal one that has nothing to do with the conversation', async () => {
    const { lineage, turn } = await bench();
    lineage.set('s', worker, hashes(1, 4));
    turn('s', 4, 0);
    expect(turn('s', 0.0625, 0, final)).toEqual([
      { block_hashes: list(hashes(1, 4)), execute_at: 'request_completion' },
    ]);
  });

  it('names the deepest blocks where they are too many, and keeps what it is told to keep', async () => {
    const { lineage, turn } = await bench({ max_blocks: 2, own_blocks: false, tier: 'device' });
    lineage.set('s', worker, hashes(1, 4));
    expect(turn('s', 9, 4, final)).toEqual([
      { block_hashes: list(hashes(3, 2)), tier: 'device', execute_at: 'request_completion' },
    ]);
  });

  it.each<[string, TrialBooking]>([
    ['without a session', { session: null }],
    ['before the last request', { session: { sessionId: 's' } }],
    ['to an engine that does not take it', { capabilities: ['kv.retain@1.0'] }],
    ['to an engine that does not say what it takes', { capabilities: null }],
    ['of a session without blocks', { session: { sessionId: 'none', ...final }, promptTokens: 15 }],
  ])('sends nothing %s', async (_, context) => {
    const lineage = new WrittenLineage().set('s', worker, hashes(1, 4));
    const result = await testHintPolicy(kvReleaseSession, {
      context: {
        ...{ capabilities: ['kv.evict@1.0'], lineage, session: { sessionId: 's', ...final } },
        ...context,
      },
    });
    expect(result).toEqual({ actions: [], dropped: null, error: null, ran: true });
  });

  it('sends nothing where the lineage is switched off', async () => {
    const result = await testHintPolicy(kvReleaseSession, {
      context: { capabilities: ['kv.evict@1.0'], session: { sessionId: 's', ...final } },
    });
    expect(result.actions).toEqual([]);
  });
});

describe('a child that ends', () => {
  const child = { parentSessionId: 'p' };

  it('leaves what was there when it came, and the block in which the answer before it ends', async () => {
    const { lineage, turn } = await bench();
    turn('p', 6, 0);
    lineage.set('p', worker, hashes(1, 6));
    turn('c', 8, 4, child);
    // The lineage has forgotten the parent; the child’s own chain goes through what was the parent’s.
    lineage.set('c', worker, [...hashes(1, 4), ...hashes(20, 4)]);
    expect(turn('c', 9, 8, { ...child, ...final })).toEqual([
      {
        block_hashes: list(hashes(21, 3)),
        execute_at: 'request_completion',
        current_request_block_start: 8,
      },
    ]);
  });

  it('leaves what it may share with a parent whose blocks were evicted and that it computed again', async () => {
    const { lineage, turn } = await bench();
    turn('p', 6, 0);
    turn('c', 8, 0, child);
    lineage.set('c', worker, [...hashes(1, 8), ...hashes(30, 2)]);
    // It began with 8 blocks, of which any may be the parent’s.
    expect(turn('c', 12, 10, { ...child, ...final })).toEqual([
      {
        block_hashes: list(hashes(30, 2)),
        execute_at: 'request_completion',
        current_request_block_start: 10,
      },
    ]);
  });

  it('leaves what a younger sibling may share whose blocks are not known yet', async () => {
    const { lineage, turn } = await bench();
    turn('p', 3, 0);
    lineage.set('p', worker, hashes(100, 3));
    turn('a', 8, 0, child);
    lineage.set('a', worker, hashes(1, 8));
    turn('b', 5, 5, child);
    expect(turn('a', 8, 8, { ...child, ...final })).toEqual([
      { block_hashes: list(hashes(6, 3)), execute_at: 'request_completion' },
    ]);
  });

  it('leaves what it began with when nothing was heard of its parent, or the parent has more than one chain', async () => {
    const { lineage, turn } = await bench();
    lineage.set('c', worker, hashes(1, 8)).set('p', worker, hashes(100, 9));
    const kept = [{ execute_at: 'request_completion', block_hashes: list(hashes(7, 2)) }];
    turn('c', 6, 0, child);
    expect(turn('c', 8, 8, { ...child, ...final })).toEqual(kept);
    turn('p', 9, 0);
    turn('c', 6, 0, child);
    turn('p', 4, 2);
    expect(turn('c', 8, 8, { ...child, ...final })).toEqual(kept);
  });

  it('counts on the lineage where it shows the others in full, and on nobody once they ended', async () => {
    const { lineage, turn } = await bench();
    turn('p', 6, 0);
    lineage.set('p', worker, hashes(1, 6));
    turn('c', 8, 0, child);
    lineage.set('c', worker, hashes(20, 8));
    turn('d', 8, 0, child);
    lineage.set('d', worker, hashes(40, 8));
    expect(turn('c', 8, 8, { ...child, ...final })).toEqual([
      { block_hashes: list(hashes(21, 7)), execute_at: 'request_completion' },
    ]);
    lineage.forget('p');
    turn('p', 6, 0, final);
    expect(turn('d', 8, 8, { ...child, ...final })).toMatchObject([{ block_hashes: list(hashes(41, 7)) }]);
  });

  it('need not mind relatives on other workers', async () => {
    const lineage = new WrittenLineage().set('c', worker, hashes(1, 8));
    const { book } = await openHintPolicy(kvReleaseSession, {
      context: { capabilities: ['kv.evict@1.0'], lineage, promptTokens: 128 },
    });
    book({ session: { sessionId: 'p' }, worker: { workerId: 2n, rank: 0 } });
    book({ session: { sessionId: 'c', ...child } });
    const [action] = book({
      session: { sessionId: 'c', ...child, ...final },
      cache: { deviceBlocks: 8 },
    }).actions;
    expect(action?.payload.block_hashes).toEqual(list(hashes(2, 7)));
  });
});

it('keeps equal ids of two namespaces apart', async () => {
  const { lineage, turn } = await bench();
  const [ours, theirs] = [{ namespace: 'a' }, { namespace: 'b' }];
  turn('p', 6, 0, theirs);
  turn('c', 6, 0, { parentSessionId: 'p', ...ours });
  lineage.set('c', worker, hashes(1, 9));
  // A parent of that id that is another’s says nothing of what the child shares with its own.
  expect(turn('c', 9, 9, { parentSessionId: 'p', ...ours, ...final })).toEqual([
    { block_hashes: list(hashes(7, 3)), execute_at: 'request_completion' },
  ]);
  // Its own one does, which the lineage shows in full.
  turn('q', 6, 0, ours);
  lineage.set('q', worker, hashes(60, 6));
  turn('d', 6, 0, { parentSessionId: 'q', ...ours });
  lineage.set('d', worker, hashes(80, 9));
  expect(turn('d', 9, 9, { parentSessionId: 'q', ...ours, ...final })).toMatchObject([
    { block_hashes: list(hashes(81, 8)) },
  ]);
  turn('s', 9, 9, { compaction: true, ...theirs });
  lineage.set('s', worker, hashes(20, 9));
  expect(turn('s', 5, 3, ours)).toEqual([]);
  expect(turn('s', 5, 3, theirs)).toHaveLength(1);
});

describe('a compaction', () => {
  it('gives up the old branch with the next turn, less what that begins with', async () => {
    const { lineage, turn } = await bench();
    lineage.set('s', worker, hashes(1, 10));
    turn('s', 10, 0);
    expect(turn('s', 11, 10, { compaction: true })).toEqual([]);
    expect(turn('s', 5, 3)).toEqual([{ block_hashes: list(hashes(4, 7)), execute_at: 'admission' }]);
    expect(turn('s', 6, 5)).toEqual([]);
  });

  it('gives up nothing when the conversation goes on as before, elsewhere, or when it is not to', async () => {
    const { lineage, turn } = await bench();
    lineage.set('s', worker, hashes(1, 10));
    turn('s', 11, 10, { compaction: true });
    expect(turn('s', 12, 10)).toEqual([]);
    const off = await bench({ on_compaction: false });
    off.lineage.set('s', worker, hashes(1, 10));
    off.turn('s', 11, 10, { compaction: true });
    expect(off.turn('s', 5, 3)).toEqual([]);
    const { book } = await openHintPolicy(kvReleaseSession, {
      context: { capabilities: ['kv.evict@1.0'], lineage },
    });
    book({ session: { sessionId: 's', compaction: true }, worker: { workerId: 2n, rank: 0 } });
    expect(book({ session: { sessionId: 's' } }).actions).toEqual([]);
  });

  it('leaves what a sub-agent still uses', async () => {
    const { lineage, turn } = await bench();
    lineage.set('s', worker, hashes(1, 10));
    turn('s', 10, 0);
    turn('c', 8, 6, { parentSessionId: 's' });
    turn('s', 11, 10, { compaction: true });
    expect(turn('s', 5, 3)).toEqual([{ block_hashes: list(hashes(9, 2)), execute_at: 'admission' }]);
    lineage.set('c', worker, [...hashes(1, 6), ...hashes(50, 2)]);
    turn('s', 11, 10, { compaction: true });
    expect(turn('s', 5, 3)).toEqual([{ block_hashes: list(hashes(7, 4)), execute_at: 'admission' }]);
  });
});

it('remembers so many sessions, and no more', async () => {
  const { families } = await import('./families.ts').then(({ Families }) => ({ families: new Families() }));
  for (let index = 0; index < 20_000; index += 1)
    families.turn({ sessionId: `s${index}`, parentSessionId: 'p', agentHeaders: {} }, worker, 0, 1);
  expect(families.sessions).toBe(16_384);
  const member = families.turn({ sessionId: 's19999', agentHeaders: {} }, worker, 0, 1);
  expect(families.others(member)).toHaveLength(16_383);
});

it('keeps what the router expects of every hint policy', async () => {
  const capabilities = ['kv.evict@1.0'];
  const lineage = new WrittenLineage();
  for (const [index, id] of ['s0', 's1', 's2', 's3'].entries())
    for (let workerId = 100n; workerId < 108n; workerId += 1n)
      for (const rank of [0, 1]) lineage.set(id, { workerId, rank }, hashes(100 * index, 50));
  for (const context of [
    { lineage, capabilities, session: { sessionId: 's1', ...final } },
    { lineage, capabilities },
    {},
  ])
    expect(await checkHintPolicy(kvReleaseSession, { context })).toEqual([]);
});

describe('what an end without an action counts', () => {
  const elsewhere = { workerId: 2n, rank: 0 };
  const ending = { sessionId: 's', ...final };
  const minimal = { promptTokens: 1, cache: { deviceBlocks: 0 } };

  it.each<[string, TrialBooking]>([
    ['other_worker', { worker: elsewhere }],
    ['no_blocks', { session: { sessionId: 'unknown', ...final } }],
    ['needed', { session: { sessionId: 'twin', ...final } }],
    ['not_taken', { capabilities: ['kv.retain@1.0'] }],
  ])('%s', async (why, context) => {
    const lineage = new WrittenLineage();
    for (const id of ['twin', 'other']) lineage.set(id, worker, hashes(50, 2));
    lineage.set('s', worker, hashes(1, 4));
    const { counts, definition } = counting(kvReleaseSession);
    const { book } = await openHintPolicy(definition, {
      context: { capabilities: ['kv.evict@1.0'], lineage, session: ending, ...minimal },
    });
    expect(book(context).actions).toEqual([]);
    expect(counts).toEqual([['silent_ends', 1, why]]);
  });

  it('no_lineage', async () => {
    const { counts, definition } = counting(kvReleaseSession);
    const { book } = await openHintPolicy(definition, { context: { capabilities: ['kv.evict@1.0'] } });
    book({ session: ending });
    expect(counts).toEqual([['silent_ends', 1, 'no_lineage']]);
  });

  it('other_worker also after a compaction, once', async () => {
    const lineage = new WrittenLineage().set('s', worker, hashes(1, 4));
    const { counts, definition } = counting(kvReleaseSession);
    const { book } = await openHintPolicy(definition, {
      context: { capabilities: ['kv.evict@1.0'], lineage, worker },
    });
    book({ session: { sessionId: 's', compaction: true } });
    for (let turn = 0; turn < 2; turn += 1) book({ session: { sessionId: 's' }, worker: elsewhere });
    expect(counts).toEqual([['silent_ends', 1, 'other_worker']]);
  });
});
