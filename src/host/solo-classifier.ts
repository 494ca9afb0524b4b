// The classifier of one partition for a definition at hand, without a configuration: for tests of classifiers and for embedders. The
// same preparation, creation and stage as under a host.
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import type {
  ClassifierEvent,
  Clock,
  Logger,
  Partition,
  RequestClassifierDefinition,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import type { ClassifierFleet } from './classifier-site.ts';
import type { ClassifierSource } from './classifier-types.ts';
import { Classifiers } from './classifiers.ts';
import type { PluginGuards } from './plugin-guard.ts';
import { quietly } from './role-creation.ts';
import { prepareSolo, type SoloPolicy } from './solo-runtime.ts';

/** What a solo classifier is made of. */
export interface SoloClassifierOptions extends SoloPolicy<RequestClassifierDefinition> {
  readonly partition: Partition;
  /** Tokens per block; null = not configured. */
  readonly blockSize: number | null;
  /** What may be named as a policy class; default: `default` alone. */
  readonly policyClasses?: readonly string[];
  readonly maxWaitMs: number;
  readonly clock: Clock;
  readonly seed: number;
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly fleet?: ClassifierFleet;
  readonly guards?: PluginGuards;
  readonly hold?: GenerationHold;
  /** Told of every event as the classifier is. */
  readonly told?: (event: ClassifierEvent) => void;
}

/** A classifier that was created on its own. */
export interface SoloClassifier extends ClassifierSource {
  close(): Promise<void>;
}

/**
 * Prepares and creates.
 * @throws PointsmanError PM_PLUGIN_INVALID, PM_POLICY_PARAMETERS, PM_PLUGIN_THREW.
 */
export async function createSoloClassifier(options: SoloClassifierOptions): Promise<SoloClassifier> {
  const { definition, parameters, partition, blockSize, maxWaitMs, clock, seed, log } = options;
  const prepared = await prepareSolo(definition, parameters, (catalog) =>
    catalog.classifiers.get(definition.type),
  );
  const model = { blockSize, policyClasses: options.policyClasses ?? null };
  const classifiers = new Classifiers(
    { models: new Map([[partition.model, model]]), policyClasses: ['default'] },
    { prepared, maxWaitMs, thread: null },
    {
      clock,
      seed,
      log,
      metrics: options.metrics ?? NO_METRICS,
      guards: options.guards ?? null,
      fleet: options.fleet ?? null,
      ...(options.hold === undefined ? {} : { hold: options.hold }),
      ...(options.told === undefined ? {} : { told: options.told }),
    },
  );
  classifiers.classifierFor(partition);
  return {
    classifierFor: (of) => classifiers.classifierFor(of),
    classifiersUnsettled: () => classifiers.classifiersUnsettled(),
    async close() {
      for (const dispose of classifiers.close()) await quietly(dispose, log);
    },
  };
}
