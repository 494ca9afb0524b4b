import { describe, expect, it } from 'vitest';
import { checkHintPolicy, openHintPolicy, type TrialBooking, testHintPolicy } from '../../testing/index.ts';
import { counting, hashes, WrittenLineage } from '../lineage.fixtures.ts';
import { kvRetainSession } from './policy.ts';

const worker = { workerId: 1n, rank: 0 };
const session = { sessionId: 's' };
const BIG = 2n ** 64n - 1n;
const lineage = new WrittenLineage().set('s', worker, [1n, 2n, 3n, 4n], [1n, 2n, 5n, BIG]);

const booked = async (context: TrialBooking, parameters?: unknown) => {
  const result = await testHintPolicy(kvRetainSession, {
    parameters,
    context: { capabilities: ['kv.retain@1.0'], session, lineage, ...context },
  });
  expect([result.dropped, result.error]).toEqual([null, null]);
  return result.actions.map(({ action_type, action_version, payload }) => ({
    name: `${action_type}@${action_version}`,
    payload,
  }));
};

describe('by block hashes', () => {
  it('names every block of the session on the worker once, roots first, exact to 64 bits', async () => {
    expect(await booked({})).toEqual([
      {
        name: 'kv.retain@1.0',
        payload: {
          block_hashes: BigUint64Array.of(1n, 2n, 3n, 4n, 5n, BIG),
          priority: 50,
          ttl_ms: 30_000,
        },
      },
    ]);
  });

  it.each([
    [6, [1n, 2n, 3n, 4n, 5n, BIG]],
    [5, [1n, 2n, 3n, 5n, 4n]],
    [4, [1n, 2n, 3n, 5n]],
    [3, [1n, 2n, 3n]],
    [1, [1n]],
  ])('cuts the end of each chain at max_blocks %i', async (max_blocks, expected) => {
    const [action] = await booked({}, { max_blocks });
    expect(action?.payload.block_hashes).toEqual(BigUint64Array.from(expected));
  });

  it('lets the priority fall along a chain, never rise', async () => {
    const long = new WrittenLineage().set('s', worker, hashes(1, 10));
    const actions = await booked({ lineage: long }, { priority: 90, last_priority: 30 });
    expect(actions.map(({ payload }) => [payload.priority, payload.block_hashes])).toEqual([
      [90, BigUint64Array.from(hashes(1, 3))],
      [70, BigUint64Array.from(hashes(4, 3))],
      [50, BigUint64Array.from(hashes(7, 3))],
      [30, BigUint64Array.from(hashes(10, 1))],
    ]);
    const rising = await booked({ lineage: long }, { priority: 20, last_priority: 30 });
    expect(rising.map(({ payload }) => payload.priority)).toEqual([20]);
  });

  it.each<[string, TrialBooking]>([
    ['without a session', { session: null }],
    ['with the final request', { session: { ...session, sessionFinal: true } }],
    ['with a request that compacts', { session: { ...session, compaction: true } }],
    ['where nothing is known of the session', { session: { sessionId: 'other' } }],
    ['on a worker where it has nothing', { worker: { workerId: 2n, rank: 0 } }],
    ['to an engine that does not take it', { capabilities: ['kv.fetch@1.0'] }],
    ['to an engine that does not say what it takes', { capabilities: null }],
  ])('sends nothing %s', async (_, context) => {
    expect(await booked(context)).toEqual([]);
  });

  it('sends nothing where the lineage is switched off', async () => {
    const off = await testHintPolicy(kvRetainSession, {
      context: { capabilities: ['kv.retain@1.0'], session },
    });
    expect(off).toEqual({ actions: [], dropped: null, error: null, ran: true });
  });
});

describe('by token ranges', () => {
  const both = { capabilities: ['kv.retain@1.0', 'kv.retain@1.1'] };

  it('names the request itself where the engine takes that', async () => {
    expect(await booked({ ...both, promptTokens: 100 })).toEqual([
      {
        name: 'kv.retain@1.1',
        payload: {
          scope: 's',
          directives: [{ start: 0, end: 8192 * 16, priority: 50, duration: 30 }],
        },
      },
    ]);
  });

  it('needs no lineage, and cuts at max_blocks', async () => {
    const { actions } = await testHintPolicy(kvRetainSession, {
      parameters: { max_blocks: 6, priority: 80, last_priority: 20, ttl: { type: 'fixed', ms: 1500 } },
      context: { ...both, session, promptTokens: 100 },
    });
    expect(actions.map(({ payload }) => payload.directives)).toEqual([
      [
        { start: 0, end: 32, priority: 80, duration: 1.5 },
        { start: 32, end: 64, priority: 60, duration: 1.5 },
        { start: 64, end: 96, priority: 40, duration: 1.5 },
      ],
    ]);
  });

  it('is chosen by form', async () => {
    const [blocks] = await booked(both, { form: 'block_hashes' });
    expect(blocks?.name).toBe('kv.retain@1.0');
    expect(await booked({}, { form: 'token_range' })).toEqual([]);
  });
});

