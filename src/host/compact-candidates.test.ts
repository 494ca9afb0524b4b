import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WORKER_INPUTS, type WorkerInput } from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { CompactCandidates } from './compact-candidates.ts';
import type { CandidateTable } from './types.ts';

const COLUMNS = {
  cache: ['effectiveOverlapBlocks', 'cachedTokens', 'deviceBlocks', 'hostBlocks', 'diskBlocks'],
  load: ['loadAvailable', 'activePrefillTokens', 'decodeCostBlocks', 'activeRequests'],
  'preferred-taint': ['preferredTaintMultiplier'],
  occupancy: ['occupancy'],
  device: ['onCpu'],
  'in-flight-blocks': ['inFlightBlocks'],
  'cache-pressure': ['cachePressure'],
  'request-phases': [
    'prefillRequests',
    'prefillTokens',
    'prefillAttention',
    'prefillFrontMs',
    'decodeRequests',
    'bookedPromptTokens',
  ],
  'output-length': [],
  timing: ['timingKind'],
  'kv-copy-locations': ['copyableBlocks', 'sourcePrefixBlocks'],
  'session-lineage': [],
} as const satisfies Record<WorkerInput, readonly (keyof CandidateTable)[]>;

const NAMES = Object.values(COLUMNS).flat();

/** Numbers that say which column and row they are of. */
function filled(count: number, room: number, hasCopies: boolean): CandidateTable {
  const table = createCandidateTable(room);
  table.count = count;
  table.hasCopies = hasCopies;
  for (const [number, name] of NAMES.entries()) {
    for (let row = 0; row < count; row += 1) table[name][row] = 1 + number * 1000 + row;
  }
  for (let row = 0; row < count; row += 1) {
    table.workerIds[row] = (1n << 63n) + BigInt(row);
    table.ranks[row] = row % 3;
  }
  return table;
}

function rowsOf(table: CandidateTable, inputs: readonly WorkerInput[]) {
  return Array.from({ length: table.count }, (_, row) => [
    table.workerIds[row],
    table.ranks[row],
    ...inputs.flatMap((input) => COLUMNS[input].map((name) => table[name][row])),
  ]);
}

const inputs = fc.subarray([...WORKER_INPUTS]);
const counts = fc.integer({ min: 1, max: 300 });
const ALL = new Set(WORKER_INPUTS);

describe('a compact copy of the candidates', () => {
  it('holds the declared columns of every row, of few and of many, table after table', () => {
    fc.assert(
      fc.property(inputs, fc.array(counts, { minLength: 1, maxLength: 4 }), (declared, sizes) => {
        const copy = new CompactCandidates(new Set(declared));
        copy.grow(300);
        const known = filled(300, 300, true);
        for (const count of sizes) {
          const source = count % 2 === 0 ? filled(count, 300, true) : known;
          source.count = count;
          copy.take(source, null, count);
          expect(rowsOf(copy.table(), declared)).toEqual(rowsOf(source, declared));
        }
      }),
      { numRuns: 50 },
    );
  });

  it('holds chosen rows, and then fewer of them, also of columns that were read before', () => {
    fc.assert(
      fc.property(counts, fc.infiniteStream(fc.boolean()), fc.subarray(NAMES), (count, keeps, early) => {
        const choose = (rows: readonly number[]) => rows.filter(() => keeps.next().value);
        const chosen = choose(Array.from({ length: count }, (_, row) => row));
        const fewer = choose(chosen);
        const source = filled(count, count, true);
        const expected = rowsOf(source, WORKER_INPUTS);
        const copy = new CompactCandidates(ALL);
        copy.grow(count);
        copy.take(source, Int32Array.from(chosen), chosen.length);
        for (const name of early) expect(copy[name].values[0] ?? 0).toBeGreaterThanOrEqual(0);
        expect(rowsOf(copy.table(), WORKER_INPUTS)).toEqual(chosen.map((row) => expected[row]));
        copy.narrow(Int32Array.from(fewer), fewer.length);
        for (const name of early) {
          expect([...copy[name].values.subarray(0, fewer.length)]).toEqual(
            fewer.map((row) => source[name][row]),
          );
        }
        expect(rowsOf(copy.table(), WORKER_INPUTS)).toEqual(fewer.map((row) => expected[row]));
      }),
      { numRuns: 50 },
    );
  });

  it('copies a column once, when it is read, and only that one', () => {
    const source = filled(200, 256, true);
    const copy = new CompactCandidates(ALL);
    copy.grow(200);
    copy.take(source, null, 200);
    source.occupancy[3] = 71;
    const { values } = copy.occupancy;
    source.occupancy[3] = 72;
    source.activeRequests[3] = 73;
    expect([values[3], copy.occupancy.values[3], copy.activeRequests.values[3]]).toEqual([71, 71, 73]);
    expect(copy.occupancy.values).toBe(values);
  });

  it('shares nothing with what it was taken from', () => {
    const source = filled(200, 256, true);
    const copy = new CompactCandidates(ALL);
    copy.grow(200);
    copy.take(source, null, 200);
    copy.ids.workerIds.fill(0n);
    copy.ids.ranks.fill(-1);
    for (const name of NAMES) copy[name].values.fill(-1);
    expect(rowsOf(source, WORKER_INPUTS)).toEqual(rowsOf(filled(200, 256, true), WORKER_INPUTS));
  });

  it('says what can be copied as the host knows it, whatever is written into the column', () => {
    const source = filled(4, 4, true);
    source.copyableBlocks.set([0, 2, 0, 1]);
    const copy = new CompactCandidates(ALL);
    copy.grow(4);
    copy.take(source, Int32Array.of(0, 1), 2);
    copy.copyableBlocks.values.fill(9);
    expect([copy.hasCopyable(0), copy.hasCopyable(1)]).toEqual([false, true]);
  });
});
