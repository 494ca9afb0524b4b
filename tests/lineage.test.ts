// The session prefix index end to end: a whole router over engines that a test plays, in every shape in which engines tell of blocks.
import { encode } from '@msgpack/msgpack';
import { expect, test } from 'vitest';
import { lineageWatch } from './support/lineage-watch.ts';
import { countedTokens } from './support/road-request.ts';
import { ANSWERED, scriptedFleet } from './support/scripted-fleet.ts';

const BLOCK = 16;
const HINTS =
  'worker_selection: { aggregated: { type: dynamo-default-cost-fn, hints: [{ type: watch_lineage }] } }';

/** Engine hash of the block at a place of session `from`'s prompt. */
const hashOf = (from: number, place: number): bigint => BigInt(from) * 1_000_000_007n + BigInt(place);
const chain = (from: number, blocks: number, first = 0): bigint[] =>
  Array.from({ length: blocks - first }, (_, at) => hashOf(from, first + at));
const promptOf = (from: number, blocks: number): Uint32Array => countedTokens(blocks * BLOCK, from);

interface Stored {
  readonly from: number;
  readonly first: number;
  readonly blocks: number;
  readonly sessionId: string | null;
  readonly salt?: string;
}

/** How an engine tells of stored blocks, and of removed ones. */
interface Shape {
  readonly labels: boolean;
  stored(store: Stored): unknown;
  removed(hashes: readonly bigint[]): unknown;
}

const parts = ({ from, first, blocks }: Stored) =>
  [
    chain(from, blocks, first),
    first === 0 ? null : hashOf(from, first - 1),
    [...promptOf(from, blocks).subarray(first * BLOCK)],
  ] as const;

function vllm(labels: boolean): Shape {
  return {
    labels,
    stored(store) {
      const [block_hashes, parent_block_hash, token_ids] = parts(store);
      return {
        type: 'BlockStored',
        block_hashes,
        parent_block_hash,
        token_ids,
        block_size: BLOCK,
        lora_id: null,
        medium: 'GPU',
        ...(labels ? { session_id: store.sessionId } : {}),
        ...(store.salt === undefined || store.first > 0 ? {} : { cache_salt: store.salt }),
      };
    },
    removed: (block_hashes) => ({ type: 'BlockRemoved', block_hashes, medium: 'GPU' }),
  };
}

function sglang(labels: boolean): Shape {
  return {
    labels,
    stored(store) {
      const metadata = { session_id: store.sessionId, cache_salt: store.salt ?? null };
      return ['BlockStored', ...parts(store), BLOCK, null, 'GPU', ...(labels ? [metadata] : [])];
    },
    removed: (hashes) => ['BlockRemoved', hashes, 'GPU'],
  };
}

async function fleet(yaml = HINTS, workers = ['', '']) {
  const watch = lineageWatch();
  const router = await scriptedFleet(yaml, workers, undefined, watch.definitions);
  const { core, clock } = router;
  const sequences = new Map<bigint, number>();
  const tell = (worker: bigint, events: readonly unknown[], skipped = 0): void => {
    const sequence = (sequences.get(worker) ?? 0) + skipped;
    sequences.set(worker, sequence + 1);
    core.events?.onBatch(core.fleet.slotOf(worker, 0), sequence, encode([1, events], { useBigInt64: true }));
  };
  const advertise = (worker: bigint, epoch = 'e1'): void => {
    const ranks = new Map([
      [0, { routerHint: true, actions: null, kvEvents: null, sourceControlEndpoint: null }],
    ]);
    core.fleet.setCapabilities(worker, {
      epoch,
      model: 'tiny',
      workerType: 'aggregated',
      blockSize: BLOCK,
      hashScheme: 'x',
      reportsOutcomes: false,
      ranks,
    });
  };
  for (const at of workers.keys()) advertise(BigInt(at + 1));
  // Ranks that were never heard are believed to announce nothing.
  for (const at of workers.keys()) tell(BigInt(at + 1), []);
  const settle = (): void => clock.advanceTo(clock.now() + 10);
  return { ...router, ...watch, tell, advertise, settle };
}

type Fleet = Awaited<ReturnType<typeof fleet>>;

