import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Fleet } from '../fleet/index.ts';
import { CandidateColumns } from './candidate-table.ts';
import { BUSY, ExcludedColumns, exclusionOf, rulesOf } from './eligibility.ts';
import { findEligible } from './find-eligible.ts';
import { ANYWHERE, tinyWorker } from './scheduler.fixtures.ts';

it('sorts ranks as one look at each of them would, in their order, pinned or not', () => {
  const worker = fc.record({
    ranks: fc.integer({ min: 1, max: 3 }),
    state: fc.constantFrom('ready' as const, 'draining' as const, 'suspect' as const),
  });
  const pin = fc.record({ id: fc.integer({ min: 1, max: 9 }), rank: fc.constantFrom(null, 0, 1) });
  fc.assert(
    fc.property(
      fc.array(worker, { maxLength: 8 }),
      fc.option(pin),
      fc.option(fc.array(fc.integer({ min: 1, max: 9 }))),
      fc.array(fc.boolean(), { maxLength: 24 }),
      (workers, pinned, allowed, busyRows) => {
        const fleet = new Fleet();
        for (const [at, { ranks, state }] of workers.entries()) {
          fleet.add(tinyWorker(BigInt(at + 1), { ranks: { first: 0, count: ranks } }));
          if (state !== 'ready') fleet.setState(BigInt(at + 1), state);
        }
        const candidates = fleet.candidates({ model: 'tiny', routingGroup: 'default' }, 'aggregated');
        const rules = rulesOf(
          {
            ...ANYWHERE,
            pinnedWorker: pinned && { workerId: BigInt(pinned.id), rank: pinned.rank },
            allowedWorkers: allowed?.map(BigInt) ?? null,
          },
          null,
        );
        const busy = Uint8Array.from(candidates.slots, (_, at) => Number(busyRows[at] ?? false));
        const rows = Array.from(candidates.slots, (slot, at) => {
          const reason = exclusionOf(fleet.workerOfSlot(slot), candidates.ranks[at]!, rules);
          return { slot, reason: reason < 0 && busy[at] === 1 ? BUSY : reason };
        });
        const table = new CandidateColumns();
        const excluded = new ExcludedColumns();
        // Whatever an earlier request left is gone.
        excluded.add(99, 0);
        findEligible(fleet, candidates, rules, busy, table, excluded);
        expect([...table.slots.subarray(0, table.count)]).toEqual(
          rows.filter(({ reason }) => reason < 0).map(({ slot }) => slot),
        );
        const out = Array.from({ length: excluded.count }, (_, at) => ({
          slot: excluded.slots[at]!,
          reason: excluded.reasons[at]!,
        }));
        expect(out).toEqual(rows.filter(({ reason }) => reason >= 0));
      },
    ),
    { numRuns: 300 },
  );
});
