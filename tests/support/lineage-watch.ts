// A hint policy and a worker-selection policy that note what they see of sessions.
import {
  type BlockResidency,
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  pickWorker,
  type SessionContext,
  type SessionLineage,
  scoreWorkers,
  type WorkerRank,
} from '../../src/plugin/index.ts';

/** What a hint policy saw when it was asked. */
export interface SeenByHints {
  readonly requestId: string;
  readonly session: SessionContext | null;
  readonly worker: WorkerRank;
  readonly lineage: SessionLineage | null;
  readonly residency: BlockResidency | null;
  /** Of the request's own session on the booked rank; null where nothing is kept. */
  readonly paths: readonly bigint[][] | null;
  readonly unique: readonly bigint[];
  readonly exclusive: readonly bigint[];
}

/** Policies `watch_lineage` and `pick_by_lineage`, and what they saw. */
export function lineageWatch() {
  const hints: SeenByHints[] = [];
  const picks: { readonly sessionId: string | null; readonly blocks: readonly number[] | null }[] = [];
  const hintPolicy = defineHintPolicy({
    type: 'watch_lineage',
    inputs: ['session-lineage', 'residency'],
    create: () => ({
      buildHints({ lineage, requestId, residency, session, worker }) {
        const own = session === null ? null : lineage;
        const id = session?.sessionId ?? '';
        hints.push({
          requestId,
          session,
          worker,
          lineage,
          residency,
          paths: own?.paths(id, worker).map((path) => [...path]) ?? null,
          unique: [...(own?.uniqueBlocks(id, worker) ?? [])],
          exclusive: [...(own?.exclusiveBlocks(id, worker) ?? [])],
        });
        return [];
      },
    }),
  });
  const selection = defineWorkerSelectionPolicy({
    type: 'pick_by_lineage',
    create: () => ({
      scorers: [
        scoreWorkers({
          inputs: ['session-lineage'],
          score({ count, lineage, ranks, workerIds }, costs, { session }) {
            const sessionId = session?.sessionId ?? null;
            const blocks: number[] = [];
            for (let row = 0; row < count; row += 1) {
              const worker = { workerId: workerIds[row]!, rank: ranks[row]! };
              const own = sessionId === null ? null : (lineage?.uniqueBlocks(sessionId, worker) ?? null);
              blocks.push(own?.length ?? 0);
              costs[row] = -(own?.length ?? 0);
            }
            picks.push({ sessionId, blocks: lineage === null ? null : blocks });
          },
        }),
      ],
      picker: pickWorker({ inputs: [], pick: ({ costs, count }) => lowest(costs, count) }),
    }),
  });
  return { hints, picks, definitions: [hintPolicy, selection] };
}

function lowest(costs: ArrayLike<number>, count: number): number {
  let row = 0;
  for (let at = 1; at < count; at += 1) if (costs[at]! < costs[row]!) row = at;
  return row;
}
