// Reloads a running router: reads, checks everything, switches in one step; or changes nothing and says why. One at a time, and those
// that are asked for meanwhile become one more.
import { isDeepStrictEqual } from 'node:util';
import {
  ConfigError,
  type ConfigProblem,
  type ConfigSource,
  type RouterConfig,
  reloadedConfig,
} from '../config/index.ts';
import { type GenerationStatus, policiesOf, type ResolvedPluginHost } from '../host/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, errorText, type Logger } from '../plugin/index.ts';
import type { ComposedRouter } from './compose-router.ts';
import { pluginModules } from './plugin-modules.ts';
import { idleRoleWarnings, keylessWarnings, untestedWarnings, workerProblems } from './start-problems.ts';

/** Who asked. */
export type ReloadTrigger = 'signal' | 'command' | 'file';

/** What became of a reload. */
export interface ReloadReport {
  readonly result: 'applied' | 'unchanged' | 'failed' | 'rolled_back';
  readonly trigger: ReloadTrigger;
  /** On the router's clock, ms. */
  readonly atMs: number;
  /** Generation that serves afterwards. */
  readonly generation: number;
  /** Why it failed or was rolled back; null otherwise. */
  readonly reason: string | null;
  /** Every problem with its place, one line each. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** A configuration as it stands in its files now. */
export interface ReadConfig {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly warnings: readonly ConfigProblem[];
  /** Absolute paths it was read from. */
  readonly files: readonly string[];
}

/** What reloads work on. */
export interface RouterReloadOptions {
  readonly core: ComposedRouter;
  /** The configuration the router was started with. */
  readonly started: RouterConfig;
  /** Absolute paths it was read from. */
  readonly files: readonly string[];
  /** Reads the configuration again. @throws as at the start */
  readonly read: () => ReadConfig;
  /** A configuration is in force from now on; called in the step that switches. */
  readonly apply: (config: RouterConfig) => void;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** Reloads of one router. */
export class RouterReload {
  readonly #options: RouterReloadOptions;
  #config: RouterConfig;
  #running: Promise<ReloadReport> | null = null;
  #queued: { readonly promise: Promise<ReloadReport>; trigger: ReloadTrigger } | null = null;
  #last: ReloadReport | null = null;
  #closed = false;
  #files: readonly string[];
  /** Told after each reload, whatever came of it. */
  onDone: (() => void) | null = null;

  constructor(options: RouterReloadOptions) {
    this.#options = options;
    this.#config = options.started;
    this.#files = options.files;
  }

  /** The configuration in force. */
  get config(): RouterConfig {
    return this.#config;
  }

  /** Files whose change calls for a reload. */
  get files(): readonly string[] {
    return [...this.#files, ...this.#options.core.host.watched()];
  }

  /** The latest reload, or its roll-back; null = there was none. */
  get last(): ReloadReport | null {
    return this.#last;
  }

  /** Reloads now, or once more after the one under way. Never rejects. */
  request(trigger: ReloadTrigger): Promise<ReloadReport> {
    if (this.#running === null) {
      this.#running = this.#run(trigger).finally(() => {
        this.#running = null;
      });
      return this.#running;
    }
    if (this.#queued !== null) {
      // What looks at more wins: a changed file leaves packages alone.
      if (trigger !== 'file') this.#queued.trigger = trigger;
      return this.#queued.promise;
    }
    const promise = this.#running.then(() => {
      const wanted = this.#queued?.trigger ?? trigger;
      this.#queued = null;
      return this.request(wanted);
    });
    this.#queued = { promise, trigger };
    return promise;
  }

  /** The policies of an older generation serve again; what else was reloaded stays. */
  rolledBack(reason: string, policies: RouterConfig): void {
    this.#config = { ...this.#config, ...policiesOf(policies) };
    this.#options.apply(this.#config);
    const trigger = this.#last?.trigger ?? 'command';
    this.#last = this.#report('rolled_back', trigger, { reason, problems: [reason] });
    this.onDone?.();
  }

  /** Waits for what is under way; what is asked for later is refused. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  async #run(trigger: ReloadTrigger): Promise<ReloadReport> {
    const { log, metrics } = this.#options;
    let report: ReloadReport;
    try {
      if (this.#closed) throw new Error('the router is stopping');
      report = await this.#reload(trigger);
      if (report.result === 'applied') {
        log.info('reloaded', { trigger, generation: report.generation });
      }
    } catch (thrown) {
      const problems =
        thrown instanceof ConfigError
          ? thrown.problems.map((problem) => thrown.source.render(problem))
          : [errorText(thrown)];
      report = this.#report('failed', trigger, { reason: errorText(thrown), problems });
      metrics.count('pointsman_config_reload_failed_total');
      log.error('a reload failed, everything stays as it was', { trigger, reason: problems.join('\n') });
    }
    metrics.count('pointsman_reloads_total', { result: report.result });
    this.#last = report;
    this.onDone?.();
    return report;
  }

  async #reload(trigger: ReloadTrigger): Promise<ReloadReport> {
    const { core, read, apply, log } = this.#options;
    const before = this.#config;
    const { config: written, source, warnings: early, files } = read();
    this.#files = files;
    const problems = workerProblems(written);
    if (problems.length > 0) throw new ConfigError(source, problems);
    const { config, warnings: waiting } = reloadedConfig(before, written);
    let isNew = false;
    const switched = await core.host.reload({
      config,
      source,
      modules: await pluginModules(config),
      packages: trigger !== 'file',
      refuse: (next) => indexProblems(core, next),
      switched: () => {
        isNew = !isDeepStrictEqual(before, config);
        this.#config = config;
        if (isNew) apply(config);
      },
    });
    const found = [
      ...early,
      ...waiting,
      ...idleRoleWarnings(config),
      ...untestedWarnings(config),
      ...keylessWarnings(config, core.host.resolution()),
      ...(switched ? core.host.warnings : []),
    ];
    const warnings = found.map((problem) => source.render(problem));
    for (const warning of switched || isNew ? warnings : waiting.map((one) => source.render(one))) {
      log.warn(warning);
    }
    return this.#report(switched || isNew ? 'applied' : 'unchanged', trigger, { warnings });
  }

  #report(
    result: ReloadReport['result'],
    trigger: ReloadTrigger,
    parts: Partial<Pick<ReloadReport, 'reason' | 'problems' | 'warnings'>>,
  ): ReloadReport {
    const { clock, core } = this.#options;
    const { generation }: GenerationStatus = core.host.status();
    return {
      result,
      trigger,
      atMs: clock.now(),
      generation,
      reason: null,
      problems: [],
      warnings: [],
      ...parts,
    };
  }
}

/** Policies that read what nobody collects would decide blindly. */
function indexProblems(core: ComposedRouter, next: ResolvedPluginHost): readonly ConfigProblem[] {
  if (core.index !== null) return [];
  return next
    .resolution()
    .filter(({ needs }) => needs.cache)
    .map(({ role, policy }) => ({
      severity: 'error' as const,
      code: 'PM_CONFIG_RESTART' as const,
      path: ['worker_selection', role],
      anchor: 'key' as const,
      message: `role ${role} (${policy.type}) now reads what workers have cached, but this router was started without the prefix index, as nothing read it then; restart it`,
    }));
}
