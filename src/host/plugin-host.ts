// Sets up the host: loads plugins, resolves every role, tries every `create` once, and reports all problems together. Afterwards it
// hands out one runtime per partition and role.
import {
  ConfigError,
  type ConfigPath,
  type ConfigProblem,
  type ConfigSource,
  type RouterConfig,
  type RouterMode,
} from '../config/index.ts';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import {
  type Clock,
  errorText,
  type Logger,
  type Partition,
  type PluginRegistry,
  PointsmanError,
  type Role,
} from '../plugin/index.ts';
import { builtinCatalog } from './builtin-policies.ts';
import type { Origin, PolicyCatalog, Prepared } from './catalog.ts';
import { type ResolvedClassifier, resolveClassifier } from './classifier-resolution.ts';
import type { ClassifierFleet } from './classifier-site.ts';
import type { ClassifierSource, ClassifierStage } from './classifier-types.ts';
import { Classifiers } from './classifiers.ts';
import type { HintFleet } from './copy-locations.ts';
import { ThreadInstances, TRIED_ELSEWHERE } from './isolation/thread-instances.ts';
import { ExportCollector } from './plugin-exports.ts';
import { PluginGuards, type PluginStatus, type RunningPlugin } from './plugin-guard.ts';
import { type HostModules, PluginLoader } from './plugin-loader.ts';
import { ProblemList } from './problem-list.ts';
import { provisionsOf, type RoleProvisions, warnOfMissingCopies } from './role-provisions.ts';
import { type ResolvedRole, RoleResolver } from './role-resolution.ts';
import {
  type CreationPorts,
  type CreationSite,
  createRole,
  needsOf,
  quietly,
  roleRuntimeOf,
  type SharedPolicy,
} from './role-runtime.ts';
import { systemSeed } from './seeds.ts';
import { type SiteFailure, SiteFailures } from './site-failures.ts';
import { logStartupNotes } from './startup-notes.ts';
import { startThreads } from './thread-start.ts';
import { DISPOSE_LIMIT_MS, withinLimit } from './time-limit.ts';
import type { PluginHost, RoleNeeds, RoleRuntime } from './types.ts';
import { hintStageOf } from './waiting-hint-stage.ts';

/** What {@link createPluginHost} works with. */
export interface PluginHostOptions {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly clock: Clock;
  /** Default: `router.seed`; 0 = from the system. */
  readonly seed?: number;
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Modules plugins may import from the host beside `pointsman/plugin`, for example `pointsman/testing`. */
  readonly modules?: HostModules;
  /** Definitions at hand, taken in beside those of the modules under `plugins`. */
  readonly definitions?: readonly object[];
  /** The wall clock plugins are timed with, in ms, and who is told which plugin runs; absent = no budget, nobody. */
  readonly containment?: { readonly wallMs: () => number; readonly running: RunningPlugin | null };
  /** Registers policies of the program around this host, before the listed plugins are loaded. */
  readonly register?: (registry: PluginRegistry) => unknown;
  /** Whose ranks take hints and serve as sources of copies, and whose workers classifiers see; without it there are none. */
  readonly fleet?: HintFleet & Partial<ClassifierFleet>;
  /**
   * Lets plugins that are to be isolated run in threads; `modules` are file URLs of what they may import from the program, by
   * specifier. Absent = they run in process, as in virtual time, where nothing may depend on how fast a thread is.
   */
  readonly threads?: { readonly modules: Readonly<Record<string, string>> };
}

/** What was resolved for one role. */
export interface RoleResolution {
  readonly role: Role;
  readonly mode: RouterMode;
  /** Whether bookings of this role run hints. */
  readonly kvPath: boolean;
  readonly policy: { readonly type: string; readonly instance: string | null; readonly version: string };
  readonly needs: RoleNeeds;
  /** What that makes the router prepare. */
  readonly provisions: RoleProvisions;
  readonly hints: readonly { readonly name: string; readonly type: string; readonly listed: boolean }[];
  /** Hint policies that would run by default, did the router mode book on the KV path. */
  readonly dormantHints: readonly string[];
}

/** What was resolved for `request_classifier`. */
export interface ClassifierResolution {
  readonly type: string;
  readonly version: string;
  readonly maxWaitMs: number;
}