/** One turn of a session whose prompt has so many blocks, `held` of which its engine has. */
function turn(
  { arrive, settle, tell }: Fleet,
  shape: Shape,
  {
    from,
    blocks,
    held,
    sessionId,
    final = false,
    salt,
  }: {
    readonly from: number;
    readonly blocks: number;
    readonly held: number;
    readonly sessionId: string;
    readonly final?: boolean;
    readonly salt?: string;
  },
) {
  const session = { sessionId, agentHeaders: {}, ...(final ? { sessionFinal: true } : {}) };
  const tokens = promptOf(from, blocks);
  const sent = arrive({ tokens, session, cacheSalt: salt ?? null });
  expect(sent.error).toBeNull();
  const worker = sent.worker!.workerId;
  const store = { from, first: held, blocks, sessionId, ...(salt === undefined ? {} : { salt }) };
  tell(worker, [shape.stored(store)]);
  sent.engine?.finished(ANSWERED);
  settle();
  return worker;
}

const SHAPES: readonly (readonly [string, Shape])[] = [
  ['vLLM maps with session_id', vllm(true)],
  ['vLLM maps without', vllm(false)],
  ['SGLang arrays with metadata', sglang(true)],
  ['SGLang arrays without', sglang(false)],
];

test.each(SHAPES)('%s: three turns give a path from root to frontier', async (_, shape) => {
  const router = await fleet();
  const { hints } = router;
  for (const [blocks, held] of [
    [3, 0],
    [5, 3],
    [8, 5],
  ] as const)
    turn(router, shape, { from: 100, blocks, held, sessionId: 's' });
  expect(new Set(hints.map(({ worker }) => worker.workerId)).size).toBe(1);
  // What a turn itself brings is settled behind it: with labels all that was stored, without them what the turn was found to hold.
  const seen = hints.map(({ paths }) => paths);
  const known = shape.labels ? [3, 5] : [0, 3];
  expect(seen).toEqual([[], ...known.map((blocks) => (blocks === 0 ? [] : [chain(100, blocks)]))]);
  const { lineage, worker } = hints[2]!;
  // Nothing of the router is on it.
  expect(Object.getOwnPropertyNames(lineage)).toEqual([]);
  expect(Object.isFrozen(lineage)).toBe(true);
  const [frontier, ...others] = lineage!.frontiers('s');
  expect(others).toEqual([]);
  expect(frontier!.worker).toEqual(worker);
  // From the frontier up to the root, and one step down again.
  const walked: bigint[] = [];
  for (let id = frontier?.node; id !== undefined; id = lineage!.node(id)?.parent)
    walked.unshift(lineage!.node(id)!.blockHash);
  expect(walked).toEqual(chain(100, shape.labels ? 8 : 5));
  const root = lineage!.nodeOf(hashOf(100, 0))!;
  const { children } = lineage!.node(root)!;
  expect(children.map((id) => lineage!.node(id)?.blockHash)).toEqual([hashOf(100, 1)]);
  expect(lineage!.paths('s', worker, hashOf(100, 2)).map((path) => [...path])).toEqual([walked.slice(2)]);
  expect(() => lineage!.paths('s', worker, 5n)).toThrow(
    expect.objectContaining({ code: 'PM_KV_LINEAGE_ANCHOR' }),
  );
  expect(lineage!.paths('s', { workerId: 99n, rank: 0 })).toEqual([]);
  expect(lineage!.paths('t', worker)).toEqual([]);
  expect(lineage!.nodeOf(5n)).toBeNull();
});

test('removals and tiers are seen, and what sessions share is exclusive to none of them', async () => {
  const router = await fleet(HINTS, ['']);
  const { hints, settle, tell } = router;
  const shape = vllm(true);
  turn(router, shape, { from: 100, blocks: 4, held: 0, sessionId: 's' });
  turn(router, shape, { from: 100, blocks: 4, held: 4, sessionId: 't' });
  turn(router, shape, { from: 100, blocks: 6, held: 4, sessionId: 's' });
  const ask = () => {
    turn(router, shape, { from: 9000 + hints.length * 100, blocks: 1, held: 0, sessionId: 'other' });
    const { lineage, residency, worker } = hints.at(-1)!;
    return {
      paths: lineage!.paths('s', worker).map((path) => [...path]),
      unique: [...lineage!.uniqueBlocks('s', worker)],
      exclusive: [...lineage!.exclusiveBlocks('s', worker)],
      tierOf: (hash: bigint) => residency!.tierOf(worker, hash),
    };
  };
  const before = ask();
  expect(before.paths).toEqual([chain(100, 6)]);
  expect(before.unique).toEqual(chain(100, 6));
  expect(before.exclusive).toEqual(chain(100, 6, 4));
  expect([before.tierOf(hashOf(100, 5)), before.tierOf(3n)]).toEqual(['device', null]);
  tell(1n, [{ ...Object(shape.stored({ from: 100, first: 5, blocks: 6, sessionId: null })), medium: 'CPU' }]);
  tell(1n, [shape.removed(chain(100, 6, 5))]);
  settle();
  const after = ask();
  expect(after.paths).toEqual([chain(100, 5)]);
  expect(after.tierOf(hashOf(100, 5))).toBe('host');
});

