// The numbers that plugins report themselves, on their way to /metrics. One set per metrics registry, whatever the number of hosts:
// gauges are read by a single reader, which must not keep what was disposed.
import type { GaugeSample, Metrics } from '../observe/index.ts';
import type { Logger, PluginMetrics } from '../plugin/index.ts';
import { boundedMetrics, type MeterRule, type MeterSink } from './meter-input.ts';

const metersOfRegistry = new WeakMap<Metrics, Set<PluginMeter>>();

/** What one created policy reports. */
export class PluginMeter implements MeterSink {
  /** What the policy is given. */
  readonly metrics: PluginMetrics = boundedMetrics(this);
  readonly #plugin: string;
  readonly #registry: Metrics;
  readonly #log: Logger;
  readonly #gauges = new Map<string, GaugeSample>();
  readonly #complained = new Set<string>();

  constructor(plugin: string, registry: Metrics, log: Logger) {
    this.#plugin = plugin;
    this.#registry = registry;
    this.#log = log;
  }

  count(name: string, label: string, by: number): void {
    this.#registry.count('pointsman_plugin_counts_total', { plugin: this.#plugin, name, label }, by);
  }

  gauge(name: string, label: string, value: number): void {
    this.#gauges.set(`${name}\u0000${label}`, { labels: { plugin: this.#plugin, name, label }, value });
  }

  complain(rule: MeterRule): void {
    if (this.#complained.has(rule)) return;
    this.#complained.add(rule);
    this.#log.warn('a plugin reports numbers that cannot be shown as they are', {
      plugin: this.#plugin,
      rule,
    });
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
