// Keeps account of one plugin in one role: notes for the watchdog that it runs, times its calls, feeds its breaker, tells metrics
// and log. Built-in policies have no guard. Budget: two readings of the wall clock and no allocation per call.
import type { ContainmentSettings } from '../config/index.ts';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import type { Clock, Logger, Role } from '../plugin/index.ts';
import { Breaker, type BreakerState, type CallOutcome } from './breaker.ts';
import type { Origin } from './catalog.ts';

/** Where is noted which plugin runs, for whoever watches from outside. */
export interface RunningPlugin {
  /** A number for a plugin, other than 0. */
  register(plugin: PluginPlace): number;
  /** Notes that it runs; 0 = none does. */
  note(id: number): void;
}

/** Which plugin, where. */
export interface PluginPlace {
  /** Null for a request classifier, which stands before all roles. */
  readonly role: Role | null;
  readonly part: 'selection' | 'hint' | 'classifier';
  /** Name of the configured instance: the hint's name, the instance of a selection, else the type. */
  readonly plugin: string;
}

/** State of a plugin in a role, as the admin API shows it. */
export interface PluginStatus extends PluginPlace {
  readonly state: BreakerState;
  readonly failures: number;
  readonly overruns: number;
  readonly trips: number;
  /** Calls that were not made while it was tripped, or its thread was being replaced. */
  readonly skips: number;
  /** Until the next call is let through; 0 unless tripped. */
  readonly retryInMs: number;
  /** Of the module it came from; null = not known. */
  readonly version: string | null;
}

/** Hears of plugins that are on probation. */
export interface ProbationWatch {
  /** Calls that a plugin's probation lasts at most. */
  readonly calls: number;
  /** A plugin made that many calls, and begins another. */
  passed(guard: PluginGuard): void;
  tripped(guard: PluginGuard): void;
}

/** What guards work with. */
export interface GuardPorts {
  readonly settings: ContainmentSettings;
  /** The breaker's time. */
  readonly clock: Clock;
  /** Milliseconds of a running wall clock; null = calls are not timed, as in virtual time. */
  readonly wallMs: (() => number) | null;
  readonly running: RunningPlugin | null;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Absent = nobody is on probation. */
  readonly probation?: ProbationWatch;
}

/** The guard. */
export class PluginGuard {
  readonly place: PluginPlace;
  /** Where the plugin came from; null = not known. */
  readonly origin: Origin | null;
  readonly #ports: GuardPorts;
  /** Calls after which its probation is over; 0 = it is on none. */
  readonly #probationCalls: number;
  readonly #breaker: Breaker;
  readonly #labels: MetricLabels;
  readonly #id: number;
  readonly #budgetMs: number;
  readonly #wallMs: (() => number) | null;
  #failures = 0;
  #overruns = 0;
  #trips = 0;
  #skips = 0;
  #calls = 0;

  constructor(place: PluginPlace, ports: GuardPorts, origin: Origin | null = null) {
    const { settings, running } = ports;
    this.place = place;
    this.origin = origin;
    this.#ports = ports;
    this.#probationCalls = ports.probation?.calls ?? 0;
    this.#breaker = new Breaker(settings.breaker);
    this.#labels = { plugin: place.plugin, role: place.role ?? '', part: place.part };
    this.#id = running?.register(place) ?? 0;
    this.#budgetMs = settings.softBudgetMs;
    // A budget of 0 is none.
    this.#wallMs = settings.softBudgetMs > 0 ? ports.wallMs : null;
  }

  /** Calls begun so far. */
  get calls(): number {
    return this.#calls;
  }