test('a session that branches has a path per branch, each block once in unique order', async () => {
  const router = await fleet(HINTS, ['']);
  const { hints, tell, settle } = router;
  const shape = vllm(true);
  turn(router, shape, { from: 100, blocks: 4, held: 0, sessionId: 's' });
  const branch = {
    ...Object(shape.stored({ from: 777, first: 0, blocks: 2, sessionId: 's' })),
    parent_block_hash: hashOf(100, 1),
  };
  tell(1n, [branch]);
  settle();
  turn(router, shape, { from: 5000, blocks: 1, held: 0, sessionId: 'other' });
  const { lineage, worker } = hints.at(-1)!;
  const paths = lineage!.paths('s', worker).map((path) => [...path]);
  const other = [...chain(100, 2), ...chain(777, 2)];
  expect(paths.sort((a, b) => Number(a[2]! - b[2]!))).toEqual([chain(100, 4), other]);
  expect(lineage!.frontiers('s')).toHaveLength(2);
  const unique = [...lineage!.uniqueBlocks('s', worker)];
  expect(new Set(unique)).toEqual(new Set([...chain(100, 4), ...other]));
  expect(unique).toHaveLength(6);
  expect(unique.indexOf(hashOf(100, 1))).toBeLessThan(unique.indexOf(hashOf(777, 0)));
});

test('a list ends at the first block that its worker does not hold, also where blocks behind it came back', async () => {
  const router = await fleet(HINTS, ['']);
  const { hints, settle, tell } = router;
  const shape = vllm(true);
  turn(router, shape, { from: 100, blocks: 5, held: 0, sessionId: 's' });
  tell(1n, [shape.removed(chain(100, 3, 2))]);
  tell(1n, [shape.stored({ from: 100, first: 5, blocks: 6, sessionId: 's' })]);
  settle();
  turn(router, shape, { from: 5000, blocks: 1, held: 0, sessionId: 'other' });
  const { lineage, worker } = hints.at(-1)!;
  expect(lineage!.paths('s', worker).map((path) => [...path])).toEqual([chain(100, 2)]);
  expect([...lineage!.uniqueBlocks('s', worker)]).toEqual(chain(100, 2));
  expect([...lineage!.exclusiveBlocks('s', worker)]).toEqual(chain(100, 2));
  const [frontier] = lineage!.frontiers('s');
  expect(lineage!.node(frontier!.node)).toMatchObject({ blockHash: hashOf(100, 1), children: [] });
  // The hole comes back, and all is there again.
  tell(1n, [shape.stored({ from: 100, first: 2, blocks: 3, sessionId: null })]);
  settle();
  expect([...lineage!.uniqueBlocks('s', worker)]).toEqual(chain(100, 6));
});

const LOSSES: readonly (readonly [string, (router: Fleet, worker: bigint) => void])[] = [
  ['a gap in its events', ({ tell }, worker) => tell(worker, [], 3)],
  ['a restart of its engine', ({ advertise }, worker) => advertise(worker, 'e2')],
  ['AllBlocksCleared', ({ tell }, worker) => tell(worker, [{ type: 'AllBlocksCleared' }])],
  ['its loss', ({ core }, worker) => core.fleet.setState(worker, 'gone')],
  ['its removal', ({ core }, worker) => core.fleet.remove(worker)],
];

test.each(LOSSES)('%s clears a rank and no other', async (_, lose) => {
  const router = await fleet();
  const { core, hints, settle } = router;
  const shape = vllm(true);
  const first = turn(router, shape, { from: 100, blocks: 4, held: 0, sessionId: 's' });
  let second = first;
  for (let from = 20_000; second === first; from += 1000)
    second = turn(router, shape, { from, blocks: 3, held: 0, sessionId: `t${from}` });
  const kept = hints.at(-1)!.session!.sessionId;
  turn(router, shape, { from: 100, blocks: 4, held: 4, sessionId: 's' });
  const { lineage } = hints.at(-1)!;
  expect(lineage!.frontiers('s')).toHaveLength(1);
  expect(lineage!.paths(kept, { workerId: second, rank: 0 })).toHaveLength(1);
  lose(router, first);
  settle();
  expect(lineage!.frontiers('s')).toEqual([]);
  expect(lineage!.paths('s', { workerId: first, rank: 0 })).toEqual([]);
  expect(lineage!.paths(kept, { workerId: second, rank: 0 })).toHaveLength(1);
  expect(core.sessions?.keeps).toBe(true);
});

