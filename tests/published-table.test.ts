import { describe, expect, it } from 'vitest';
import { publishedSection } from '../scripts/published-table.mjs';

const selection = [2, 32, 1024, 10_000].map((workers) => ({
  case: `default_worker_selection/direct/temperature_0/${workers}`,
  unit: 'ns/decision',
  value: workers * 1.5,
  ratio: 8,
  against: 'Map of objects',
}));
const wrapper = { ...selection[0]!, case: 'default_policy_wrapper/policy/2', ratio: 0.8 };
const core = { ...selection[0]!, case: 'selection_core/no_hints/8', unit: 'µs', value: 2.5, ratio: 0.5 };
const results = (rows: readonly (typeof wrapper)[]) =>
  new Map([
    ['selection', { rows: [...rows, wrapper] }],
    ['selection-core', { rows: [core] }],
  ]);

describe('the published rows', () => {
  it('stand under their names, with our time, the published one and our ratio to the baseline of the run', () => {
    const rows = publishedSection(results(selection))
      ?.split('\n')
      .filter((line) => line.startsWith('| ') && !line.startsWith('| bench') && !line.startsWith('| ---'));
    expect(rows).toEqual([
      '| selection_core select, reserve and free, 8 workers | 2.5 µs | 17.36 µs | 2× | Map of objects |',
      '| default selection, 2 workers | 3 ns | 99 ns | 0.125× | Map of objects |',
      '| default selection, 32 workers | 48 ns | 696 ns | 0.125× | Map of objects |',
      '| default selection, 1,024 workers | 1.536 µs | 21.26 µs | 0.125× | Map of objects |',
      '| default selection, 10,000 workers | 15 µs | 315.69 µs | 0.125× | Map of objects |',
      '| default policy wrapper, 2 workers | 3 ns | 98 ns | 1.25× | Map of objects |',
    ]);
  });

  it('are left out while one of them was not measured', () => {
    expect(publishedSection(results(selection.slice(1)))).toBeNull();
    expect(publishedSection(new Map())).toBeNull();
  });
});