  /** Whether a call may be made; a skipped one is counted. After true, {@link begin} and {@link end} must follow. */
  admits(): boolean {
    // The usual case reads no clock.
    if (this.#breaker.state === 'ok' || this.#breaker.admit(this.#ports.clock.now())) return true;
    this.#skips += 1;
    this.#ports.metrics.count('pointsman_plugin_skips_total', this.#labels);
    return false;
  }

  /** Whether {@link admits} would say yes; counts nothing and starts no probe. */
  wouldAdmit(): boolean {
    return this.#breaker.state === 'ok' || this.#breaker.wouldAdmit(this.#ports.clock.now());
  }

  /** The call starts; answers what {@link end} needs. */
  begin(): number {
    if (this.#calls === this.#probationCalls) this.#ports.probation?.passed(this);
    this.#calls += 1;
    this.note();
    return this.#wallMs === null ? 0 : this.#wallMs();
  }

  /** The call ended. */
  end(startedAt: number, failed: boolean): void {
    const overran = this.#stopClock(startedAt);
    if (failed) this.#failures += 1;
    else if (!overran && this.#breaker.state === 'ok') return;
    this.#settle(failed ? 'failed' : overran ? 'overran' : 'ok');
  }

  /**
   * The call returned, its answer comes later; {@link settledLater} must follow. What it took until here counts against the budget.
   * @returns whether the breaker waits for that answer to decide.
   */
  endLater(startedAt: number): boolean {
    const isProbe = this.#breaker.state === 'probing';
    if (!this.#stopClock(startedAt)) return isProbe;
    this.#settle('overran');
    return false;
  }

  /**
   * The answer of a call that ended with {@link endLater} is here; `none` = nobody waits for it any more.
   * @param isProbe what endLater answered
   */
  settledLater(outcome: 'ok' | 'failed' | 'none', isProbe: boolean): void {
    if (outcome === 'failed') this.#failures += 1;
    if (outcome === 'none') {
      if (isProbe) this.#breaker.probeAgain();
      return;
    }
    // While another call is the probe, answers from before the trip decide nothing.
    const { state } = this.#breaker;
    if (isProbe || (state === 'ok' && outcome === 'failed')) this.#settle(outcome);
  }

  /** A call was not made for another reason than the breaker. */
  skip(): void {
    this.#skips += 1;
    this.#ports.metrics.count('pointsman_plugin_skips_total', this.#labels);
  }

  /** It runs outside a timed call, as while it is created. */
  note(): void {
    this.#ports.running?.note(this.#id);
  }

  /** It does not run any more. */
  unnote(): void {
    this.#ports.running?.note(0);
  }

  status(): PluginStatus {
    const { state, until } = this.#breaker;
    return {
      ...this.place,
      state,
      failures: this.#failures,
      overruns: this.#overruns,
      trips: this.#trips,
      skips: this.#skips,
      retryInMs: state === 'tripped' ? Math.max(0, until - this.#ports.clock.now()) : 0,
      version: this.origin?.version ?? null,
    };
  }

  /** Whether the call overran the budget. */
  #stopClock(startedAt: number): boolean {
    const tookMs = this.#wallMs === null ? 0 : this.#wallMs() - startedAt;
    this.unnote();
    if (this.#wallMs === null || tookMs <= this.#budgetMs) return false;
    this.#overruns += 1;
    this.#ports.metrics.count('pointsman_plugin_overruns_total', this.#labels);
    return true;
  }

  #settle(outcome: CallOutcome): void {
    const change = this.#breaker.settle(this.#ports.clock.now(), outcome);
    if (change === 'tripped') this.#tripped(outcome === 'failed');
    else if (change === 'recovered') this.#ports.log.info('a plugin is called again', { ...this.place });
  }

  #tripped(failed: boolean): void {
    const { log, metrics, settings } = this.#ports;
    this.#trips += 1;
    metrics.count('pointsman_plugin_trips_total', this.#labels);
    log.warn('a plugin is skipped for a while', {
      ...this.place,
      why: failed ? 'too many failures' : 'too many calls over the budget',
      failures: this.#failures,
      overruns: this.#overruns,
      skip_ms: settings.breaker.skipMs,
    });
    this.#ports.probation?.tripped(this);
  }
}

/** The guards of a host, one per plugin and role whatever the number of partitions. */
export class PluginGuards {
  readonly #ports: GuardPorts;
  readonly #guards = new Map<string, PluginGuard>();

  constructor(ports: GuardPorts) {
    this.#ports = ports;
  }

  /** What is done with requests while a selection policy is tripped. */
  get refusesSelection(): boolean {
    return this.#ports.settings.tripped.workerSelection === 'refuse';
  }

  /** What is done with requests while the classifier is tripped. */
  get refusesClassification(): boolean {
    return this.#ports.settings.tripped.classifier === 'refuse';
  }

  /** The guard of a plugin, made when it is first asked for. */
  of(place: PluginPlace, origin: Origin | null = null): PluginGuard {
    const key = [place.role, place.part, place.plugin].join('\u0000');
    const known = this.#guards.get(key);
    if (known !== undefined) return known;
    const guard = new PluginGuard(place, this.#ports, origin);
    this.#guards.set(key, guard);
    return guard;
  }

  /** Every guard, in the order of {@link of}. */
  all(): readonly PluginGuard[] {
    return [...this.#guards.values()];
  }

  /** Of every plugin, in the order of {@link of}. */
  status(): readonly PluginStatus[] {
    return [...this.#guards.values()].map((guard) => guard.status());
  }
}