test('a final request ends its session, however it ends, and tenants and partitions do not meet', async () => {
  const router = await fleet(HINTS, ['']);
  const { arrive, hints, settle } = router;
  const shape = vllm(true);
  turn(router, shape, { from: 100, blocks: 4, held: 0, sessionId: 's', salt: 'a' });
  turn(router, shape, { from: 100, blocks: 4, held: 4, sessionId: 's' });
  const { lineage, worker } = hints.at(-1)!;
  expect(lineage!.paths('s', worker)).toEqual([]);
  turn(router, shape, { from: 100, blocks: 4, held: 4, sessionId: 's', salt: 'a' });
  const own = hints.at(-1)!;
  expect(own.unique).toEqual(chain(100, 4));
  const session = { sessionId: 's', agentHeaders: {}, sessionFinal: true };
  const final = arrive({ tokens: promptOf(100, 4), session, cacheSalt: 'a' });
  settle();
  // The policies of the final request itself see it, and it is there until that is over.
  expect(hints.at(-1)!.unique).toEqual(chain(100, 4));
  expect(own.lineage!.frontiers('s')).toHaveLength(1);
  final.ticket.abort();
  settle();
  expect(own.lineage!.frontiers('s')).toEqual([]);
});

test('a worker-selection policy sees on which worker a session has its blocks', async () => {
  const router = await fleet('worker_selection: { aggregated: pick_by_lineage }', ['', '', '']);
  const { picks } = router;
  const shape = sglang(true);
  const home = turn(router, shape, { from: 100, blocks: 4, held: 0, sessionId: 's' });
  turn(router, shape, { from: 5000, blocks: 1, held: 0, sessionId: 'other' });
  expect(turn(router, shape, { from: 100, blocks: 6, held: 4, sessionId: 's' })).toBe(home);
  const row = Number(home) - 1;
  expect(picks.map(({ blocks }) => blocks?.[row])).toEqual([0, 0, 4]);
  expect(picks[2]!.blocks!.reduce((sum, blocks) => sum + blocks, 0)).toBe(4);
});

test.each([
  ['no policy asks', 'router: { mode: kv }', true],
  ['it is switched off', `router: { enable_session_prefix_index: false }\n${HINTS}`, true],
  ['no engine is heard', `router: { use_kv_events: false }\n${HINTS}`, false],
])('where %s nothing is kept, and policies get null', async (_, yaml, knowsTiers) => {
  const router = await fleet(yaml, ['']);
  const { core, hints, metrics } = router;
  for (const held of [0, 3]) turn(router, vllm(true), { from: 100, blocks: 3, held, sessionId: 's' });
  for (const { lineage, residency } of hints) {
    expect(lineage).toBeNull();
    expect(residency !== null).toBe(knowsTiers);
  }
  expect(core.sessions?.keeps ?? false).toBe(false);
  expect(await metrics.text()).toMatch(/^pointsman_lineage_updates_waiting 0$/m);
  expect(await metrics.text()).not.toMatch(/^pointsman_lineage_updates_total/m);
});

test('what is kept, applied and forgotten is counted', async () => {
  const yaml = `limits: { lineage_sessions: 2, lineage_ttl: 1s }\n${HINTS}`;
  const router = await fleet(yaml, ['']);
  const { clock, metrics } = router;
  const read = async () => {
    const lines = (await metrics.text()).matchAll(/^pointsman_lineage_(\S+) (\S+)$/gm);
    return Object.fromEntries([...lines].map(([, name, value]) => [name, Number(value)]));
  };
  const applied = 'updates_total{outcome="applied"}';
  router.settle();
  const before = await read();
  const at = (nth: number) => ({ from: 1000 * nth + 1000, blocks: 2, held: 0, sessionId: `s${nth}` });
  for (const nth of [0, 1, 2]) turn(router, vllm(true), at(nth));
  const three = await read();
  expect(three).toMatchObject({ sessions: 2, frontiers: 2, updates_waiting: 0 });
  expect(three['forgotten_total{reason="evicted"}']).toBe(1);
  // A match and a store each.
  expect(three[applied]! - (before[applied] ?? 0)).toBe(6);
  expect(three.bytes).toBeGreaterThan(100);
  expect(three.blocks).toBeGreaterThanOrEqual(4);
  clock.advanceTo(clock.now() + 5000);
  turn(router, vllm(true), at(9));
  expect(await read()).toMatchObject({ sessions: 1, 'forgotten_total{reason="expired"}': 2 });
});
