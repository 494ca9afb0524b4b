// The numbers that plugins report themselves, under caps. One per metrics registry, whatever the number of hosts: gauges are read by
// a single reader, which must not keep what was disposed.
import type { GaugeSample, Metrics } from '../observe/index.ts';
import type { Logger, PluginMetrics } from '../plugin/index.ts';

/** Names per created policy. */
export const MAX_NAMES = 32;
/** Labels per name. */
export const MAX_LABELS = 32;

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_LABEL_LENGTH = 64;
/** Where goes what is one too many, or has no usable name. */
const OTHER = 'other';

const metersOfRegistry = new WeakMap<Metrics, Set<PluginMeter>>();

/** What one created policy reports. */
export class PluginMeter {
  /** What the policy is given; its functions work taken out of it as well. */
  readonly metrics: PluginMetrics;
  readonly #plugin: string;
  readonly #registry: Metrics;
  readonly #log: Logger;
  /** Labels by name. */
  readonly #known = new Map<string, Set<string>>();
  readonly #gauges = new Map<string, GaugeSample>();
  readonly #complained = new Set<string>();

  constructor(plugin: string, registry: Metrics, log: Logger) {
    this.#plugin = plugin;
    this.#registry = registry;
    this.#log = log;
    this.metrics = Object.freeze({
      count: (name: string, by = 1, label = '') => this.#count(name, by, label),
      gauge: (name: string, value: number, label = '') => this.#gauge(name, value, label),
    });
  }

  #count(name: string, by: number, label: string): void {
    if (!(typeof by === 'number' && by >= 0 && by < Number.POSITIVE_INFINITY)) {
      this.#complain('a count must be a number from 0');
      return;
    }
    this.#registry.count('pointsman_plugin_counts_total', this.#labels(name, label), by);
  }

  #gauge(name: string, value: number, label: string): void {
    if (!Number.isFinite(value)) {
      this.#complain('a gauge must be a finite number');
      return;
    }
    const labels = this.#labels(name, label);
    this.#gauges.set(`${labels.name}\u0000${labels.label}`, { labels, value });
  }

  /** What the gauges read now. */
  samples(): Iterable<GaugeSample> {
    return this.#gauges.values();
  }

  /** The policy is gone, and its readings with it. */
  close(): void {
    metersOfRegistry.get(this.#registry)?.delete(this);
    this.#gauges.clear();
  }

  #labels(name: string, label: string): { plugin: string; name: string; label: string } {
    const kept = this.#nameOf(name);
    return { plugin: this.#plugin, name: kept, label: this.#labelOf(kept, label) };
  }

  #nameOf(name: unknown): string {
    if (typeof name === 'string' && this.#known.has(name)) return name;
    const isName = typeof name === 'string' && NAME.test(name);
    if (isName && this.#known.size < MAX_NAMES) {
      this.#known.set(name, new Set());
      return name;
    }
    this.#complain(
      isName ? `at most ${MAX_NAMES} names` : 'a name must be a lower-case word of letters, digits and "_"',
    );
    return OTHER;
  }

  #labelOf(name: string, label: unknown): string {
    const labels = this.#known.get(name);
    // Under the name for what is too much, labels say nothing.
    if (labels === undefined || label === '') return '';
    if (typeof label !== 'string' || label.length > MAX_LABEL_LENGTH) {
      this.#complain(`a label must be a text of at most ${MAX_LABEL_LENGTH} characters`);
      return OTHER;
    }
    if (labels.has(label)) return label;
    if (labels.size < MAX_LABELS) {
      labels.add(label);
      return label;
    }
    this.#complain(`at most ${MAX_LABELS} labels for a name`);
    return OTHER;
  }

  #complain(rule: string): void {
    if (this.#complained.has(rule)) return;
    this.#complained.add(rule);
    this.#log.warn('a plugin reports numbers that cannot be shown as they are', {
      plugin: this.#plugin,
      rule,
    });
  }
}

/** A meter for a policy about to be created. */
export function openMeter(plugin: string, registry: Metrics, log: Logger): PluginMeter {
  let meters = metersOfRegistry.get(registry);
  if (meters === undefined) {
    const all = new Set<PluginMeter>();
    metersOfRegistry.set(registry, all);
    registry.gauge('pointsman_plugin_gauge', () => samplesOf(all));
    meters = all;
  }
  const meter = new PluginMeter(plugin, registry, log);
  meters.add(meter);
  return meter;
}

function* samplesOf(meters: ReadonlySet<PluginMeter>): Iterable<GaugeSample> {
  for (const meter of meters) yield* meter.samples();
}
