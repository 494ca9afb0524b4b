import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Fleet, type WorkerState } from '../fleet/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { ANYWHERE, picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';
import { EXCLUSION_REASONS, type PlacementConstraints } from './types.ts';

const IDS = [1n, 2n, 3n, 4n, 5n];
const TAINTS = ['gpu', 'dynamo.topology/zone=a', 'dynamo.topology/zone=b'];

const anyWorker = fc.record({
  gpu: fc.boolean(),
  zone: fc.constantFrom('a', 'b', null),
  adapters: fc.subarray(['law', 'code']),
  state: fc.constantFrom<WorkerState>('ready', 'ready', 'ready', 'suspect', 'draining', 'gone'),
  ranks: fc.integer({ min: 1, max: 2 }),
});

const ids = fc.subarray(IDS);
const anyConstraints = fc.record({
  pin: fc.option(
    fc.record({ workerId: fc.constantFrom(...IDS), rank: fc.option(fc.nat(2), { nil: null }) }),
    { nil: null, freq: 3 },
  ),
  allowed: fc.option(ids, { nil: null }),
  excluded: ids,
  required: fc.subarray(TAINTS, { maxLength: 2 }),
  adapter: fc.option(fc.constantFrom('law', 'code', 'none'), { nil: null }),
});

it('keeps to pin, allow-list, exclusions, adapter, taints and state, whatever a policy answers', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      fc.array(anyWorker, { minLength: 5, maxLength: 5 }),
      fc.array(fc.record({ asked: anyConstraints, dice: fc.nat() }), { minLength: 1, maxLength: 6 }),
      (workers, requests) => {
        const fleet = new Fleet();
        const scheduler = new Scheduler({ fleet, fallback: null });
        workers.forEach(({ gpu, zone, adapters, state, ranks }, at) => {
          const id = IDS[at] ?? 0n;
          fleet.add(
            tinyWorker(id, {
              taints: gpu ? ['gpu'] : [],
              topology: zone === null ? {} : { zone },
              adapters,
              ranks: { first: 0, count: ranks },
            }),
          );
          fleet.setState(id, state);
        });
        for (const { asked, dice } of requests) {
          const { pin, allowed, excluded, required, adapter } = asked;
          const constraints: PlacementConstraints = {
            ...ANYWHERE,
            pinnedWorker: pin,
            allowedWorkers: allowed,
            excludedWorkers: excluded,
            requiredTaints: required,
          };
          // Written down from section 8 of the rules, one pair at a time.
          const expected = workers.flatMap(({ gpu, zone, adapters, state, ranks }, at) => {
            const id = IDS[at] ?? 0n;
            const carried = [
              ...(gpu ? ['gpu'] : []),
              ...(zone === null ? [] : [`dynamo.topology/zone=${zone}`]),
            ];
            return Array.from({ length: ranks }, (_, rank) => `${id}/${rank}`).filter((name) => {
              const wanted = pin === null || name === `${id}/${pin.rank ?? name.split('/')[1]}`;
              return (
                wanted &&
                (pin === null || pin.workerId === id) &&
                (allowed === null || allowed.includes(id)) &&
                !excluded.includes(id) &&
                state === 'ready' &&
                required.every((taint) => carried.includes(taint)) &&
                (adapter === null || adapters.some((held) => held === adapter))
              );
            });
          });
          const runtime = picking((table) => dice % table.count);
          const request = placementRequest({ constraints, loraName: adapter, runtime });
          const contradicts = pin !== null && allowed !== null && !allowed.includes(pin.workerId);
          if (contradicts || expected.length === 0) {
            expect(() => scheduler.place(request)).toThrow(PointsmanError);
            continue;
          }
          const placement = scheduler.place(request);
          const { table, excluded: others } = placement;
          const rows = Array.from(
            { length: table.count },
            (_, row) => `${fleet.slotWorkerId(table.slots[row] ?? -1)}/${table.ranks[row]}`,
          );
          expect(rows).toEqual(expected);
          expect(expected).toContain(`${placement.workerId}/${placement.rank}`);
          if (pin !== null) expect(placement.workerId).toBe(pin.workerId);
          expect(table.count + others.count).toBe(workers.reduce((sum, { ranks }) => sum + ranks, 0));
          for (let row = 0; row < others.count; row += 1)
            seen.add(EXCLUSION_REASONS[others.reasons[row] ?? 0] ?? '');
          scheduler.release(placement.attempt);
        }
        scheduler.close();
      },
    ),
    { numRuns: 300, seed: 5 },
  );
  // A rule that never turned anybody away would prove nothing.
  expect([...seen].sort()).toEqual(EXCLUSION_REASONS.filter((reason) => reason !== 'busy').sort());
});
