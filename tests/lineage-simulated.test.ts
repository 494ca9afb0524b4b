// Sessions on simulated engines in virtual time: what a policy sees of a session is what the engine holds of it, evictions included.
import { expect, test } from 'vitest';
import { composeReplayRouter } from '../src/cli/replay-router.ts';
import { parseConfig } from '../src/config/index.ts';
import { encodeEventBatch, type KvEvent } from '../src/events/index.ts';
import { createBlockHasher } from '../src/kv/index.ts';
import type { ReplayRouter } from '../src/replay/index.ts';
import { DEFAULT_ENGINE_SETTINGS, VirtualFleet, VirtualTime } from '../src/simulator/index.ts';
import { lineageWatch } from './support/lineage-watch.ts';
import { countedTokens, givenRequest, SILENT } from './support/road-request.ts';

const BLOCK = 16;
const POLICY = `worker_selection:
  aggregated: { type: dynamo-default-cost-fn, hints: [{ type: watch_lineage }] }
`;

interface Turn {
  readonly at: number;
  readonly session: string | null;
  readonly from: number;
  readonly blocks: number;
}

/** Runs turns over one engine whose pool has so many blocks. */
async function run(turns: readonly Turn[], poolBlocks: number, yaml = POLICY) {
  const time = new VirtualTime();
  const watch = lineageWatch();
  /** Engine hashes that the engine labelled, by session. */
  const labelled = new Map<string, Set<bigint>>();
  const note = (events: readonly KvEvent[]): void => {
    for (const event of events) {
      if (event.kind !== 'stored' || event.sessionId === null) continue;
      const hashes = labelled.get(event.sessionId) ?? new Set();
      labelled.set(event.sessionId, hashes);
      for (let i = 0; i < event.external.length; i += 2) hashes.add(pair(event.external, i));
    }
  };
  const fleet = new VirtualFleet({
    time,
    hasher: createBlockHasher(),
    encode(batch) {
      note(batch.events);
      return encodeEventBatch(batch);
    },
    engines: [{ ...DEFAULT_ENGINE_SETTINGS, blockSize: BLOCK, kvBlocks: poolBlocks }],
  });
  const loaded = parseConfig(yaml, 'lineage', { env: {}, readFile: () => '' });
  const router: ReplayRouter = await composeReplayRouter(
    loaded,
    {
      choice: { kind: 'mode', mode: 'kv' },
      seed: 1,
      clock: time,
      transport: fleet,
      model: 'tiny',
      blockSize: BLOCK,
      workers: fleet.workers,
    },
    {
      definitions: watch.definitions,
      warn: (line) => {
        throw new Error(line);
      },
    },
  );
  const link = router.eventLink(1n);
  if (link !== null) fleet.connectEvents(1n, { owner: link.owner, sink: link.sink });
  const resident: Set<bigint>[] = [];
  for (const [nth, { at, from, blocks, session }] of turns.entries()) {
    time.plan(at, 'arrival', () => {
      const held = fleet.engine(1n).residentBlocks('device');
      resident.push(new Set(Array.from({ length: held.length / 2 }, (_, i) => pair(held, 2 * i))));
      const tokens = countedTokens(blocks * BLOCK, from);
      const context = session === null ? null : { sessionId: session, agentHeaders: {} };
      router.road.arrive(givenRequest(`r${nth}`, tokens, { session: context, maxOutputTokens: 2 }), SILENT);
    });
  }
  while (time.nextAt() !== null) time.step();
  await router.close();
  return { ...watch, labelled, resident };
}

function pair(words: Uint32Array, at: number): bigint {
  return (BigInt(words[at + 1]!) << 32n) | BigInt(words[at]!);
}

const talk = (session: string, from: number, blocks: readonly number[], start = 0): Turn[] =>
  blocks.map((length, nth) => ({ at: 10_000 * (nth + 1) + start, session, from, blocks: length }));

/** In the order of their times. */
const mixed = (...talks: Turn[][]): Turn[] => talks.flat().sort((a, b) => a.at - b.at);

test('at its third turn a session has exactly the blocks that the engine stored for it', async () => {
  const { hints, labelled, resident } = await run(
    mixed(talk('a', 0, [3, 6, 9]), talk('b', 5000, [4, 5, 6], 3000)),
    4096,
  );
  expect(hints).toHaveLength(6);
  for (const [nth, { session, unique, exclusive, paths }] of hints.entries()) {
    const own = [...labelled.get(session!.sessionId)!].filter((hash) => resident[nth]!.has(hash));
    expect(new Set(unique)).toEqual(new Set(own));
    expect(exclusive).toEqual(unique);
    expect(paths).toEqual(unique.length === 0 ? [] : [unique]);
  }
  const lengths = hints.map(({ session, unique }) => `${session!.sessionId}${unique.length}`);
  expect(lengths).toEqual(['a0', 'b0', 'a3', 'b4', 'a6', 'b5']);
});

test('what the engine evicted is not there any more', async () => {
  // Others push the session off a pool of 24 blocks between its second and third turn.
  const others = [0, 1, 2].map((nth) => ({
    at: 22_000 + nth * 2000,
    session: null,
    from: 9000 + 1000 * nth,
    blocks: 7,
  }));
  const { hints, labelled, resident } = await run(mixed(talk('a', 0, [4, 8, 9]), others), 24);
  const third = hints.at(-1)!;
  const own = [...labelled.get('a')!];
  const held = own.filter((hash) => resident.at(-1)!.has(hash));
  expect(held.length).toBeLessThan(own.length);
  expect(new Set(third.unique)).toEqual(new Set(held));
  for (const hash of third.unique) expect(third.residency!.tierOf(third.worker, hash)).toBe('device');
});

test('two runs see the same, and nothing is kept where no policy asks', async () => {
  const turns = mixed(talk('a', 0, [3, 6, 9]), talk('b', 5000, [4, 5, 6], 1));
  const [one, two] = [await run(turns, 24), await run(turns, 24)];
  expect(one.hints.map(({ paths }) => paths)).toEqual(two.hints.map(({ paths }) => paths));
  const off = await run(turns, 24, 'worker_selection: { aggregated: dynamo-default-cost-fn }');
  expect(off.hints).toEqual([]);
});
