import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { deviceAwareWeighted } from './policy.ts';

const cpu = (occupancy: number) => ({ occupancy, onCpu: true });
const gpu = (occupancy: number) => ({ occupancy });

const rows = async (
  candidates: readonly { readonly occupancy: number; readonly onCpu?: boolean }[],
  ratio?: number,
): Promise<Set<number>> => {
  const parameters = ratio === undefined ? {} : { encoder_cuda_to_cpu_ratio: ratio };
  const trial = { candidates, parameters, decisions: 60 };
  const { decisions } = await testWorkerSelection(deviceAwareWeighted, trial);
  return new Set(decisions.map(({ row }) => row));
};

describe('device-aware-weighted', () => {
  it('asks for occupancy alone of what has to be prepared', async () => {
    const { needs } = await testWorkerSelection(deviceAwareWeighted, { candidates: [gpu(0)] });
    expect(Object.entries(needs).filter(([, needed]) => needed)).toEqual([['occupancy', true]]);
  });

  it('takes the least loaded where there is one kind only, ties at random', async () => {
    expect(await rows([gpu(3), gpu(1), gpu(1)])).toEqual(new Set([1, 2]));
    expect(await rows([cpu(3), cpu(1), cpu(2)])).toEqual(new Set([1]));
  });

  it('gives CPUs their share and no more: 2 CPUs beside 2 others, 8 to 1', async () => {
    // floor(16 × 2 / (8 × 2)) = 2
    expect(await rows([cpu(0), cpu(1), gpu(8), gpu(8)])).toEqual(new Set([0]));
    expect(await rows([cpu(1), cpu(1), gpu(8), gpu(8)])).toEqual(new Set([2, 3]));
    // floor(15 × 2 / 16) = 1
    expect(await rows([cpu(0), cpu(0), gpu(7), gpu(8)])).toEqual(new Set([0, 1]));
    expect(await rows([cpu(1), cpu(0), gpu(7), gpu(8)])).toEqual(new Set([2]));
    // Nothing in flight allows nothing on CPUs.
    expect(await rows([cpu(0), gpu(0)])).toEqual(new Set([1]));
    expect(await rows([cpu(0), gpu(4)], 4)).toEqual(new Set([0]));
  });

  it('follows the published rule for any fleet', async () => {
    const worker = fc.record({ occupancy: fc.nat(40), onCpu: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(worker, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 10 }),
        async (fleet, ratio) => {
          const sum = (some: typeof fleet): number =>
            some.reduce((total, { occupancy }) => total + occupancy, 0);
          const cpus = fleet.filter(({ onCpu }) => onCpu);
          const others = fleet.filter(({ onCpu }) => !onCpu);
          const allowed = Math.floor((sum(others) * cpus.length) / (ratio * others.length));
          const group = others.length === 0 || (cpus.length > 0 && sum(cpus) < allowed) ? cpus : others;
          const fewest = Math.min(...group.map(({ occupancy }) => occupancy));
          for (const row of await rows(fleet, ratio)) {
            expect(group).toContain(fleet[row]);
            expect(fleet[row]?.occupancy).toBe(fewest);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it.each([0, 1.5, -1])('refuses a ratio of %s', async (ratio) => {
    await expect(rows([gpu(0)], ratio)).rejects.toThrow('encoder_cuda_to_cpu_ratio');
  });
});
