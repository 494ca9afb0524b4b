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
  'kv-copy-locations': ['copyableBlocks', 'sourcePrefixBlocks'],
  'session-lineage': [],
} as const satisfies Record<WorkerInput, readonly (keyof CandidateTable)[]>;

/** Numbers that say which column and row they are of. */
function filled(count: number, room: number, hasCopies: boolean): CandidateTable {
  const table = createCandidateTable(room);
  table.count = count;
  table.hasCopies = hasCopies;
  for (const [number, name] of Object.values(COLUMNS).flat().entries()) {
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
          expect(rowsOf(copy.table, declared)).toEqual(rowsOf(source, declared));
        }
      }),
      { numRuns: 50 },
    );
  });

  it('takes chosen rows, of another table and of itself', () => {
    fc.assert(
      fc.property(counts, fc.infiniteStream(fc.boolean()), (count, keeps) => {
        const chosen = Array.from({ length: count }, (_, row) => row).filter(() => keeps.next().value);
        const source = filled(count, count, true);
        const expected = rowsOf(source, WORKER_INPUTS);
        const copy = new CompactCandidates(new Set(WORKER_INPUTS));
        copy.grow(count);
        copy.take(source, Int32Array.from(chosen), chosen.length);
        expect(rowsOf(copy.table, WORKER_INPUTS)).toEqual(chosen.map((row) => expected[row]));
        copy.take(source, null, count);
        copy.take(copy.table, Int32Array.from(chosen), chosen.length);
        expect(rowsOf(copy.table, WORKER_INPUTS)).toEqual(chosen.map((row) => expected[row]));
      }),
      { numRuns: 50 },
    );
  });

  it('shares nothing with what it was taken from', () => {
    const source = filled(200, 256, true);
    const copy = new CompactCandidates(new Set(WORKER_INPUTS));
    copy.grow(200);
    copy.take(source, null, 200);
    copy.table.workerIds.fill(0n);
    for (const name of Object.values(COLUMNS).flat()) copy.table[name].fill(-1);
    expect(rowsOf(source, WORKER_INPUTS)).toEqual(rowsOf(filled(200, 256, true), WORKER_INPUTS));
  });
});