describe('the time', () => {
  const ttl = async (context: TrialBooking, parameters: unknown) =>
    (await booked(context, { ttl: parameters })).map(({ payload }) => payload.ttl_ms);
  const header = (value: string, name = 'x-dynamo-retention-ttl-ms') => ({
    session: { ...session, agentHeaders: { [name]: [value] } },
  });

  it.each([
    ['5000', [5000]],
    [' 5000 ', [5000]],
    ['86400001', [86_400_000]],
    ['0', []],
    ['-1', []],
    ['1e3', []],
    ['', []],
  ])('is what the header %j says', async (value, expected) => {
    expect(await ttl(header(value), { type: 'header' })).toEqual(expected);
  });

  it('is no longer than max_ms, whatever a header says', async () => {
    expect(await ttl(header('5000'), { type: 'header', max_ms: 4000 })).toEqual([4000]);
    expect(await ttl(header('3000'), { type: 'header', max_ms: 4000 })).toEqual([3000]);
  });

  it('has no default where a header decides, and the header may be another', async () => {
    expect(await ttl({}, { type: 'header' })).toEqual([]);
    expect(
      await ttl(header('70', 'x-claude-code-ttl'), { type: 'header', name: 'x-claude-code-ttl' }),
    ).toEqual([70]);
  });

  it('is learned from the gaps between turns of the same kind', async () => {
    const { book, clock } = await openHintPolicy(kvRetainSession, {
      parameters: { ttl: { type: 'learned', least_turns: 8, quantile: 0.9, initial_ms: 7000 } },
      context: { capabilities: ['kv.retain@1.0'], lineage },
    });
    const turn = (inputTrigger: string, parentSessionId?: string) =>
      book({ session: { ...session, inputTrigger, ...(parentSessionId && { parentSessionId }) } }).actions[0]
        ?.payload.ttl_ms;
    let now = 0;
    // A tool takes 2 s, a user 60 s.
    for (let round = 0; round < 10; round += 1) {
      const tool = turn('tool_result');
      now += 2000;
      clock.advanceTo(now);
      const user = turn('user_message');
      now += 60_000;
      clock.advanceTo(now);
      expect([tool, user]).toEqual(round < 8 ? [7000, 7000] : [2000, 60_000]);
      // Of children nothing was learned.
      if (round === 9) expect(turn('tool_result', 'p')).toBe(7000);
    }
  });

  it('is nothing before enough was learned when there is no initial one', async () => {
    expect(await ttl({}, { type: 'learned', initial_ms: 0 })).toEqual([]);
  });
});

describe('max_blocks_per_worker', () => {
  it('bounds what sessions retain together, until their time is over or they end', async () => {
    const written = new WrittenLineage();
    for (const id of ['a', 'b', 'c']) written.set(id, worker, hashes(100, 6));
    const { book, clock } = await openHintPolicy(kvRetainSession, {
      parameters: { max_blocks_per_worker: 10, ttl: { type: 'fixed', ms: 1000 } },
      context: { capabilities: ['kv.retain@1.0'], lineage: written },
    });
    const retained = (sessionId: string, more: object = {}) => {
      const hashesOf = book({ session: { sessionId, ...more } }).actions[0]?.payload.block_hashes;
      return hashesOf instanceof BigUint64Array ? hashesOf.length : 0;
    };
    expect(['a', 'b', 'c'].map((id) => retained(id))).toEqual([6, 4, 0]);
    // A later turn takes the place of the earlier one.
    expect(retained('a')).toBe(6);
    retained('a', { sessionFinal: true });
    expect([retained('c'), retained('b')]).toEqual([6, 4]);
    clock.advanceTo(1000);
    expect(retained('a')).toBe(6);
  });
});

