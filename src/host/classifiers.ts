// The request classifier of a configuration: found in the catalog, created once per partition (or once, with scope `shared`), disposed
// at the end.
import { didYouMean, type ModelConfig, nameList, type RouterConfig } from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  type AnyClassifierCreateContext,
  type ClassifierEvent,
  type ClassifierWorker,
  type Clock,
  errorText,
  type Logger,
  type Partition,
  PointsmanError,
  seededRng,
  type WorkerId,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import { BUILT_IN_VERSION, type PolicyCatalog, type PreparedClassifier, prepareWithin } from './catalog.ts';
import { classifierClosed } from './classifier-errors.ts';
import { ClassifierEvents } from './classifier-events.ts';
import { PartitionClassifier } from './classifier-stage.ts';
import type { ClassifierSource, ClassifierStage } from './classifier-types.ts';
import { type CreatedClassifier, checkClassifier } from './created-classifier.ts';
import type { PluginGuard, PluginGuards } from './plugin-guard.ts';
import { openMeter } from './plugin-meters.ts';
import type { ProblemList } from './problem-list.ts';
import { deriveSeed } from './seeds.ts';

/** What `default` stands for. */
const DEFAULT_CLASSIFIER = 'pass-through';

/** A classifier with its parameters read, and what the configuration says of it. */
export interface ResolvedClassifier {
  readonly prepared: PreparedClassifier;
  readonly maxWaitMs: number;
}

/** What classifiers need of a configuration. */
export interface ClassifiedConfig extends Pick<RouterConfig, 'policyClasses'> {
  readonly models: ReadonlyMap<string, Pick<ModelConfig, 'blockSize' | 'policyClasses'>>;
}

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
  }[];
}

/** A created classifier and whoever tells it of events, one at a time however many partitions it serves. */
interface Instance {
  readonly classifier: CreatedClassifier;
  readonly events: ClassifierEvents;
}

/** What creation works with. */
export interface ClassifierPorts {
  readonly clock: Clock;
  readonly seed: number;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Null = nothing is guarded. */
  readonly guards: PluginGuards | null;
  /** Null = there are no workers to see. */
  readonly fleet: ClassifierFleet | null;
  /** What requests under way hold of the classifiers; absent = nobody counts. */
  readonly hold?: GenerationHold;
  /** Told of every event as the classifier is; absent = nobody else is. */
  readonly told?: (event: ClassifierEvent) => void;
}

/** Finds the configured classifier; null = there is none, or a problem was noted. */
export async function resolveClassifier(
  config: RouterConfig,
  catalog: PolicyCatalog,
  problems: ProblemList,
  clock: Clock,
): Promise<ResolvedClassifier | null> {
  const entry = config.requestClassifier;
  if (entry === null) return null;
  const type = entry.type === 'default' ? DEFAULT_CLASSIFIER : entry.type;
  const found = catalog.classifiers.get(type);
  if (found === undefined) {
    const known = [...catalog.classifiers.keys()];
    const other = catalog.hints.has(type)
      ? 'a hint policy; list it under the hints of a role'
      : catalog.selections.has(type)
        ? 'a worker-selection policy; name it under worker_selection'
        : null;
    const message =
      other === null
        ? `unknown request classifier "${type}"; known: ${nameList(known)}${didYouMean(type, known)}`
        : `${type} is ${other}, and choose a request classifier: ${nameList(known)}`;
    problems.error('PM_POLICY_UNKNOWN', entry.typePath, 'value', message);
    return null;
  }
  const preparation = await prepareWithin(clock, found, entry.parameters);
  if (preparation.faults !== null) {
    problems.parameters('error', entry.path, preparation.faults, type);
    return null;
  }
  return { prepared: preparation.prepared, maxWaitMs: entry.maxWaitMs };
}

/** The classifiers of one configuration. */
export class Classifiers implements ClassifierSource {
  readonly #config: ClassifiedConfig;
  readonly #resolved: ResolvedClassifier | null;
  readonly #ports: ClassifierPorts;
  /** By model, then by routing group. Null = created, and there is nothing to ask or tell. */
  readonly #stages = new Map<string, Map<string, PartitionClassifier | null>>();
  readonly #open: PartitionClassifier[] = [];
  readonly #deliveries = new Set<ClassifierEvents>();
  readonly #disposers: (() => unknown)[] = [];
  #shared: Instance | null = null;
  #closed = false;

  constructor(config: ClassifiedConfig, resolved: ResolvedClassifier | null, ports: ClassifierPorts) {
    this.#config = config;
    this.#resolved = resolved;
    this.#ports = ports;
  }

  /** What is in use; null = nothing. */
  get resolved(): ResolvedClassifier | null {
    return this.#resolved;
  }

