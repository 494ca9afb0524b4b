// What a decision is made of, each part alone on the facts of a road: the same functions that the road calls.
import type { HintBooking } from '../src/host/index.ts';
import { ROUTER_SEED, TIERS } from '../src/kv/index.ts';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { CandidateColumns } from '../src/scheduling/candidate-table.ts';
import { ExcludedColumns, NO_RULES, rulesOf } from '../src/scheduling/eligibility.ts';
import { findEligible } from '../src/scheduling/find-eligible.ts';
import { SlotLoads } from '../src/scheduling/slot-loads.ts';
import { ReservationTable } from '../src/services/selection/reservation-table.ts';
import { type BenchRoad, BLOCK, hasher, PARTITION } from './bench-road.ts';
import type { Contender } from './interleaved.ts';
import { FACTS } from './selection-fixture.ts';

/** The parts in the order of the road. */
export interface CoreParts {
  readonly parts: readonly Contender[];
  /** Whether they did anything. */
  used(): boolean;
}

/** @param pinnedTo the worker that takes the request; null = any, and nobody builds a hint. */
export function coreParts(road: BenchRoad, tokens: Uint32Array, pinnedTo: bigint | null): CoreParts {
  const { fleet, index, runtime } = road;
  const blocks = tokens.length / BLOCK;
  const hashes = hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED);
  const match = index.find(hashes.local, hashes.sequence, TIERS);
  const candidates = fleet.candidates(PARTITION, 'aggregated');
  const pinnedWorker = pinnedTo === null ? null : { workerId: pinnedTo, rank: null };
  const constraints = { ...NO_CONSTRAINTS, pinnedWorker };
  const facts = { ...FACTS, promptTokens: tokens.length, requestBlocks: blocks, pinnedWorker };
  const loads = new SlotLoads();
  const table = new CandidateColumns();
  const excluded = new ExcludedColumns();
  loads.ensureCapacity(fleet.slotCapacity);
  let sunk = 0;

  const eligible = () => {
    const rules = rulesOf(constraints, null);
    findEligible(fleet, candidates, rules, null, table, excluded);
    sunk += table.count;
    return rules === NO_RULES;
  };
  const project = () => {
    table.fillCache(match, 0.75, 0.25, BLOCK);
    loads.measure(hashes.sequence);
    table.fillLoad(loads, blocks);
    table.neutralTaints();
    sunk += table.decodeCostBlocks[0]!;
  };
  // Requests that ask for nothing find the rows as they were.
  const plain = eligible();
  project();
  const booking: HintBooking = {
    requestId: 'bench',
    slot: table.slots[0]!,
    workerId: table.workerIds[0]!,
    rank: 0,
    role: 'aggregated',
    partition: PARTITION,
    promptTokens: tokens.length,
    blockSize: BLOCK,
    session: null,
    hashes,
    match,
    index,
    incomingHint: null,
    selected: { table, row: 0 },
    loadOf: () => 0,
  };
  const parts: Contender[] = [
    {
      name: 'hash',
      once: () => {
        sunk += hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED).sequence[0]!;
      },
    },
    {
      name: 'look-up',
      once: () => {
        sunk += index.find(hashes.local, hashes.sequence, TIERS).count;
      },
    },
    ...(plain ? [] : [{ name: 'eligible', once: eligible }]),
    { name: 'loads', once: project },
    {
      name: 'selection',
      once: () => {
        sunk += runtime.select(table, facts).row;
      },
    },
    {
      name: 'booking and release',
      once: () => {
        const attempt = loads.book(booking.slot, hashes.sequence, blocks, tokens.length);
        sunk += attempt;
        loads.free(attempt);
      },
    },
  ];
  const reservations = new ReservationTable<number>();
  parts.push({
    name: 'reservation row',
    once: () => {
      const claim = reservations.claim('bench');
      if (claim.install(1)) sunk += 1;
      reservations.remove('bench', 1);
    },
  });
  const stage = runtime.hintStage;
  if (pinnedTo !== null && stage !== null) {
    parts.push({
      name: 'hint',
      once: () => {
        sunk += stage.run(booking).hint?.actions.length ?? 0;
      },
    });
  }
  return { parts, used: () => sunk !== 0 };
}
