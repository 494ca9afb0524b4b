// The same policy in process and in a thread: for any booking the same envelope, byte for byte.
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { blockHashSeed, createBlockHasher, createPrefixIndex, TIERS } from '../../kv/index.ts';
import { exactJsonStringify } from '../../plugin/index.ts';
import { createCandidateTable } from '../candidate-table.ts';
import type { HintFleet } from '../copy-locations.ts';
import { hintBooking } from '../hint.fixtures.ts';
import type { HintBooking } from '../types.ts';
import { IsolationBench } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterAll(() => bench.close());

const BLOCKS = 40;
const BLOCK = 16;
/** More peers than a call carries. */
const PEERS = 40;

bench.write(
  'tells.ts',
  `import { defineHintPolicy } from 'pointsman/plugin';
const told = (payload: Record<string, unknown>): any => [{ type: 'acme.told', version: '1.0', payload }];
const copied = (copy: any) => copy && { ...copy, source: { ...copy.source } };
export const plain = defineHintPolicy({
  type: 'plain',
  create: ({ rng, clock, partition, role, blockSize }) => ({
    buildHints: ({ capabilities, session, worker, partition: booked, ...rest }) =>
      told({
        ...rest, at: clock.now(), draw: rng.next(), created: { ...partition, role, blockSize },
        worker: { ...worker }, booked: { ...booked },
        session: session && { ...session, agentHeaders: { ...session.agentHeaders } },
        capabilities: capabilities && [...capabilities],
      }),
  }),
});
export const reads = defineHintPolicy({
  type: 'reads',
  inputs: ['cache', 'load', 'kv-copy-locations'],
  create: () => ({
    buildHints: ({ cache, load, copyLocations, requestId }) => {
      if (requestId.endsWith('!')) throw new Error(requestId);
      const asked = [undefined, Number.NaN, -1, '2', 0, 1, 1.5, 2, 3, 5, 8, 13, 21, 34, 39, 40, 1e9];
      return told({
        cache: { ...cache }, load: { ...load }, local: copyLocations.localPrefixBlocks,
        // A thread is told of the best 32.
        owners: copyLocations.owners.slice(0, 32).map((owner) => ({ ...owner, source: { ...owner.source } })),
        best: asked.map((minimum) => {
          try {
            return copied(copyLocations.bestSource(minimum));
          } catch (error) {
            return error.code + ': ' + error.message;
          }
        }),
      });
    },
  }),
});
export const sends = defineHintPolicy({
  type: 'sends',
  commitments: ['kv-copy'],
  create: () => ({
    buildHints: ({ committedKvCopy }) => {
      if (committedKvCopy === null) return told({ committed: null });
      return committedKvCopy.prefixBlocks % 5 === 0 ? [] : told({ committed: copied(committedKvCopy) });
    },
  }),
});
`,
);

const hasher = createBlockHasher();
const index = createPrefixIndex({ hasher });
const tokens = Uint32Array.from({ length: BLOCKS * BLOCK }, (_, at) => at * 7 + 1);
const hashes = hasher.hashPrompt(tokens, BLOCK, blockHashSeed({}));

const fleet: HintFleet = {
  slotRank: (slot) => (slot <= PEERS ? slot % 2 : -1),
  workerOfSlot: (slot) =>
    slot > PEERS
      ? null
      : {
          spec: { id: 2n ** 64n - 1n - BigInt(slot >> 1) },
          state: 'ready',
          capabilities: {
            epoch: 'e',
            model: 'tiny',
            workerType: 'aggregated',
            blockSize: BLOCK,
            hashScheme: 's',
            reportsOutcomes: false,
            ranks: new Map([
              [
                slot % 2,
                { routerHint: true, actions: null, sourceControlEndpoint: `tcp://127.0.0.1:${9000 + slot}` },
              ],
            ]),
          },
        },
};

