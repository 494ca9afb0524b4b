// A host whose plugins and policies can be replaced while it serves. A reload builds a whole generation beside the one that serves and
// changes nothing until all of it is ready; a plugin that fails soon afterwards takes the reload back.
import { ConfigError, type ConfigProblem, type ConfigSource, type RouterConfig } from '../config/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import type { Partition, Role } from '../plugin/index.ts';
import { BookingHold, type GenerationHold } from './booking-hold.ts';
import type { ClassifierStage } from './classifier-types.ts';
import type { GenerationHost, PluginType } from './generation-host.ts';
import { DRAIN_LIMIT_MS, Generations, type OtherState } from './generations.ts';
import type { PluginGuard } from './plugin-guard.ts';
import {
  type ClassifierResolution,
  createPluginHost,
  type PluginHostOptions,
  type ResolvedPluginHost,
  type RoleResolution,
} from './plugin-host.ts';
import { PluginLibrary, type PluginOutcome } from './plugin-library.ts';
import type { LoadedModule } from './plugin-loader.ts';
import type { HostModules } from './plugin-transpiler.ts';
import { isOnProbation, PROBATION_CALLS, tripReason } from './probation.ts';
import { ProblemList } from './problem-list.ts';
import { type RefusedVersion, RefusedVersions, samePolicies } from './refused-versions.ts';
import type { SiteFailure } from './site-failures.ts';
import type { RoleRuntime } from './types.ts';

/** A plugin that was loaded. */
export interface LoadedPlugin {
  readonly specifier: string;
  readonly kind: 'file' | 'package';
  readonly version: string;
  /** Absolute paths of its own files. */
  readonly files: readonly string[];
  readonly types: readonly PluginType[];
}

/** Where a reloadable host stands. */
export interface GenerationStatus {
  /** Number of the serving generation. */
  readonly generation: number;
  /** The other one alive; null = there is none. */
  readonly other: {
    readonly generation: number;
    readonly state: OtherState;
    readonly bookings: number;
  } | null;
  /** Null = the serving generation stays. */
  readonly probation: { readonly endsInMs: number; readonly calls: number } | null;
  readonly plugins: readonly LoadedPlugin[];
  /** Versions that were rolled back and are not tried again. */
  readonly refused: readonly RefusedVersion[];
}

/** What to reload. */
export interface HostReload {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly modules: HostModules;
  /** Whether packages are looked at as well as files. */
  readonly packages: boolean;
  /** What speaks against a new generation that is otherwise in order. */
  readonly refuse: (next: ResolvedPluginHost) => readonly ConfigProblem[];
  /** Called in the step that switches. */
  readonly switched: () => void;
}

/** A generation was taken back. */
export interface RollBack {
  readonly reason: string;
  /** Configuration of the generation that serves again. */
  readonly config: RouterConfig;
}

/** The host. */
export interface ReloadableHost extends ResolvedPluginHost {
  /** Configuration of the serving generation. */
  readonly config: RouterConfig;
  /** Holds the serving generation: for what begins with it without a booking, and ends later. */
  readonly hold: GenerationHold;
  /**
   * Builds and switches to a new generation; false = its plugins and policies are those that serve already, and stay.
   * One at a time.
   * @throws ConfigError with everything that is wrong; then nothing changed.
   */
  reload(request: HostReload): Promise<boolean>;
  status(): GenerationStatus;
  /** Files whose change calls for a reload. */
  watched(): readonly string[];
}

interface Built {
  readonly host: GenerationHost;
  readonly hold: BookingHold;
  readonly config: RouterConfig;
  readonly modules: readonly LoadedModule[];
  dispose(): Promise<void>;
}

/**
 * Starts a reloadable host.
 * @param rolledBack told in the step in which the old generation serves again
 * @throws as {@link createPluginHost}
 */
