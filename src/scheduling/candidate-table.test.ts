import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fleet } from '../fleet/index.ts';
import { createSoloRuntime } from '../host/index.ts';
import { createBlockHasher, createPrefixIndex, ROUTER_SEED, TIERS } from '../kv/index.ts';
import { defineWorkerSelectionPolicy, linearCost, ManualClock, NO_LOG } from '../plugin/index.ts';
import { CandidateColumns } from './candidate-table.ts';
import { tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';

const PARTITION = { model: 'tiny', routingGroup: 'default' };

function fleetOf(workers: number): Fleet {
  const fleet = new Fleet();
  for (let id = 1; id <= workers; id += 1) fleet.add(tinyWorker(BigInt(id)));
  return fleet;
}

describe('the candidate columns', () => {
  const depths = fc.array(
    fc.record({ slot: fc.nat(11), device: fc.nat(9), host: fc.nat(9), disk: fc.nat(9) }),
    {
      maxLength: 12,
    },
  );
  const decision = fc.record({
    /** Slots that are admitted anew; null = the rows stay as they are. */
    admitted: fc.option(fc.uniqueArray(fc.nat(11), { minLength: 1 })),
    depths: fc.option(depths),
  });

  it('hold what this decision matched and nothing of those before it', () => {
    const candidates = fleetOf(12).candidates(PARTITION, 'aggregated');
    fc.assert(
      fc.property(fc.array(decision, { minLength: 1, maxLength: 12 }), (decisions) => {
        const table = new CandidateColumns();
        table.begin(12, 12);
        for (const { admitted, depths } of decisions) {
          if (admitted !== null) {
            table.begin(admitted.length, 12);
            for (const index of admitted.toSorted((a, b) => a - b)) table.admit(candidates, index);
          }
          const found = depths === null ? [] : [...new Map(depths.map((row) => [row.slot, row])).values()];
          const match = {
            count: found.length,
            owners: Int32Array.from(found, ({ slot }) => slot),
            depthPerTier: [
              Int32Array.from(found, ({ device }) => device),
              Int32Array.from(found, ({ host }) => host),
              Int32Array.from(found, ({ disk }) => disk),
              Int32Array.from(found, () => 1),
            ],
            version: 1,
          };
          table.fillCache(depths === null ? null : match, 0.75, 0.25, 16);
          let lower = false;
          for (let row = 0; row < table.count; row += 1) {
            const hit = found.find(({ slot }) => slot === table.slots[row]);
            const disk = hit === undefined ? 0 : hit.disk + 1;
            const host = hit?.host ?? 0;
            const overlap = (hit?.device ?? 0) + 0.75 * host + 0.25 * disk;
            lower ||= host + disk > 0;
            expect([
              table.deviceBlocks[row],
              table.hostBlocks[row],
              table.diskBlocks[row],
              table.effectiveOverlapBlocks[row],
              table.cachedTokens[row],
            ]).toEqual([hit?.device ?? 0, host, disk, overlap, Math.round(overlap * 16)]);
          }
          expect(table.hasLowerTierMatches).toBe(lower);
        }
      }),
    );
  });

  it('say that taints count until a request asks for none', () => {
    const table = new CandidateColumns();
    const candidates = fleetOf(2).candidates(PARTITION, 'aggregated');
    table.begin(2, 2);
    for (const index of [0, 1]) table.admit(candidates, index);
    table.neutralTaints();
    expect(table.hasTaintMultipliers).toBe(false);
    table.setTaint(1, 0.5);
    expect([table.hasTaintMultipliers, table.preferredTaintMultiplier[1]]).toEqual([true, 0.5]);
    table.neutralTaints();
    expect([table.hasTaintMultipliers, table.preferredTaintMultiplier[1]]).toEqual([false, 1]);
  });
});

it.each([2, 300])('decides for %i workers on the same arrays every time', async (workers) => {
  const fleet = fleetOf(workers);
  const scheduler = new Scheduler({ fleet, fallback: null });
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const runtime = await createSoloRuntime({
    selection: {
      definition: defineWorkerSelectionPolicy({ type: 'plain_cost', create: () => ({ cost: linearCost() }) }),
    },
    partition: PARTITION,
    role: 'aggregated',
    blockSize: 16,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet,
  });
  const used = new Set<unknown>();
  const decide = (turn: number): void => {
    const tokens = new Uint32Array(1024).fill(turn, 512);
    const hashes = hasher.hashPrompt(tokens, 16, ROUTER_SEED);
    index.store(turn % workers, 'device', null, hashes.sequence.toReversed(), hashes.local);
    const match = index.find(hashes.local, hashes.sequence, TIERS);
    const placement = scheduler.place({
      requestId: 'r',
      partition: PARTITION,
      role: 'aggregated',
      runtime,
      promptTokens: tokens.length,
      blockSize: 16,
      hashes,
      match,
      session: null,
      constraints: {
        pinnedWorker: null,
        allowedWorkers: null,
        requiredTaints: [],
        preferredTaints: new Map(),
        temperature: null,
        priority: 0,
        strictPriority: 0,
      },
      expectedOutputTokens: null,
    });
    const { table, excluded, pick } = placement;
    const parts = [placement, match, ...match.depthPerTier, match.owners, pick.costs, excluded];
    for (const part of [...parts, ...Object.values(table)]) if (typeof part === 'object') used.add(part);
    scheduler.release(placement.attempt);
  };
  // Everything has its final size once every worker holds something.
  for (let turn = 0; turn < workers; turn += 1) decide(turn);
  used.clear();
  decide(workers);
  const first = used.size;
  expect(first).toBeGreaterThan(20);
  for (let turn = 1; turn <= 20; turn += 1) decide(workers + turn);
  expect(used.size).toBe(first);
});
