// Two kinds of workers, CPU and anything else: as many requests on CPUs as their speed is worth, and the least loaded within the kind.
import { z } from 'zod';
import {
  type Column,
  defineWorkerSelectionPolicy,
  pickWorker,
  type Rng,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

const parameters = z.strictObject({ encoder_cuda_to_cpu_ratio: z.int().min(1).default(8) });

/** `device-aware-weighted`: the kind of worker by requests in flight and speed, then the fewest requests in flight; ties at random. */
export const deviceAwareWeighted: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'device-aware-weighted',
  parameters,
  create: ({ parameters: { encoder_cuda_to_cpu_ratio: ratio }, rng }) => ({
    picker: pickWorker({
      inputs: ['occupancy', 'device'],
      pick: ({ count, occupancy, onCpu }) =>
        fewestOn(takesCpu(count, occupancy, onCpu, ratio) ? 1 : 0, count, occupancy, onCpu, rng),
    }),
  }),
});

/** Whether the request goes to a CPU: always or never where there is one kind only. */
function takesCpu(count: number, occupancy: Column, onCpu: Column, ratio: number): boolean {
  let cpus = 0;
  let onCpus = 0;
  let onOthers = 0;
  for (let row = 0; row < count; row += 1) {
    if (onCpu[row] === 1) {
      cpus += 1;
      onCpus += occupancy[row]!;
    } else onOthers += occupancy[row]!;
  }
  const others = count - cpus;
  if (cpus === 0 || others === 0) return others === 0;
  return onCpus < Math.floor((onOthers * cpus) / (ratio * others));
}

/** Row of that kind with the fewest requests in flight; the k-th of equals takes over with probability 1/k. */
function fewestOn(kind: number, count: number, occupancy: Column, onCpu: Column, rng: Rng): number {
  let fewest = Number.POSITIVE_INFINITY;
  let chosen = -1;
  let ties = 0;
  for (let row = 0; row < count; row += 1) {
    if (onCpu[row] !== kind || occupancy[row]! > fewest) continue;
    ties = occupancy[row]! < fewest ? 1 : ties + 1;
    fewest = occupancy[row]!;
    if (ties === 1 || rng.integer(ties) === 0) chosen = row;
  }
  return chosen;
}