  classifierFor(partition: Partition): ClassifierStage | null {
    const resolved = this.#resolved;
    if (resolved === null) return null;
    // One made now would never be disposed.
    if (this.#closed) throw classifierClosed();
    const ofModel = this.#stages.get(partition.model);
    const known = ofModel?.get(partition.routingGroup);
    if (known !== undefined) return known;
    const stage = this.#stageOf(resolved, partition);
    if (ofModel === undefined) this.#stages.set(partition.model, new Map([[partition.routingGroup, stage]]));
    else ofModel.set(partition.routingGroup, stage);
    return stage;
  }

  classifiersUnsettled(): boolean {
    for (const events of this.#deliveries) if (events.waiting) return true;
    return this.#open.some((stage) => stage.waiting);
  }

  /** Every partition whose classifier was asked for. */
  partitions(): readonly Partition[] {
    return [...this.#stages].flatMap(([model, ofModel]) =>
      [...ofModel.keys()].map((routingGroup) => ({ model, routingGroup })),
    );
  }

  /** Ends every wait; returns what disposes the instances. */
  close(): readonly (() => unknown)[] {
    this.#closed = true;
    for (const events of this.#deliveries) events.close();
    this.#deliveries.clear();
    for (const stage of this.#open.splice(0)) stage.close();
    this.#stages.clear();
    return this.#disposers.splice(0);
  }

  #stageOf(resolved: ResolvedClassifier, partition: Partition): PartitionClassifier | null {
    const { type } = resolved.prepared;
    const guard = this.#guardOf(resolved.prepared);
    const { classifier, events } = this.#create(resolved.prepared, partition, guard);
    if (classifier.classify === null && classifier.onEvent === null) return null;
    const { clock, metrics, log, guards, hold } = this.#ports;
    const stage = new PartitionClassifier({
      classify: classifier.classify,
      events,
      type,
      classes: new Set(this.#config.models.get(partition.model)?.policyClasses ?? this.#config.policyClasses),
      maxWaitMs: resolved.maxWaitMs,
      refusesWhenTripped: guards?.refusesClassification ?? false,
      guard,
      hold: hold ?? null,
      clock,
      metrics,
      log,
    });
    this.#open.push(stage);
    return stage;
  }

  #guardOf({ type, origin }: PreparedClassifier): PluginGuard | null {
    // Built-in classifiers are the host's own code.
    if (origin.version === BUILT_IN_VERSION) return null;
    return this.#ports.guards?.of({ role: null, part: 'classifier', plugin: type }, origin) ?? null;
  }

  #create(prepared: PreparedClassifier, partition: Partition, guard: PluginGuard | null): Instance {
    if (this.#shared !== null) return this.#shared;
    const isShared = prepared.scope === 'shared';
    const label = `request classifier ${prepared.type}`;
    const where = isShared ? ['shared'] : [partition.model, partition.routingGroup];
    const { clock, log } = this.#ports;
    const meter = openMeter(prepared.type, this.#ports.metrics, log);
    const base = {
      parameters: undefined,
      clock,
      rng: seededRng(deriveSeed(this.#ports.seed, ...where, 'classifier')),
      log,
      metrics: meter.metrics,
    };
    const context = isShared ? base : { ...base, ...this.#partitionContext(partition) };
    let classifier: CreatedClassifier;
    try {
      classifier = checkClassifier(
        // A shared classifier gets no partition, as its own type of `create` says.
        noted(guard, () => created(prepared, context as AnyClassifierCreateContext, label, partition)),
        label,
      );
    } catch (thrown) {
      meter.close();
      throw thrown;
    }
    this.#disposers.unshift(classifier.dispose, () => meter.close());
    const instance = { classifier, events: this.#eventsOf(classifier, prepared.type, guard) };
    if (isShared) this.#shared = instance;
    return instance;
  }

  #eventsOf({ onEvent }: CreatedClassifier, classifier: string, guard: PluginGuard | null): ClassifierEvents {
    const { clock, log, metrics, told } = this.#ports;
    const heard =
      told === undefined
        ? onEvent
        : (event: ClassifierEvent) => {
            told(event);
            return onEvent?.(event);
          };
    let complained = false;
    const events = new ClassifierEvents({
      clock,
      onEvent: heard === null ? null : (event) => noted(guard, () => heard(event)),
      failed(thrown) {
        metrics.count('pointsman_classifier_event_failures_total', { classifier });
        if (complained) return;
        complained = true;
        log.error('a request classifier failed to take an event', { classifier, error: errorText(thrown) });
      },
    });
    this.#deliveries.add(events);
    return events;
  }

  #partitionContext(partition: Partition) {
    const blockSize = this.#config.models.get(partition.model)?.blockSize ?? null;
    const { fleet } = this.#ports;
    const workers = () => (fleet === null ? [] : workersOf(fleet, partition.model));
    return { partition: Object.freeze({ ...partition }), blockSize, workers };
  }
}

function created(
  prepared: PreparedClassifier,
  context: AnyClassifierCreateContext,
  label: string,
  { model }: Partition,
): unknown {
  try {
    return prepared.create(context);
  } catch (thrown) {
    throw new PointsmanError('PM_PLUGIN_THREW', `create of ${label} threw for model ${model}`, {
      cause: thrown,
      details: { policy: prepared.type, component: 'create' },
    });
  }
}

function workersOf(fleet: ClassifierFleet, model: string): readonly ClassifierWorker[] {
  const of = fleet.workers().filter(({ spec, state }) => spec.model === model && state !== 'gone');
  return Object.freeze(
    of.map(({ spec, capabilities }) =>
      Object.freeze({
        workerId: spec.id,
        ranks: Object.freeze(Array.from({ length: spec.ranks.count }, (_, at) => spec.ranks.first + at)),
        totalKvBlocks: spec.totalKvBlocks ?? capabilities?.totalKvBlocks ?? null,
      }),
    ),
  );
}

function noted<T>(guard: PluginGuard | null, call: () => T): T {
  guard?.note();
  try {
    return call();
  } finally {
    guard?.unnote();
  }
}