it('keeps equal ids of two namespaces apart', async () => {
  const { book, clock } = await openHintPolicy(kvRetainSession, {
    parameters: { ttl: { type: 'learned', least_turns: 2, initial_ms: 7000 }, max_blocks_per_worker: 10 },
    context: { capabilities: ['kv.retain@1.0'], lineage },
  });
  const turn = (namespace: string) => {
    const payload = book({ session: { ...session, namespace } }).actions[0]?.payload;
    const { block_hashes, ttl_ms } = payload ?? {};
    return [block_hashes instanceof BigUint64Array ? block_hashes.length : 0, ttl_ms];
  };
  expect(turn('a')).toEqual([6, 7000]);
  // What is left for another session, not what the same one would be given in place of its own.
  expect(turn('b')).toEqual([4, 7000]);
  // Nobody has had a second turn.
  clock.advanceTo(10_000);
  expect([turn('c'), turn('d')]).toEqual([
    [6, 7000],
    [4, 7000],
  ]);
});

it('keeps what the router expects of every hint policy', async () => {
  const capabilities = ['kv.retain@1.0', 'kv.retain@1.1'];
  for (const context of [{ lineage, capabilities }, { capabilities }, {}])
    expect(await checkHintPolicy(kvRetainSession, { context })).toEqual([]);
});

describe('what a turn without an action counts', () => {
  it.each<[string, TrialBooking, unknown]>([
    ['final', { session: { ...session, sessionFinal: true } }, {}],
    ['compaction', { session: { ...session, compaction: true } }, {}],
    ['not_taken', { capabilities: ['kv.fetch@1.0'] }, {}],
    ['no_blocks', { worker: { workerId: 2n, rank: 0 } }, {}],
    ['no_ttl_header', {}, { ttl: { type: 'header' } }],
    [
      'bad_ttl_header',
      { session: { ...session, agentHeaders: { 'x-dynamo-retention-ttl-ms': ['5s'] } } },
      { ttl: { type: 'header' } },
    ],
    [
      'ttl_zero',
      { session: { ...session, agentHeaders: { 'x-dynamo-retention-ttl-ms': ['0'] } } },
      { ttl: { type: 'header' } },
    ],
    ['nothing_learned', {}, { ttl: { type: 'learned', initial_ms: 0 } }],
  ])('%s', async (why, context, parameters) => {
    const { counts, definition } = counting(kvRetainSession);
    const { book } = await openHintPolicy(definition, {
      parameters,
      context: { capabilities: ['kv.retain@1.0'], session, lineage },
    });
    expect(book(context).actions).toEqual([]);
    expect(counts).toEqual([['silent_turns', 1, why]]);
    book({ session: null });
    expect(counts).toHaveLength(1);
  });

  it('no_lineage', async () => {
    const { counts, definition } = counting(kvRetainSession);
    const { book } = await openHintPolicy(definition, { context: { capabilities: ['kv.retain@1.0'] } });
    book({ session });
    expect(counts).toEqual([['silent_turns', 1, 'no_lineage']]);
  });

  it('no_room', async () => {
    const { counts, definition } = counting(kvRetainSession);
    const { book } = await openHintPolicy(definition, {
      parameters: { max_blocks_per_worker: 6 },
      context: { capabilities: ['kv.retain@1.1'], promptTokens: 96 },
    });
    book({ session });
    book({ session: { sessionId: 'other' } });
    expect(counts).toEqual([
      ['retained_turns', 1, 'token_range'],
      ['silent_turns', 1, 'no_room'],
    ]);
  });
});

it.each([
  [{ ttl: '30s' }, /parameters\.ttl: must be a mapping with a type: \{ type: fixed, ms: 30000 \}/],
  [{ ttl: 30_000 }, /parameters\.ttl: must be a mapping with a type/],
  [{ ttl: { type: 'fix' } }, /parameters\.ttl\.type: must be fixed, header or learned/],
  [{ ttl: { ms: 5 } }, /parameters\.ttl\.type: must be fixed, header or learned/],
  [{ priority: 0 }, /parameters\.priority/],
  [{ ttl: { type: 'fixed', ms: 0 } }, /parameters\.ttl\.ms/],
  [{ ttl: { type: 'header', name: 'No Header' } }, /parameters\.ttl\.name/],
  [{ max_blocks: 65_537 }, /parameters\.max_blocks/],
  [{ ttl: { type: 'learned', min_ms: 2, max_ms: 1 } }, /parameters\.ttl\.min_ms: must not be above max_ms/],
])('refuses %j', async (parameters, message) => {
  await expect(testHintPolicy(kvRetainSession, { parameters })).rejects.toThrow(message);
});
