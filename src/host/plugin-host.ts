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
  PointsmanError,
  type Role,
} from '../plugin/index.ts';
import { builtinCatalog } from './builtin-policies.ts';
import { BUILT_IN_VERSION, type PolicyCatalog, type Prepared } from './catalog.ts';
import type { HintFleet } from './copy-locations.ts';
import type { GenerationHost, GenerationParts, PluginType, RuntimeSite } from './generation-host.ts';
import { RoleHintStage } from './hint-stage.ts';
import { loadListed, registerPlugins } from './listed-plugins.ts';
import { type PluginGuard, PluginGuards, type PluginStatus, type RunningPlugin } from './plugin-guard.ts';
import type { HostModules } from './plugin-transpiler.ts';
import { ProblemList } from './problem-list.ts';
import { type ResolvedRole, RoleResolver } from './role-resolution.ts';
import {
  type CreationPorts,
  type CreationSite,
  createRole,
  needsOf,
  quietly,
  roleRuntimeOf,
} from './role-runtime.ts';
import { systemSeed } from './seeds.ts';
import { DISPOSE_LIMIT_MS, withinLimit } from './time-limit.ts';
import type { PluginHost, RoleNeeds, RoleRuntime } from './types.ts';

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
  /** The wall clock plugins are timed with, in ms, and who is told which plugin runs; absent = no budget, nobody. */
  readonly containment?: { readonly wallMs: () => number; readonly running: RunningPlugin | null };
  /** Whose ranks take hints and serve as sources of copies; without it no rank does. */
  readonly fleet?: HintFleet;
}

/** What was resolved for one role. */
export interface RoleResolution {
  readonly role: Role;
  readonly mode: RouterMode;
  /** Whether bookings of this role run hints. */
  readonly kvPath: boolean;
  readonly policy: { readonly type: string; readonly instance: string | null; readonly version: string };
  readonly needs: RoleNeeds;
  readonly hints: readonly { readonly name: string; readonly type: string; readonly listed: boolean }[];
  /** Hint policies that would run by default, did the router mode book on the KV path. */
  readonly dormantHints: readonly string[];
}

/** A host with what it found on the way. */
export interface ResolvedPluginHost extends PluginHost {
  /** The seed all generators derive from, for repeating a run. */
  readonly seed: number;
  readonly warnings: readonly ConfigProblem[];
  /** What every role uses, in the order aggregated, prefill, decode, encode. */
  resolution(): readonly RoleResolution[];
  /** Breakers and counts of the plugins in use, by role. */
  containment(): readonly PluginStatus[];
}

/** Stands in for the partitions when a configuration names no model yet. */
const TRIAL_SITE: CreationSite = { partition: { model: 'default', routingGroup: 'default' }, blockSize: 16 };

const NO_FLEET: HintFleet = { workerOfSlot: () => null, slotRank: () => -1 };

/**
 * Loads, resolves and checks everything the configuration says about policies.
 * @throws ConfigError (PM_CONFIG_INVALID) with every problem found; nothing is left running.
 */
export async function createPluginHost(
  options: PluginHostOptions,
  parts: GenerationParts = {},
): Promise<GenerationHost> {
  const { config } = options;
  const problems = new ProblemList();
  const catalog = builtinCatalog(config.router);
  await registerPlugins(options, parts.plugins ?? (await loadListed(options)), catalog, problems);
  const roles = await new RoleResolver(config, catalog, problems, options.clock).resolve();
  const host = new Host(options, parts, roles, catalog);
  const needs = host.tryRoles(problems);
  if (!problems.hasErrors) host.createSites(parts.sites ?? [], problems);
  if (problems.hasErrors) {
    await host.dispose();
    throw new ConfigError(options.source, problems.problems);
  }
  host.finish(needs, problems.warnings);
  return host;
}

class Host implements GenerationHost {
  readonly seed: number;
  readonly #config: RouterConfig;
  readonly #fleet: HintFleet;
  readonly #ports: CreationPorts;
  readonly #guards: PluginGuards;
  readonly #roles: ReadonlyMap<Role, ResolvedRole>;
  readonly #catalog: PolicyCatalog;
  readonly #runtimes = new Map<string, RoleRuntime>();
  readonly #sites: RuntimeSite[] = [];
  readonly #shared = new Map<Prepared, unknown>();
  readonly #disposers: (() => unknown)[] = [];
  #resolution: readonly RoleResolution[] = [];
  #warnings: readonly ConfigProblem[] = [];