/** A host with what it found on the way. */
export interface ResolvedPluginHost extends PluginHost, ClassifierSource {
  /** The seed all generators derive from, for repeating a run. */
  readonly seed: number;
  readonly warnings: readonly ConfigProblem[];
  /** What every role uses, in the order aggregated, prefill, decode, encode. */
  resolution(): readonly RoleResolution[];
  /** The request classifier in use; null = none is configured. */
  classifier(): ClassifierResolution | null;
  /** Breakers and counts of the plugins in use, by role. */
  containment(): readonly PluginStatus[];
  /** Partitions that cannot be served, as their policies cannot be created; empty when all is well. */
  failures(): readonly SiteFailure[];
}

/** Stands in for the partitions when a configuration names no model yet. */
const TRIAL_SITE: CreationSite = { partition: { model: 'default', routingGroup: 'default' }, blockSize: 16 };

/** The program that a host runs in, as the origin of what it registers. */
const EMBEDDER: Origin = { name: 'the embedding program', version: 'embedded' };

const NO_FLEET: HintFleet = { workerOfSlot: () => null, slotRank: () => -1 };

/**
 * Loads, resolves and checks everything the configuration says about policies.
 * @throws ConfigError (PM_CONFIG_INVALID) with every problem found; nothing is left running.
 */
export async function createPluginHost(options: PluginHostOptions): Promise<ResolvedPluginHost> {
  const { config } = options;
  const problems = new ProblemList();
  const catalog = builtinCatalog(config.router);
  await loadPlugins(options, catalog, problems);
  const roles = await new RoleResolver(config, catalog, problems, options.clock).resolve();
  const classifier = await resolveClassifier(config, catalog, problems, options.clock);
  const host = new Host(options, roles, catalog, classifier);
  await host.startThreads(problems);
  const needs = host.tryRoles(problems);
  host.startClassifiers(problems);
  await host.trialsDisposed();
  if (problems.hasErrors) {
    await host.dispose();
    throw new ConfigError(options.source, problems.problems);
  }
  host.finish(needs, problems);
  return host;
}

async function loadPlugins(
  { config, source, clock, modules, definitions = [], register }: PluginHostOptions,
  catalog: PolicyCatalog,
  problems: ProblemList,
): Promise<void> {
  const loader = new PluginLoader(source.folder, clock, modules);
  const collector = new ExportCollector(catalog, clock);
  for (const definition of definitions) {
    const module = { specifier: 'the definition at hand', exports: { definition }, version: 'at hand' };
    for (const { code, message } of await collector.collect(module))
      problems.error(code, [], 'value', message);
  }
  if (register !== undefined) {
    for (const { code, message } of await collector.registerFrom(register, EMBEDDER)) {
      problems.error(code, [], 'key', message);
    }
  }
  for (const { specifier, path } of config.plugins) {
    try {
      const faults = await collector.collect(await loader.load(specifier));
      for (const { code, message } of faults) problems.error(code, path, 'value', message);
    } catch (thrown) {
      problems.error('PM_PLUGIN_LOAD', path, 'value', errorText(thrown));
    }
  }
}

class Host implements ResolvedPluginHost {
  readonly seed: number;
  readonly #config: RouterConfig;
  readonly #fleet: HintFleet;
  readonly #ports: CreationPorts;
  readonly #guards: PluginGuards;
  readonly #classifiers: Classifiers;
  readonly #threads: ThreadInstances | null;
  readonly #roles: ReadonlyMap<Role, ResolvedRole>;
  readonly #catalog: PolicyCatalog;
  readonly #runtimes = new Map<string, RoleRuntime>();
  readonly #shared = new Map<Prepared, SharedPolicy>();
  readonly #disposers: (() => unknown)[] = [];
  readonly #failures: SiteFailures;
  /** What disposing the trials takes. */
  readonly #trials: unknown[] = [];
  #resolution: readonly RoleResolution[] = [];
  #warnings: readonly ConfigProblem[] = [];