const aSession = fc.record(
  {
    compaction: fc.boolean(),
    sessionId: fc.string(),
    inputTrigger: fc.string(),
    agentHeaders: fc.dictionary(
      fc.stringMatching(/^x-[a-z]{1,8}$/),
      fc.array(fc.string(), { maxLength: 3 }),
      { maxKeys: 4 },
    ),
    sessionFinal: fc.boolean(),
    parentSessionId: fc.string(),
    namespace: fc.string(),
  },
  { requiredKeys: ['sessionId', 'agentHeaders'] },
);
const columns = fc.array(fc.nat(1e6), { minLength: 9, maxLength: 9 });
const aBooking = fc.record({
  requestId: fc.string({ minLength: 1, maxLength: 20 }),
  promptTokens: fc.integer({ min: 1, max: 1e6 }),
  session: fc.option(aSession),
  held: fc.array(fc.integer({ min: 0, max: BLOCKS }), { minLength: PEERS + 1, maxLength: PEERS + 1 }),
  /** From here on no engine hash is known, of every third owner. */
  known: fc.integer({ min: 0, max: BLOCKS }),
  columns: fc.option(columns),
  commit: fc.option(
    fc.record({
      sourceSlot: fc.integer({ min: 1, max: PEERS }),
      additionalBlocks: fc.integer({ min: 1, max: 10 }),
      stopOnFailure: fc.boolean(),
    }),
  ),
  advanceMs: fc.nat(1000),
});
type Drawn = typeof aBooking extends fc.Arbitrary<infer T> ? T : never;

/** Lets every owner hold the leading blocks drawn for it, under hashes of its own. */
function hold(held: readonly number[]): void {
  for (const [slot, depth] of held.entries()) {
    index.clear(slot, 'all');
    if (depth === 0) continue;
    const local = hashes.local.subarray(0, depth * 2);
    index.store(
      slot,
      'device',
      null,
      Uint32Array.from(local, (half) => (half ^ (slot * 0x01010101)) >>> 0),
      local,
    );
  }
}

function bookingOf({ columns: drawn, held, known, commit, advanceMs: _, ...facts }: Drawn): HintBooking {
  const table = createCandidateTable(1);
  table.count = 1;
  const row = [
    table.effectiveOverlapBlocks,
    table.cachedTokens,
    table.deviceBlocks,
    table.hostBlocks,
    table.diskBlocks,
    table.loadAvailable,
    table.activePrefillTokens,
    table.decodeCostBlocks,
    table.activeRequests,
  ];
  for (const [at, column] of row.entries()) column[0] = drawn?.[at] ?? 0;
  return hintBooking({
    ...facts,
    workerId: 2n ** 64n - 1n,
    hashes,
    match: index.find(hashes.local, hashes.sequence, TIERS),
    index: {
      externalHashes(owner, sequence, from, to, out) {
        const found = index.externalHashes(owner, sequence, from, to, out);
        return owner % 3 === 0 ? Math.min(found, Math.max(0, known - from)) : found;
      },
    },
    ...(drawn === null ? {} : { selected: { table, row: 0 } }),
    ...(commit === null ? {} : { commit: { ...commit, prefixBlocks: held[commit.sourceSlot] ?? 0 } }),
  });
}

it('makes no difference to an envelope', async () => {
  const yaml = (isolation: string) =>
    `plugins: [./tells.ts]
worker_selection: { aggregated: { hints: [${['plain', 'sends', 'reads'].map((type) => `{ type: ${type}, isolation: ${isolation} }`).join(', ')}] } }
containment: { breaker: { failures: 10000, overruns: 10000 } }`;
  const here = await bench.host(yaml('in-process'), { fleet });
  const there = await bench.host(yaml('thread'), { fleet });
  for (let slot = 0; slot <= PEERS; slot += 1) index.bindOwner(slot, 2n ** 64n - 1n - BigInt(slot >> 1));
  let sent = 0;
  await fc.assert(
    fc.asyncProperty(aBooking, async (drawn) => {
      hold(drawn.held);
      for (const { clock } of [here, there]) clock.advanceTo(clock.now() + drawn.advanceMs);
      const inProcess = await here.run(bookingOf(drawn));
      const pending = there.run(bookingOf(drawn));
      // The match is the index's again.
      hold(drawn.held.map((depth) => BLOCKS - depth));
      index.find(hashes.local, hashes.sequence, TIERS);
      const inThread = await pending;
      expect(exactJsonStringify(inThread.hint ?? {})).toBe(exactJsonStringify(inProcess.hint ?? {}));
      expect(inThread).toEqual(inProcess);
      sent += inThread.hint?.actions.length ?? 0;
    }),
    { numRuns: 200 },
  );
  expect(sent).toBeGreaterThan(200);
});