export async function createReloadableHost(
  options: PluginHostOptions,
  rolledBack: (event: RollBack) => void = () => undefined,
): Promise<ReloadableHost> {
  const { config, source, clock, modules = {} } = options;
  const library = new PluginLibrary(source.folder, clock);
  const specifiers = specifiersOf(config);
  const plugins = await library.load({ specifiers, base: [], packages: true, modules });
  const hold = new BookingHold();
  const host = await createPluginHost(options, { plugins, hold });
  return new Reloadable(options, library, builtOf(host, hold, config, plugins), rolledBack);
}

class Reloadable implements ReloadableHost {
  readonly seed: number;
  readonly #options: PluginHostOptions;
  readonly #library: PluginLibrary;
  readonly #generations: Generations<Built>;
  readonly #refused: RefusedVersions;
  readonly #rolledBack: (event: RollBack) => void;
  /** When the serving generation took over. */
  #switchedAt = 0;

  constructor(
    options: PluginHostOptions,
    library: PluginLibrary,
    first: Built,
    rolledBack: (event: RollBack) => void,
  ) {
    this.#options = options;
    this.#library = library;
    this.#generations = new Generations(first, options.clock);
    this.#refused = new RefusedVersions(options.clock);
    this.#rolledBack = rolledBack;
    this.seed = first.host.seed;
    options.metrics?.gauge('pointsman_config_generation', () => this.#generations.number);
  }

  get config(): RouterConfig {
    return this.#generations.serving.config;
  }

  get hold(): GenerationHold {
    return this.#generations.serving.hold;
  }

  get warnings(): readonly ConfigProblem[] {
    return this.#host.warnings;
  }

  resolution(): readonly RoleResolution[] {
    return this.#host.resolution();
  }

  containment() {
    return this.#host.containment();
  }

  classifier(): ClassifierResolution | null {
    return this.#host.classifier();
  }

  classifierFor(partition: Partition): ClassifierStage | null {
    return this.#host.classifierFor(partition);
  }

  classifiersUnsettled(): boolean {
    const { serving, other } = this.#generations;
    return serving.host.classifiersUnsettled() || other?.value.host.classifiersUnsettled() === true;
  }

  failures(): readonly SiteFailure[] {
    return this.#host.failures();
  }

  roleRuntime(partition: Partition, role: Role, blockSize?: number): RoleRuntime {
    return this.#host.roleRuntime(partition, role, blockSize);
  }

  dispose(): Promise<void> {
    return this.#generations.close();
  }

  async reload(request: HostReload): Promise<boolean> {
    const { config, source, modules, packages, refuse, switched } = request;
    const serving = this.#generations.serving;
    const specifiers = specifiersOf(config);
    const plugins = await this.#library.load({ specifiers, base: serving.modules, packages, modules });
    let next: Built | null = null;
    try {
      const isSame = plugins.every(({ module }) => module !== null && serving.modules.includes(module));
      if (isSame && samePolicies(config, serving.config)) {
        switched();
        return false;
      }
      const refused = this.#refused.problems(config, plugins);
      if (refused.length > 0) throw new ConfigError(source, refused);
      // What cannot be loaded need not wait to be refused.
      if (plugins.every(({ module }) => module !== null)) await this.#room();
      next = await this.#build(request, plugins);
      const problems = refuse(next.host);
      if (problems.length > 0) throw new ConfigError(source, problems);
      // Partitions may have appeared meanwhile.
      const late = new ProblemList();
      next.host.createSites(this.#host.sites(), late);
      if (late.hasErrors) throw new ConfigError(source, late.problems);
      this.#generations.replace(next);
    } catch (thrown) {
      this.#library.use(this.#generations.serving.modules);
      await next?.dispose();
      throw thrown;
    }
    this.#switchedAt = this.#options.clock.now();
    switched();
    return true;
  }

  status(): GenerationStatus {
    const { serving, number, other, onProbation } = this.#generations;
    const types = serving.host.types();
    const left = this.#switchedAt + DRAIN_LIMIT_MS - this.#options.clock.now();
    const onTrial = onProbation ? serving.host.guards().filter((guard) => this.#isOnProbation(guard)) : [];
    return {
      generation: number,
      other: other && { generation: other.number, state: other.state, bookings: other.value.hold.count },
      probation: onProbation
        ? {
            endsInMs: Math.max(0, left),
            calls: onTrial.reduce((most, { calls }) => Math.max(most, calls), 0),
          }
        : null,
      plugins: serving.modules.map(({ specifier, kind, version, files }) => {
        const own = types.filter(({ origin }) => origin.name === specifier);
        return { specifier, kind, version, files: [...files.keys()], types: own };
      }),
      refused: this.#refused.list(),
    };
  }

  watched(): readonly string[] {
    const { serving, other } = this.#generations;
    // While a version that was rolled back lies on disk, its own files are what the author will change.
    const modules = [...serving.modules, ...(other?.value.modules ?? [])];
    const files = modules.filter(({ kind }) => kind === 'file').flatMap((module) => [...module.files.keys()]);
    return [...new Set([...files, ...this.#refused.files()])];
  }

  get #host(): GenerationHost {
    return this.#generations.serving.host;
  }

  async #room(): Promise<void> {
    const { other } = this.#generations;
    if (other !== null && other.value.hold.count > 0) {
      const { number, value } = other;
      const fields = { generation: number, bookings: value.hold.count };
      this.#options.log.info('a reload waits until an older generation is gone', fields);
    }
    await this.#generations.room();
  }

  async #build({ config, source, modules }: HostReload, plugins: readonly PluginOutcome[]): Promise<Built> {
    const hold = new BookingHold();
    const host = await createPluginHost(
      {
        ...this.#options,
        config,
        source,
        modules,
        seed: this.#options.seed || config.router.seed || this.seed,
      },
      {
        plugins,
        hold,
        sites: this.#host.sites(),
        probation: {
          calls: PROBATION_CALLS,
          passed: () => this.#passed(hold),
          tripped: (guard) => this.#tripped(hold, guard),
        },
      },
    );
    return builtOf(host, hold, config, plugins);
  }

  /** Every plugin that is on probation has made its calls. */
  #passed(hold: BookingHold): void {
    const { serving, onProbation } = this.#generations;
    if (!onProbation || serving.hold !== hold) return;
    const open = serving.host
      .guards()
      .some((guard) => guard.calls < PROBATION_CALLS && this.#isOnProbation(guard));
    if (!open) this.#generations.endProbation();
  }

  #tripped(hold: BookingHold, guard: PluginGuard): void {
    const { serving, other, onProbation, number } = this.#generations;
    if (!onProbation || other === null || serving.hold !== hold) return;
    if (guard.calls > PROBATION_CALLS || !this.#isOnProbation(guard)) return;
    const reason = `generation ${number} was rolled back to ${other.number}: ${tripReason(guard)}`;
    // The decision in which it tripped ends with the generation it began with.
    queueMicrotask(() => this.#takeBack(hold, guard, reason));
  }

  #takeBack(hold: BookingHold, guard: PluginGuard, reason: string): void {
    const { serving, other } = this.#generations;
    if (other === null || serving.hold !== hold || !this.#generations.rollBack()) return;
    this.#refused.add(guard, serving, other.value, reason);
    this.#library.use(other.value.modules);
    const { metrics = NO_METRICS, log } = this.#options;
    metrics.count('pointsman_plugin_rollbacks_total');
    log.error('a reload was rolled back', { reason });
    this.#rolledBack({ reason, config: other.value.config });
  }

  #isOnProbation(guard: PluginGuard): boolean {
    const { serving, other } = this.#generations;
    return other !== null && isOnProbation(guard, serving, other.value);
  }
}

function builtOf(
  host: GenerationHost,
  hold: BookingHold,
  config: RouterConfig,
  plugins: readonly PluginOutcome[],
): Built {
  const modules = new Set(plugins.flatMap(({ module }) => (module === null ? [] : [module])));
  return { host, hold, config, modules: [...modules], dispose: () => host.dispose() };
}

function specifiersOf(config: RouterConfig): readonly string[] {
  return config.plugins.map(({ specifier }) => specifier);
}
