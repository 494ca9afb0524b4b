// What waits, summed over queues, as samples of gauges.
import type { GaugeSample } from '../observe/index.ts';
import type { ModelQueue } from './model-queue.ts';
import { labelsOf } from './queue-names.ts';

/** One figure of every class; the queues of several routing groups of a model stand in one series. */
export function sumsOf<T>(
  queues: readonly ModelQueue<T>[],
  of: (stats: ModelQueue<T>['classes'][number]['stats']) => number,
): GaugeSample[] {
  const samples = new Map<string, { labels: GaugeSample['labels']; value: number }>();
  for (const queue of queues) {
    for (const { queueClass, stats } of queue.classes) {
      const labels = { ...labelsOf(queue), policy_class: queueClass.name };
      const key = JSON.stringify(Object.values(labels));
      samples.set(key, { labels, value: (samples.get(key)?.value ?? 0) + of(stats) });
    }
  }
  return [...samples.values()];
}