  constructor(
    options: PluginHostOptions,
    roles: readonly ResolvedRole[],
    catalog: PolicyCatalog,
    classifier: ResolvedClassifier | null,
  ) {
    const { config, clock, log } = options;
    this.#config = config;
    this.#catalog = catalog;
    this.seed = options.seed || config.router.seed || systemSeed();
    this.#fleet = options.fleet ?? NO_FLEET;
    const metrics = options.metrics ?? NO_METRICS;
    const { wallMs = null, running = null } = options.containment ?? {};
    this.#guards = new PluginGuards({ settings: config.containment, clock, wallMs, running, metrics, log });
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
      ...(this.#threads === null ? {} : { threads: this.#threads }),
    };
    this.#roles = new Map(roles.map((role) => [role.role, role]));
    this.#classifiers = new Classifiers(config, classifier, {
      ...this.#ports,
      guards: this.#guards,
      fleet: classifierFleet(options.fleet),
      threads: this.#threads,
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
    const { log } = this.#ports;
    await this.#disposed(async () => {
      for (const dispose of disposers) await quietly(dispose, log);
    });
    await this.#threads?.close();
  }

  /** Waits until nothing of the trials is left; what serves may need what they held. */
  async trialsDisposed(): Promise<void> {
    const trials = this.#trials.splice(0);
    if (trials.some((one) => one instanceof Promise)) await this.#disposed(() => Promise.all(trials));
  }

  async #disposed(disposing: () => Promise<unknown>): Promise<void> {
    const { clock, log } = this.#ports;
    await withinLimit(clock, DISPOSE_LIMIT_MS, 'disposing the policies', disposing()).catch(
      (thrown: unknown) => log.warn(errorText(thrown)),
    );
  }

  /** Starts the threads of isolated plugins and lets each create its policies once, as {@link tryRoles} does of the others. */
  async startThreads(problems: ProblemList): Promise<void> {
    const roles = [...this.#roles.values()];
    const { seed, log } = this.#ports;
    const { resolved: classifier } = this.#classifiers;
    const blockSizeOf = ({ model }: Partition) => this.#config.models.get(model)?.blockSize ?? null;
    const fleet = classifierFleet(this.#fleet);
    const plan = { roles, classifier, sites: this.#configuredSites(), fleet, blockSizeOf, seed, log };
    await startThreads({ ...plan, threads: this.#threads }, problems);
  }

  /** Creates every role for every configured partition, reports what fails, and disposes it again. */
  tryRoles(problems: ProblemList): ReadonlyMap<Role, RoleNeeds> {
    const needs = new Map<Role, RoleNeeds>();
    const ports = this.#threads === null ? this.#ports : { ...this.#ports, threads: TRIED_ELSEWHERE };
    for (const [role, resolved] of this.#roles) {
      for (const site of this.#configuredSites()) {
        try {
          const created = createRole(resolved, site, ports);
          needs.set(role, needsOf(created));
          for (const dispose of created.disposers) this.#trials.push(quietly(dispose, this.#ports.log));
        } catch (thrown) {
          reportCreation(problems, resolved.path, thrown);
          break;
        }
      }
    }
    return needs;
  }

  /** Creates the classifier of every configured partition, to stay; reports what fails. */
  startClassifiers(problems: ProblemList): void {
    // One in a thread was tried there.
    if (this.#classifiers.resolved?.thread != null && problems.hasErrors) return;
    for (const { partition } of this.#configuredSites()) {
      try {
        this.#classifiers.classifierFor(partition);
      } catch (thrown) {
        reportCreation(problems, this.#config.requestClassifier?.path ?? [], thrown);
        return;
      }
    }
  }

  /** Takes note of what was found and tells the operator what does not run. */
  finish(needs: ReadonlyMap<Role, RoleNeeds>, problems: ProblemList): void {
    const { mode, useKvEvents } = this.#config.router;
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
      provisions: provisionsOf(needs.get(resolved.role)!, useKvEvents, resolved.hints.length > 0),
      hints: resolved.hints.map(({ name, prepared, listed }) => ({ name, type: prepared.type, listed })),
      dormantHints: resolved.dormantHints,
    }));
    for (const { role, provisions } of this.#resolution) {
      warnOfMissingCopies(this.#roles.get(role)!, provisions, problems);
    }
    this.#warnings = problems.warnings;
    logStartupNotes(this.#resolution, this.#catalog, this.#ports.log);
  }

  #configuredSites(): readonly CreationSite[] {
    const sites = new Map<string, CreationSite>();
    for (const model of this.#config.models.values()) {
      const partition = { model: model.name, routingGroup: model.routingGroup };
      sites.set(JSON.stringify(partition), { partition, blockSize: model.blockSize ?? TRIAL_SITE.blockSize });
    }
    return sites.size > 0 ? [...sites.values()] : [TRIAL_SITE];
  }
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

function disposeShared(created: unknown): unknown {
  const dispose: unknown = Reflect.get(Object(created), 'dispose');
  return typeof dispose === 'function' ? Reflect.apply(dispose, created, []) : undefined;
}

function reportCreation(problems: ProblemList, path: ConfigPath, thrown: unknown): void {
  const cause = thrown instanceof Error && thrown.cause !== undefined ? `: ${errorText(thrown.cause)}` : '';
  const code = thrown instanceof PointsmanError ? thrown.code : 'PM_PLUGIN_THREW';
  problems.error(code, path, 'key', `${errorText(thrown)}${cause}`);
}
