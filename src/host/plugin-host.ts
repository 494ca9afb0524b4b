// Sets up the host: loads plugins, resolves every role, tries every `create` once, and reports all problems together.
import {
  ConfigError,
  type ConfigProblem,
  type ConfigSource,
  type RouterConfig,
  type RouterMode,
} from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { Clock, Logger, PluginRegistry, Role } from '../plugin/index.ts';
import { builtinCatalog } from './builtin-policies.ts';
import { resolveClassifier } from './classifier-resolution.ts';
import type { ClassifierFleet } from './classifier-site.ts';
import type { ClassifierSource } from './classifier-types.ts';
import type { HintFleet } from './copy-locations.ts';
import type { GenerationHost, GenerationParts, GenerationSites } from './generation-host.ts';
import { HostTrial } from './host-trial.ts';
import { loadListed, registerPlugins } from './listed-plugins.ts';
import type { PluginStatus, RunningPlugin } from './plugin-guard.ts';
import type { HostModules } from './plugin-transpiler.ts';
import { ProblemList } from './problem-list.ts';
import { ResolvedHost } from './resolved-host.ts';
import type { RoleProvisions } from './role-provisions.ts';
import { RoleResolver } from './role-resolution.ts';
import type { SiteFailure } from './site-failures.ts';
import type { PluginHost, RoleNeeds } from './types.ts';
import { warnOfUnusedPlugins } from './unused-plugins.ts';

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
  /** Registers policies of the program around this host, before those of the listed plugins; called anew by every host. */
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

const NO_SITES: GenerationSites = { runtimes: [], classified: [] };

/**
 * Loads, resolves and checks everything the configuration says about policies.
 * @param parts what makes it one generation of several
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
  const classifier = await resolveClassifier(config, catalog, problems, options.clock);
  const host = new ResolvedHost(options, parts, { roles, catalog, classifier });
  const trial = new HostTrial(host.trialParts(parts.sites ?? NO_SITES));
  await trial.startThreads(problems);
  const needs = trial.tryRoles(problems);
  host.startClassifiers(trial.partitions(), problems);
  await trial.disposed();
  if (!problems.hasErrors && parts.sites !== undefined) host.createSites(parts.sites, problems);
  if (problems.hasErrors) {
    await host.dispose();
    throw new ConfigError(options.source, problems.problems);
  }
  warnOfUnusedPlugins(config, { roles, catalog, classifier }, problems);
  host.finish(needs, problems);
  return host;
}