  constructor(
    options: PluginHostOptions,
    { hold, probation }: GenerationParts,
    roles: readonly ResolvedRole[],
    catalog: PolicyCatalog,
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
    this.#ports = {
      clock,
      seed: this.seed,
      log,
      metrics,
      shared: this.#shared,
      guards: this.#guards,
      ...(hold === undefined ? {} : { hold }),
    };
    this.#roles = new Map(roles.map((role) => [role.role, role]));
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

  sites(): readonly RuntimeSite[] {
    return this.#sites;
  }

  types(): readonly PluginType[] {
    const { selections, hints } = this.#catalog;
    const listed = [
      ...[...selections.values()].map((entry) => ({ ...entry, kind: 'worker-selection' as const })),
      ...[...hints.values()].map((entry) => ({ ...entry, kind: 'hint-policy' as const })),
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
    const created = createRole(resolved, site, this.#ports);
    this.#disposers.unshift(...created.disposers);
    const onKvPath = this.#config.router.mode === 'kv';
    const stage = onKvPath ? new RoleHintStage(created.hints, { ...this.#ports, fleet: this.#fleet }) : null;
    const runtime = roleRuntimeOf(resolved, created, site, this.#ports, stage);
    this.#runtimes.set(key, runtime);
    this.#sites.push({ ...site, role });
    return runtime;
  }

  async dispose(): Promise<void> {
    const disposers = this.#disposers.splice(0);
    for (const [prepared, created] of this.#shared) {
      this.#shared.delete(prepared);
      disposers.push(() => disposeShared(created));
    }
    this.#runtimes.clear();
    const { clock, log } = this.#ports;
    const disposing = (async () => {
      for (const dispose of disposers) await quietly(dispose, log);
    })();
    await withinLimit(clock, DISPOSE_LIMIT_MS, 'disposing the policies', disposing).catch((thrown: unknown) =>
      log.warn(errorText(thrown)),
    );
  }

  /** Creates every role for every configured partition, reports what fails, and disposes it again. */
  tryRoles(problems: ProblemList): ReadonlyMap<Role, RoleNeeds> {
    const needs = new Map<Role, RoleNeeds>();
    for (const [role, resolved] of this.#roles) {
      for (const site of this.#configuredSites()) {
        try {
          const created = createRole(resolved, site, this.#ports);
          needs.set(role, needsOf(created));
          for (const dispose of created.disposers) quietly(dispose, this.#ports.log);
        } catch (thrown) {
          reportCreation(problems, resolved.path, thrown);
          break;
        }
      }
    }
    return needs;
  }

  /** Creates runtimes before they are asked for; reports what fails. */
  createSites(sites: readonly RuntimeSite[], problems: ProblemList): void {
    for (const { partition, role, blockSize } of sites) {
      try {
        this.roleRuntime(partition, role, blockSize);
      } catch (thrown) {
        reportCreation(problems, this.#roles.get(role)?.path ?? [], thrown);
      }
    }
  }

  /** Takes note of what was found and tells the operator what does not run. */
  finish(needs: ReadonlyMap<Role, RoleNeeds>, warnings: readonly ConfigProblem[]): void {
    const { log } = this.#ports;
    const { mode } = this.#config.router;
    this.#warnings = warnings;
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
      hints: resolved.hints.map(({ name, prepared, listed }) => ({ name, type: prepared.type, listed })),
      dormantHints: resolved.dormantHints,
    }));
    for (const { role, dormantHints } of this.#resolution) {
      if (dormantHints.length === 0) continue;
      const hints = dormantHints.join(', ');
      log.info('default hints do not run: the router mode books off the KV path', { role, mode, hints });
    }
    for (const entry of this.#catalog.hints.values()) {
      for (const host of entry.defaultHosts) {
        if (host === 'any-worker-selection' || this.#catalog.selections.has(host.workerSelection)) continue;
        const { workerSelection } = host;
        log.info('a hint policy names a default host that is not loaded', {
          hint: entry.type,
          workerSelection,
        });
      }
    }
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

function reportCreation(problems: ProblemList, path: ConfigPath, thrown: unknown): void {
  const cause = thrown instanceof Error && thrown.cause !== undefined ? `: ${errorText(thrown.cause)}` : '';
  const code = thrown instanceof PointsmanError ? thrown.code : 'PM_PLUGIN_THREW';
  problems.error(code, path, 'key', `${errorText(thrown)}${cause}`);
}

function disposeShared(created: unknown): unknown {
  const dispose: unknown = Reflect.get(Object(created), 'dispose');
  return typeof dispose === 'function' ? Reflect.apply(dispose, created, []) : undefined;
}
