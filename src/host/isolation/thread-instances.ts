// All threads of a host, one per configured instance.
import type { Metrics } from '../../observe/index.ts';
import { type Clock, type Logger, PointsmanError } from '../../plugin/index.ts';
import { ClassifierWork } from './classifier-work.ts';
import { HintWork } from './hint-work.ts';
import type { ClassifierSiteOptions, IsolatedClassifier } from './isolated-classifier.ts';
import type { IsolatedPolicy, ThreadSite } from './isolated-policy.ts';

/** An instance that is to run in a thread. */
export interface ThreadPlan {
  /** Names the configured instance: entries of one key share a thread. */
  readonly key: string;
  /** As the configuration names it. */
  readonly name: string;
  readonly specifier: string;
  /** Digests of the module's files as the router loaded them, by absolute path. */
  readonly files: ReadonlyMap<string, string>;
  readonly kind: 'hint' | 'classifier';
  readonly type: string;
  readonly parameters: unknown;
  readonly deadlineMs: number;
}

/** What threads of plugins are made with. */
export interface ThreadPorts {
  /** Where the plugins are looked up; absolute. */
  readonly folder: string;
  readonly modules: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Threads of one host at most. */
export const MOST_THREADS = 16;

/** Makes policies that run in threads. */
export interface PolicyThreads {
  /**
   * A policy in the thread of its instance.
   * @param sharedBy what all who give the same share one policy by; it lives as long as the threads. Null = a policy of its own.
   */
  create(plan: ThreadPlan, site: ThreadSite, sharedBy: object | null): IsolatedPolicy;
}

/** Makes classifiers that run in threads. */
export interface ClassifierThreads {
  createClassifier(plan: ThreadPlan, site: ThreadSite, options: ClassifierSiteOptions): IsolatedClassifier;
}

/** Stands in while roles are tried out: each thread tries its own policies, see {@link ThreadInstances.try}. */
export const TRIED_ELSEWHERE: PolicyThreads = {
  create: ({ deadlineMs }) => ({
    deadlineMs,
    ready: false,
    call: (_context, answered) => answered({ kind: 'lost' }),
    dispose: () => Promise.resolve(),
  }),
};

/** The threads. */
export class ThreadInstances implements PolicyThreads, ClassifierThreads {
  readonly #ports: ThreadPorts;
  readonly #instances = new Map<string, HintWork | ClassifierWork>();
  readonly #shared = new Map<object, IsolatedPolicy>();

  readonly #most: number;

  /** @param most threads at once. */
  constructor(ports: ThreadPorts, most = MOST_THREADS) {
    this.#ports = ports;
    this.#most = most;
  }

  /** Starts the thread of an instance unless it runs. @throws PointsmanError PM_PLUGIN_LOAD. */
  async start(plan: ThreadPlan): Promise<void> {
    const { key, kind, name, specifier, files, type, parameters, deadlineMs } = plan;
    if (this.#instances.has(key)) return;
    if (this.#instances.size === this.#most) {
      throw new PointsmanError(
        'PM_PLUGIN_LOAD',
        `at most ${this.#most} plugins run in threads of their own; let some run in process`,
      );
    }
    const { folder, modules, clock, log, metrics } = this.#ports;
    const start = { folder, specifier, files, kind, type, parameters, modules };
    const options = { name, start, clock, log, metrics };
    const instance = kind === 'hint' ? new HintWork(options) : new ClassifierWork(options, deadlineMs);
    await instance.keeper.start();
    this.#instances.set(key, instance);
  }

  /** Creates a policy and disposes it again; answers what `create` threw, or null. */
  try(plan: ThreadPlan, site: ThreadSite): Promise<string | null> {
    return this.#of(plan).keeper.try(site);
  }

  create(plan: ThreadPlan, site: ThreadSite, sharedBy: object | null): IsolatedPolicy {
    const known = sharedBy === null ? undefined : this.#shared.get(sharedBy);
    if (known !== undefined) return known;
    const work = this.#of(plan);
    if (!(work instanceof HintWork)) throw noThread(plan);
    const policy = work.create(site, plan.deadlineMs);
    if (sharedBy !== null) this.#shared.set(sharedBy, policy);
    return policy;
  }

  createClassifier(plan: ThreadPlan, site: ThreadSite, options: ClassifierSiteOptions): IsolatedClassifier {
    const work = this.#of(plan);
    if (!(work instanceof ClassifierWork)) throw noThread(plan);
    return work.create(site, options);
  }

  #of(plan: ThreadPlan): HintWork | ClassifierWork {
    const instance = this.#instances.get(plan.key);
    if (instance === undefined) throw noThread(plan);
    return instance;
  }

  /** Ends all threads. */
  async close(): Promise<void> {
    const instances = [...this.#instances.values()];
    this.#instances.clear();
    this.#shared.clear();
    await Promise.all(instances.map(({ keeper }) => keeper.close()));
  }
}

function noThread({ name }: ThreadPlan): PointsmanError {
  return new PointsmanError('PM_INTERNAL', `${name} has no thread`);
}
