import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { WorkerCapabilities, WorkerState } from '../fleet/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import type { HintFleet } from './copy-locations.ts';
import { CopySources } from './copy-sources.ts';

interface Rank {
  readonly workerId: bigint;
  readonly rank: number;
  readonly device: number;
  readonly host: number;
  readonly state: WorkerState;
  readonly group: 'one' | 'two';
  readonly endpoint: string | null;
  readonly actions: readonly string[] | null;
  readonly routerHint: boolean;
  readonly load: number;
}

const capabilitiesOf = (one: Rank): WorkerCapabilities => ({
  epoch: 'e',
  model: 'tiny',
  workerType: one.group,
  blockSize: 16,
  hashScheme: 'sim',
  reportsOutcomes: false,
  ranks: new Map([
    [
      one.rank,
      {
        routerHint: one.routerHint,
        actions: one.actions && new Set(one.actions),
        sourceControlEndpoint: one.endpoint,
      },
    ],
  ]),
});

/** Slot = position. */
function decisionOver(ranks: readonly Rank[]) {
  const advertised = ranks.map(capabilitiesOf);
  const fleet: HintFleet = {
    slotRank: (slot) => ranks[slot]?.rank ?? -1,
    workerOfSlot(slot) {
      const one = ranks[slot];
      return one === undefined
        ? null
        : { spec: { id: one.workerId }, state: one.state, capabilities: advertised[slot] ?? null };
    },
  };
  const table = createCandidateTable(ranks.length);
  table.count = ranks.length;
  ranks.forEach((one, row) => {
    table.slots[row] = row;
    table.ranks[row] = one.rank;
    table.deviceBlocks[row] = one.device;
    table.hostBlocks[row] = one.host;
  });
  const held = ranks.flatMap((one, slot) => (one.device + one.host > 0 ? [slot] : []));
  const none = new Int32Array(held.length);
  const match = {
    count: held.length,
    owners: Int32Array.from(held),
    depthPerTier: [
      Int32Array.from(held, (slot) => ranks[slot]!.device),
      Int32Array.from(held, (slot) => ranks[slot]!.host),
      none,
      none,
    ],
    version: 1,
  };
  const loadOf = (slot: number): number => ranks[slot]?.load ?? 0;
  return { fleet, sources: new CopySources(fleet, loadOf), table, match };
}

/** The plain search: every other worker, looked at for every candidate. */
function naive(ranks: readonly Rank[], row: number) {
  const own = ranks[row]!;
  const takes = own.routerHint && (own.actions === null || own.actions.includes('kv.fetch@1.0'));
  const usable = ranks
    .map((one, slot) => ({ ...one, slot }))
    .filter((one) => one.workerId !== own.workerId && one.group === own.group && one.device > 0)
    .filter((one) => (one.state === 'ready' || one.state === 'draining') && one.endpoint);
  const byId = (a: Rank, b: Rank) => Number(a.workerId - b.workerId) || a.rank - b.rank;
  const [longest] = usable.toSorted((a, b) => b.device - a.device || byId(a, b));
  const [lightest] = usable
    .filter((one) => one.device >= longest!.device - Math.floor(longest!.device / 16))
    .sort((a, b) => a.load - b.load || b.device - a.device || byId(a, b));
  const best = lightest && lightest.device > own.device + own.host ? lightest : longest;
  const prefix = takes && best ? best.device : 0;
  const copyable = Math.max(0, prefix - own.device - own.host);
  return { prefix, copyable, slot: copyable > 0 ? best!.slot : -1 };
}

const anyRank = fc.record<Rank>({
  workerId: fc.bigInt({ min: 1n, max: 5n }),
  rank: fc.nat(2),
  device: fc.oneof(fc.nat(6), fc.integer({ min: 28, max: 34 })),
  host: fc.nat(3),
  state: fc.constantFrom('ready', 'ready', 'ready', 'draining', 'suspect', 'gone'),
  group: fc.constantFrom('one', 'one', 'two'),
  endpoint: fc.constantFrom('tcp://a:1', 'tcp://a:1', null, ''),
  actions: fc.constantFrom(null, null, ['kv.fetch@1.0'], ['kv.retain@1.0']),
  routerHint: fc.constantFrom(true, true, true, false),
  load: fc.nat(3),
});
const anyRanks = fc.uniqueArray(anyRank, {
  minLength: 1,
  maxLength: 12,
  selector: ({ workerId, rank }) => `${workerId}/${rank}`,
});

it('finds for every candidate what a plain search over all others finds', () => {
  fc.assert(
    fc.property(anyRanks, (ranks) => {
      const { sources, table, match } = decisionOver(ranks);
      sources.fill(table, match, new Set(['kv.fetch@1.0']));
      const found = ranks.map((_, row) => ({
        prefix: table.sourcePrefixBlocks[row],
        copyable: table.copyableBlocks[row],
        slot: sources.sourceOf(table, row),
      }));
      expect(found).toEqual(ranks.map((_, row) => naive(ranks, row)));
    }),
  );
});

it('forgets the sources of the decision before, and finds none without a match', () => {
  fc.assert(
    fc.property(anyRanks, (ranks) => {
      const { sources, table, match } = decisionOver(ranks);
      sources.fill(table, match, null);
      sources.fill(table, null, null);
      expect(table.hasCopies).toBe(true);
      for (let row = 0; row < table.count; row += 1) {
        const columns = [table.copyableBlocks[row], table.sourcePrefixBlocks[row]];
        expect([...columns, sources.sourceOf(table, row)]).toEqual([0, 0, -1]);
      }
    }),
    { numRuns: 20 },
  );
});

const source = (workerId: bigint, device: number, load: number): Rank => ({
  workerId,
  rank: 0,
  device,
  host: 0,
  state: 'ready',
  group: 'one',
  endpoint: 'tcp://a:1',
  actions: null,
  routerHint: true,
  load,
});

it('spreads copies of a popular prefix: the least loaded of those within a sixteenth of the longest', () => {
  const sourceFor = (...others: Rank[]) => {
    const { sources, table, match } = decisionOver([source(9n, 0, 0), ...others]);
    sources.fill(table, match, null);
    return [sources.sourceOf(table, 0), table.copyableBlocks[0]];
  };
  expect(sourceFor(source(1n, 64, 5), source(2n, 60, 3), source(3n, 59, 0))).toEqual([2, 60]);
  expect(sourceFor(source(1n, 64, 3), source(2n, 64, 3), source(3n, 63, 3))).toEqual([1, 64]);
  expect(sourceFor(source(1n, 15, 9), source(2n, 14, 0))).toEqual([1, 15]);
});

it('looks at every source twice and at every candidate a fixed number of times', () => {
  const holders = Array.from({ length: 200 }, (_, at) => source(BigInt(at + 1), 30 + (at % 3), at % 7));
  const others = Array.from({ length: 300 }, (_, at) => source(BigInt(at + 1001), 0, 0));
  const { fleet, table, match } = decisionOver([...holders, ...others]);
  let looks = 0;
  let loads = 0;
  const counted: HintFleet = {
    slotRank: (slot) => fleet.slotRank(slot),
    workerOfSlot(slot) {
      looks += 1;
      return fleet.workerOfSlot(slot);
    },
  };
  const loadOf = (): number => {
    loads += 1;
    return 0;
  };
  new CopySources(counted, loadOf).fill(table, match, null);
  expect(looks).toBe(2 * holders.length + 2 * table.count);
  expect(loads).toBeLessThanOrEqual(holders.length);
});
