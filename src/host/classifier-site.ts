// Where a classifier is created for, and the workers it sees there.
import type { ClassifierWorker, Partition, WorkerId } from '../plugin/index.ts';
import type { PreparedClassifier } from './catalog.ts';
import type { WorkersView } from './isolation/isolated-classifier.ts';
import type { ThreadSite } from './isolation/isolated-policy.ts';
import { deriveSeed } from './seeds.ts';

/** The fleet as classifiers see it. */
export interface ClassifierFleet {
  workers(): readonly {
    readonly spec: {
      readonly id: WorkerId;
      readonly model: string;
      readonly ranks: { readonly first: number; readonly count: number };
      readonly totalKvBlocks: number | null;
    };
    readonly state: string;
    readonly capabilities: { readonly totalKvBlocks?: number | null } | null;
    readonly engine?: { readonly description: { readonly totalKvBlocks: number | null } } | null;
  }[];
  /** Another one when what `workers` answers may have changed; absent = it has to be looked at. */
  readonly version?: number | undefined;
}

/** Seed of a classifier's generator, wherever it runs. */
export function classifierSeed(
  seed: number,
  { scope }: Pick<PreparedClassifier, 'scope'>,
  { model, routingGroup }: Partition,
): number {
  return deriveSeed(seed, ...(scope === 'shared' ? ['shared'] : [model, routingGroup]), 'classifier');
}

/** Where and with which seed a classifier is created in a thread. */
export function classifierSite(
  seed: number,
  prepared: Pick<PreparedClassifier, 'scope'>,
  partition: Partition,
  blockSize: number | null,
  fleet: ClassifierFleet | null,
): ThreadSite {
  const workers = () => (fleet === null ? [] : workersOf(fleet, partition.model).map(copied));
  return {
    seed: classifierSeed(seed, prepared, partition),
    place: prepared.scope === 'shared' ? null : { partition, blockSize, workers },
  };
}

/** The workers of a model as they change. */
export function workersView(fleet: ClassifierFleet, model: string): WorkersView {
  return {
    version: () =>
      fleet.version ??
      workersOf(fleet, model)
        .map(({ workerId, ranks, totalKvBlocks }) => `${workerId}:${ranks.join()}:${totalKvBlocks}`)
        .join(' '),
    read: () => workersOf(fleet, model).map(copied),
  };
}

/** The workers of a model now; frozen. */
export function workersOf(fleet: ClassifierFleet, model: string): readonly ClassifierWorker[] {
  const of = fleet.workers().filter(({ spec, state }) => spec.model === model && state !== 'gone');
  return Object.freeze(
    of.map(({ spec, capabilities, engine }) =>
      Object.freeze({
        workerId: spec.id,
        ranks: Object.freeze(Array.from({ length: spec.ranks.count }, (_, at) => spec.ranks.first + at)),
        totalKvBlocks:
          spec.totalKvBlocks ?? capabilities?.totalKvBlocks ?? engine?.description.totalKvBlocks ?? null,
      }),
    ),
  );
}

function copied({ ranks, ...facts }: ClassifierWorker) {
  return { ...facts, ranks: [...ranks] };
}
