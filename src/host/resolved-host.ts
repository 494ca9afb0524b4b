// What a configuration resolved to, at work: hands out one runtime per partition and role and one classifier per partition, and disposes
// what it created.
import type { ConfigProblem, RouterConfig } from '../config/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { type Partition, PointsmanError, type Role } from '../plugin/index.ts';
import { BUILT_IN_VERSION, type PolicyCatalog, type Prepared } from './catalog.ts';
import type { ResolvedClassifier } from './classifier-resolution.ts';
import type { ClassifierFleet } from './classifier-site.ts';
import type { ClassifierStage } from './classifier-types.ts';
import { Classifiers } from './classifiers.ts';
import type { HintFleet } from './copy-locations.ts';
import type {
  GenerationHost,
  GenerationParts,
  GenerationSites,
  PluginType,
  RuntimeSite,
} from './generation-host.ts';
import type { TrialParts } from './host-trial.ts';
import { ThreadInstances } from './isolation/thread-instances.ts';
import { type PluginGuard, PluginGuards, type PluginStatus } from './plugin-guard.ts';
import type { ClassifierResolution, PluginHostOptions, RoleResolution } from './plugin-host.ts';
import { type ProblemList, reportCreation } from './problem-list.ts';
import { type CreationPorts, createRole, quietly, type SharedPolicy } from './role-creation.ts';
import { keptFacts, provisionsOf, warnOfMissingCopies } from './role-provisions.ts';
import type { ResolvedRole } from './role-resolution.ts';
import { roleRuntimeOf } from './role-runtime.ts';
import { systemSeed } from './seeds.ts';
import { type SiteFailure, SiteFailures } from './site-failures.ts';
import { logStartupNotes } from './startup-notes.ts';
import { disposedInTime } from './time-limit.ts';
import type { RoleNeeds, RoleRuntime } from './types.ts';
import { hintStageOf } from './waiting-hint-stage.ts';

/** What was found for a configuration. */
export interface HostResolution {
  readonly roles: readonly ResolvedRole[];
  readonly catalog: PolicyCatalog;
  readonly classifier: ResolvedClassifier | null;
}

const NO_FLEET: HintFleet = { workerOfSlot: () => null, slotRank: () => -1 };

/** The host. */
export class ResolvedHost implements GenerationHost {
  readonly seed: number;
  readonly #config: RouterConfig;
  readonly #fleet: HintFleet;
  readonly #workers: ClassifierFleet | null;
  readonly #ports: CreationPorts;
  readonly #guards: PluginGuards;
  readonly #classifiers: Classifiers;
  readonly #threads: ThreadInstances | null;
  readonly #roles: ReadonlyMap<Role, ResolvedRole>;
  readonly #catalog: PolicyCatalog;
  readonly #runtimes = new Map<string, RoleRuntime>();
  readonly #sites: RuntimeSite[] = [];
  readonly #shared = new Map<Prepared, SharedPolicy>();
  readonly #disposers: (() => unknown)[] = [];
  readonly #failures: SiteFailures;
  #resolution: readonly RoleResolution[] = [];
  #warnings: readonly ConfigProblem[] = [];

