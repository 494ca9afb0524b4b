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
  return { sources: new CopySources(fleet), table, match };
}

/** The plain search: every other worker, looked at for every candidate. */
function naive(ranks: readonly Rank[], row: number) {
  const own = ranks[row]!;
  const takes = own.routerHint && (own.actions === null || own.actions.includes('kv.fetch@1.0'));
  const [best] = ranks
    .map((one, slot) => ({ ...one, slot }))
    .filter((one) => one.workerId !== own.workerId && one.group === own.group && one.device > 0)
    .filter((one) => (one.state === 'ready' || one.state === 'draining') && one.endpoint)
    .sort((a, b) => b.device - a.device || Number(a.workerId - b.workerId) || a.rank - b.rank);
  const prefix = takes && best ? best.device : 0;
  const copyable = Math.max(0, prefix - own.device - own.host);
  return { prefix, copyable, slot: copyable > 0 ? best!.slot : -1 };
}

const anyRank = fc.record<Rank>({
  workerId: fc.bigInt({ min: 1n, max: 5n }),
  rank: fc.nat(2),
  device: fc.nat(6),
  host: fc.nat(3),
  state: fc.constantFrom('ready', 'ready', 'ready', 'draining', 'suspect', 'gone'),
  group: fc.constantFrom('one', 'one', 'two'),
  endpoint: fc.constantFrom('tcp://a:1', 'tcp://a:1', null, ''),
  actions: fc.constantFrom(null, null, ['kv.fetch@1.0'], ['kv.retain@1.0']),
  routerHint: fc.constantFrom(true, true, true, false),
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
