// The request classifier of a configuration: created once per partition (or once, with scope `shared`), disposed at the end.
import type { ModelConfig, RouterConfig } from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  type AnyClassifierCreateContext,
  type ClassifierEvent,
  type Clock,
  errorText,
  type Logger,
  type Partition,
  PointsmanError,
  seededRng,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import { BUILT_IN_VERSION, type PreparedClassifier } from './catalog.ts';
import { classifierClosed } from './classifier-errors.ts';
import { ClassifierEvents, type EventDelivery } from './classifier-events.ts';
import type { ResolvedClassifier } from './classifier-resolution.ts';
import {
  type ClassifierFleet,
  classifierSeed,
  classifierSite,
  workersOf,
  workersView,
} from './classifier-site.ts';
import { PartitionClassifier } from './classifier-stage.ts';
import type { ClassifierSource, ClassifierStage } from './classifier-types.ts';
import { type CreatedClassifier, checkClassifier } from './created-classifier.ts';
import type { IsolatedClassifier } from './isolation/isolated-classifier.ts';
import type { ClassifierThreads, ThreadPlan } from './isolation/thread-instances.ts';
import { pluginClock } from './plugin-clock.ts';
import type { PluginGuard, PluginGuards } from './plugin-guard.ts';
import { pluginLog } from './plugin-log.ts';
import { openMeter } from './plugin-meters.ts';

/** What classifiers need of a configuration. */
export interface ClassifiedConfig extends Pick<RouterConfig, 'policyClasses'> {
  readonly models: ReadonlyMap<string, Pick<ModelConfig, 'blockSize' | 'policyClasses'>>;
}

/** A created classifier and whoever tells it of events, one at a time however many partitions it serves. */
interface Instance {
  readonly classify: CreatedClassifier['classify'];
  /** It runs in a thread; null = it runs here. */
  readonly isolated: IsolatedClassifier | null;
  readonly events: EventDelivery;
  /** Whether it is neither asked nor told of anything. */
  readonly isIdle: boolean;
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
  /** Threads of plugins, started; absent or null = it runs in process. */
  readonly threads?: ClassifierThreads | null;
  /** What requests under way hold of the classifiers; absent = nobody counts. */
  readonly hold?: GenerationHold;
  /** Told of every event as the classifier is; absent = nobody else is. */
  readonly told?: (event: ClassifierEvent) => void;
}

/** The classifiers of one configuration. */
export class Classifiers implements ClassifierSource {
  readonly #config: ClassifiedConfig;
  readonly #resolved: ResolvedClassifier | null;
  readonly #ports: ClassifierPorts;
  /** By model, then by routing group. Null = created, and there is nothing to ask or tell. */
  readonly #stages = new Map<string, Map<string, PartitionClassifier | null>>();
  readonly #open: PartitionClassifier[] = [];
  readonly #deliveries = new Set<EventDelivery>();
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
    const { classify, isolated, events, isIdle } = this.#instanceOf(resolved, partition, guard);
    if (isIdle) return null;
    const { clock, metrics, log, guards, hold } = this.#ports;
    const stage = new PartitionClassifier({
      classify,
      isolated,
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

  #instanceOf(
    { prepared, thread }: ResolvedClassifier,
    partition: Partition,
    guard: PluginGuard | null,
  ): Instance {
    if (this.#shared !== null) return this.#shared;
    const { threads } = this.#ports;
    const instance =
      thread !== null && threads != null
        ? this.#createInThread(prepared, thread, threads, partition, guard)
        : this.#create(prepared, partition, guard);
    this.#deliveries.add(instance.events);
    if (prepared.scope === 'shared') this.#shared = instance;
    return instance;
  }

  #create(prepared: PreparedClassifier, partition: Partition, guard: PluginGuard | null): Instance {
    const { clock, log, metrics, seed } = this.#ports;
    const label = `request classifier ${prepared.type}`;
    const meter = openMeter(prepared.type, metrics, log);
    const base = {
      parameters: undefined,
      clock: pluginClock(clock),
      rng: seededRng(classifierSeed(seed, prepared, partition)),
      log: pluginLog(log),
      metrics: meter.metrics,
    };
    const context = prepared.scope === 'shared' ? base : { ...base, ...this.#partitionContext(partition) };
    let classifier: CreatedClassifier;
    try {
      // A shared classifier gets no partition, as its own type of `create` says.
      const made = created(label, partition, prepared, () =>
        noted(guard, () => prepared.create(context as AnyClassifierCreateContext)),
      );
      classifier = checkClassifier(made, label);
    } catch (thrown) {
      meter.close();
      throw thrown;
    }
    // What its disposer reports still counts.
    this.#disposers.unshift(classifier.dispose, () => meter.close());
    const { classify, onEvent } = classifier;
    const events = this.#eventsOf(classifier, prepared.type, guard);
    return { classify, isolated: null, events, isIdle: classify === null && onEvent === null };
  }

  #createInThread(
    prepared: PreparedClassifier,
    plan: ThreadPlan,
    threads: ClassifierThreads,
    partition: Partition,
    guard: PluginGuard | null,
  ): Instance {
    const { fleet, seed } = this.#ports;
    const isolated = threads.createClassifier(
      plan,
      classifierSite(seed, prepared, partition, this.#blockSizeOf(partition), fleet),
      {
        guard,
        view: prepared.scope === 'shared' || fleet === null ? null : workersView(fleet, partition.model),
        eventFailed: this.#eventFailed(prepared.type),
      },
    );
    this.#disposers.unshift(() => isolated.dispose());
    return { classify: null, isolated, events: isolated, isIdle: false };
  }

  #eventsOf({ onEvent }: CreatedClassifier, classifier: string, guard: PluginGuard | null): ClassifierEvents {
    const { clock, told } = this.#ports;
    const heard =
      told === undefined
        ? onEvent
        : (event: ClassifierEvent) => {
            told(event);
            return onEvent?.(event);
          };
    return new ClassifierEvents({
      clock,
      onEvent: heard === null ? null : (event) => noted(guard, () => heard(event)),
      failed: this.#eventFailed(classifier),
    });
  }

  #eventFailed(classifier: string): (thrown: unknown) => void {
    const { log, metrics } = this.#ports;
    let complained = false;
    return (thrown) => {
      metrics.count('pointsman_classifier_event_failures_total', { classifier });
      if (complained) return;
      complained = true;
      log.error('a request classifier failed to take an event', { classifier, error: errorText(thrown) });
    };
  }

  #partitionContext(partition: Partition) {
    const { fleet } = this.#ports;
    const workers = () => (fleet === null ? [] : workersOf(fleet, partition.model));
    return { partition: Object.freeze({ ...partition }), blockSize: this.#blockSizeOf(partition), workers };
  }

  #blockSizeOf({ model }: Partition): number | null {
    return this.#config.models.get(model)?.blockSize ?? null;
  }
}

/** Calls `create`. @throws PointsmanError PM_PLUGIN_THREW. */
function created(
  label: string,
  { model }: Partition,
  { type }: PreparedClassifier,
  create: () => unknown,
): unknown {
  try {
    return create();
  } catch (thrown) {
    throw new PointsmanError('PM_PLUGIN_THREW', `create of ${label} threw for model ${model}`, {
      cause: thrown,
      details: { policy: type, component: 'create' },
    });
  }
}

function noted<T>(guard: PluginGuard | null, call: () => T): T {
  guard?.note();
  try {
    return call();
  } finally {
    guard?.unnote();
  }
}
