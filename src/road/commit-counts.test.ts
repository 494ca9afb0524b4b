// Every committed copy is counted once when it is made and once when it is settled.
import { expect, it } from 'vitest';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import { defineHintPolicy, defineWorkerSelectionPolicy, linearCostWithCopies } from '../plugin/index.ts';
import { prompt, REPORT, testRoad, workerSpec } from './road.fixtures.ts';

const counts = defineWorkerSelectionPolicy({
  type: 'counts-on-copies',
  commitments: ['kv-copy'],
  create: () => ({ cost: linearCostWithCopies({ shared_cache_multiplier: 0.5 }) }),
});

it.each(['degrade', 'release'] as const)(
  'made = sent + degraded + released, under %s',
  async (onCommitFailure) => {
    const counted = new Map<string, number>();
    const metrics: Metrics = {
      count(name: string, labels?: MetricLabels, by = 1) {
        if (!name.startsWith('pointsman_kv_copy_commits')) return;
        const key = name.includes('made') ? 'made' : String(labels?.result);
        counted.set(key, (counted.get(key) ?? 0) + by);
      },
      observe() {},
      gauge() {},
    };
    let runs = 0;
    const sender = defineHintPolicy({
      type: 'sender',
      commitments: ['kv-copy'],
      create: () => ({
        buildHints({ committedKvCopy }) {
          runs += committedKvCopy === null ? 0 : 1;
          return committedKvCopy === null || runs % 3 === 0
            ? []
            : [{ type: 'kv.fetch', version: '1.0', payload: {} }];
        },
      }),
    });
    const built = await testRoad({
      selection: { definition: counts },
      hints: [{ definition: sender }],
      workers: [workerSpec(1n), workerSpec(2n)],
      onCommitFailure,
      metrics,
    });
    built.cache(1n, prompt(1, 512));
    const pinnedTo = (workerId: bigint) => ({
      pinnedWorker: { workerId, rank: null },
      allowedWorkers: null,
      requiredTaints: [],
      preferredTaints: new Map<string, number>(),
      temperature: null,
      priority: 0,
      strictPriority: 0,
    });
    for (let request = 0; request < 9; request += 1) {
      built.arrive({ tokens: prompt(1, 512), constraints: pinnedTo(request % 3 === 0 ? 1n : 2n) });
      built.transport.last.sink.finished(REPORT);
    }
    built.expectIdle();
    const failed = onCommitFailure === 'degrade' ? 'degraded' : 'released';
    expect(Object.fromEntries(counted)).toEqual({ made: 6, sent: 4, [failed]: 2 });
  },
);