  constructor(
    options: PluginHostOptions,
    { hold, probation }: GenerationParts,
    { roles, catalog, classifier }: HostResolution,
  ) {
    const { config, clock, log } = options;
    this.#config = config;
    this.#catalog = catalog;
    this.seed = options.seed || config.router.seed || systemSeed();
    this.#fleet = options.fleet ?? NO_FLEET;
    const metrics = options.metrics ?? NO_METRICS;
    const { wallMs = null, running = null } = options.containment ?? {};
    this.#guards = new PluginGuards({
      settings: config.containment,
      clock,
      wallMs,
      running,
      metrics,
      log,
      ...(probation === undefined ? {} : { probation }),
    });
    this.#threads =
      options.threads === undefined
        ? null
        : new ThreadInstances({ folder: options.source.folder, ...options.threads, clock, log, metrics });
    this.#ports = {
      clock,
      seed: this.seed,
      log,
      metrics,
      shared: this.#shared,
      guards: this.#guards,
      keeps: keptFacts(config.router),
      ...(this.#threads === null ? {} : { threads: this.#threads }),
      ...(hold === undefined ? {} : { hold }),
    };
    this.#roles = new Map(roles.map((role) => [role.role, role]));
    this.#workers = classifierFleet(options.fleet);
    this.#classifiers = new Classifiers(config, classifier, {
      clock,
      seed: this.seed,
      log,
      metrics,
      guards: this.#guards,
      fleet: this.#workers,
      threads: this.#threads,
      ...(hold === undefined ? {} : { hold }),
    });
    this.#failures = new SiteFailures(clock, log);
  }

  get warnings(): readonly ConfigProblem[] {
    return this.#warnings;
  }

  resolution(): readonly RoleResolution[] {
    return this.#resolution;
  }

  containment(): readonly PluginStatus[] {
    return this.#guards.status();
  }

  classifier(): ClassifierResolution | null {
    const { resolved } = this.#classifiers;
    if (resolved === null) return null;
    const { prepared, maxWaitMs } = resolved;
    return { type: prepared.type, version: prepared.origin.version, maxWaitMs };
  }

  classifierFor(partition: Partition): ClassifierStage | null {
    return this.#classifiers.classifierFor(partition);
  }

  classifiersUnsettled(): boolean {
    return this.#classifiers.classifiersUnsettled();
  }

  failures(): readonly SiteFailure[] {
    return this.#failures.list();
  }

  sites(): GenerationSites {
    return { runtimes: this.#sites, classified: this.#classifiers.partitions() };
  }

  types(): readonly PluginType[] {
    const { selections, hints, classifiers } = this.#catalog;
    const listed = [
      ...[...selections.values()].map((entry) => ({ ...entry, kind: 'worker-selection' as const })),
      ...[...hints.values()].map((entry) => ({ ...entry, kind: 'hint-policy' as const })),
      ...[...classifiers.values()].map((entry) => ({ ...entry, kind: 'request-classifier' as const })),
    ];
    return listed
      .filter(({ origin }) => origin.version !== BUILT_IN_VERSION)
      .map(({ type, kind, origin }) => ({ type, kind, origin }));
  }

  guards(): readonly PluginGuard[] {
    return this.#guards.all();
  }

  roleRuntime(partition: Partition, role: Role, blockSize?: number): RoleRuntime {
    const model = this.#config.models.get(partition.model);
    const tokens = blockSize ?? model?.blockSize ?? null;
    if (tokens === null) {
      throw new PointsmanError(
        'PM_SELECTION_BLOCK_SIZE_UNKNOWN',
        `the block size of model ${partition.model} is not known yet: set models.${partition.model}.block_size, or wait for its workers' first BlockStored`,
        { details: { model: partition.model } },
      );
    }
    const key = [partition.model, partition.routingGroup, role, tokens].join('\u0000');
    const known = this.#runtimes.get(key);
    if (known) return known;
    const resolved = this.#roles.get(role)!;
    const site = { partition, blockSize: tokens };
    const created = this.#failures.attempt(key, partition, role, () =>
      createRole(resolved, site, this.#ports),
    );
    this.#disposers.unshift(...created.disposers);
    const onKvPath = this.#config.router.mode === 'kv';
    const stage = onKvPath ? hintStageOf(created.hints, { ...this.#ports, fleet: this.#fleet }) : null;
    const runtime = roleRuntimeOf(resolved, created, site, this.#ports, stage);
    this.#runtimes.set(key, runtime);
    this.#sites.push({ ...site, role });
    return runtime;
  }

  async dispose(): Promise<void> {
    const disposers = [...this.#classifiers.close(), ...this.#disposers.splice(0)];
    // What was created last may use what was created before it.
    for (const { created, meter } of [...this.#shared.values()].reverse()) {
      disposers.push(
        () => disposeShared(created),
        () => meter.close(),
      );
    }
    this.#shared.clear();
    this.#runtimes.clear();
    const { clock, log } = this.#ports;
    const disposing = async (): Promise<void> => {
      for (const dispose of disposers) await quietly(dispose, log);
    };
    await disposedInTime(clock, log, disposing());
    // What disposers in threads report still counts, and gauges end with them.
    await this.#threads?.close();
  }

  /** What a trial of this host works with; it shares instances of scope `shared` with what serves afterwards. */
  trialParts(awaited: GenerationSites): TrialParts {
    return {
      config: this.#config,
      roles: this.#roles,
      classifier: this.#classifiers.resolved,
      ports: this.#ports,
      fleet: this.#workers,
      threads: this.#threads,
      awaited,
    };
  }

  /** Creates the classifiers of partitions, to stay; reports what fails. */
  startClassifiers(partitions: readonly Partition[], problems: ProblemList): void {
    // One in a thread was tried there.
    if (this.#classifiers.resolved?.thread != null && problems.hasErrors) return;
    for (const partition of partitions) {
      try {
        this.#classifiers.classifierFor(partition);
      } catch (thrown) {
        reportCreation(problems, this.#config.requestClassifier?.path ?? [], thrown);
        return;
      }
    }
  }

  /** Creates runtimes and classifiers before they are asked for; reports what fails. */
  createSites({ runtimes, classified }: GenerationSites, problems: ProblemList): void {
    this.startClassifiers([...classified, ...runtimes.map(({ partition }) => partition)], problems);
    for (const { partition, role, blockSize } of runtimes) {
      try {
        this.roleRuntime(partition, role, blockSize);
      } catch (thrown) {
        reportCreation(problems, this.#roles.get(role)?.path ?? [], thrown);
      }
    }
  }

  /** Takes note of what was found and tells the operator what does not run. */
  finish(needs: ReadonlyMap<Role, RoleNeeds>, problems: ProblemList): void {
    const { mode } = this.#config.router;
    this.#resolution = [...this.#roles.values()].map((resolved) => ({
      role: resolved.role,
      mode,
      kvPath: mode === 'kv',
      policy: {
        type: resolved.selection.type,
        instance: resolved.instance,
        version: resolved.selection.origin.version,
      },
      needs: needs.get(resolved.role)!,
      provisions: provisionsOf(needs.get(resolved.role)!, this.#config.router, resolved.hints.length > 0),
      hints: resolved.hints.map(({ name, prepared, listed }) => ({ name, type: prepared.type, listed })),
      dormantHints: resolved.dormantHints,
    }));
    for (const { role, needs: asked, provisions } of this.#resolution) {
      warnOfMissingCopies(this.#roles.get(role)!, asked, provisions, problems);
    }
    this.#warnings = problems.warnings;
    logStartupNotes(this.#resolution, this.#catalog, this.#config.router, this.#ports.log);
  }
}

function disposeShared(created: unknown): unknown {
  const dispose: unknown = Reflect.get(Object(created), 'dispose');
  return typeof dispose === 'function' ? Reflect.apply(dispose, created, []) : undefined;
}

/** Null = there are no workers to see. */
function classifierFleet(fleet: PluginHostOptions['fleet']): ClassifierFleet | null {
  const workers = fleet?.workers?.bind(fleet);
  if (fleet === undefined || workers === undefined) return null;
  return {
    workers,
    get version() {
      return fleet.version;
    },
  };
}
