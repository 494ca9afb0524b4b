// Metrics over prom-client: a registry of its own, every name of the table present before any request, a bounded number of
// series per metric. Only `serve` creates one; the library is loaded then and not before.
import { createRequire } from 'node:module';
import type { Counter, Gauge, Histogram } from 'prom-client';
import { METRICS, type MetricName, type MetricRow } from './metric-table.ts';
import type { GaugeSample, MetricLabels, Metrics } from './metrics-port.ts';

const requireLazily = createRequire(import.meta.url);

/** Series per metric; further label sets are counted together with every label set to `other`. */
const MAX_SERIES = 4096;

/** Metrics that can be scraped. */
export interface ScrapableMetrics extends Metrics {
  /** Everything in the Prometheus text format; `contentType` goes with it. Rejects when a gauge's reader throws. */
  text(): Promise<string>;
  readonly contentType: string;
}

/** Metrics in a new registry. Labels that the table does not list throw: that is a mistake in the caller. */
export function createMetrics(): ScrapableMetrics {
  const prometheus = requireLazily('prom-client') as typeof import('prom-client');
  const registry = new prometheus.Registry();
  const counters = new Map<MetricName, Counter>();
  const histograms = new Map<MetricName, Histogram>();
  const readers = new Map<MetricName, (() => number | Iterable<GaugeSample>)[]>();
  for (const [name, row] of Object.entries(METRICS) as [MetricName, MetricRow][]) {
    const options = { name, help: row.help, labelNames: [...row.labels], registers: [registry] };
    if (row.kind === 'counter') counters.set(name, new prometheus.Counter(options));
    else if (row.kind === 'gauge') {
      const list: (() => number | Iterable<GaugeSample>)[] = [];
      readers.set(name, list);
      new prometheus.Gauge({
        ...options,
        collect() {
          collectGauge(this, list);
        },
      });
    } else {
      histograms.set(name, new prometheus.Histogram({ ...options, buckets: [...(row.buckets ?? [])] }));
    }
  }
  const bounded = seriesBound();
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    count(name, labels = {}, by = 1) {
      existing(counters, name, 'counter').inc(bounded(name, labels), by);
    },
    observe(name, value, labels = {}) {
      existing(histograms, name, 'histogram').observe(bounded(name, labels), value);
    },
    gauge(name, read) {
      existing(readers, name, 'gauge').push(read);
    },
  };
}

/** Adds up what the readers say now; series that none mentions any more disappear. */
function collectGauge(gauge: Gauge, readers: readonly (() => number | Iterable<GaugeSample>)[]): void {
  gauge.reset();
  for (const read of readers) {
    const found = read();
    if (typeof found === 'number') gauge.inc(found);
    else for (const { labels, value } of found) gauge.inc({ ...labels }, value);
  }
}

function existing<T>(metrics: ReadonlyMap<MetricName, T>, name: MetricName, kind: string): T {
  const metric = metrics.get(name);
  if (metric === undefined) throw new TypeError(`${name} is not a ${kind} of the metric table`);
  return metric;
}

/** Lets the first label sets of each metric through and folds the rest into one. */
function seriesBound(): (name: MetricName, labels: MetricLabels) => Record<string, string> {
  const seen = new Map<MetricName, Set<string>>();
  return (name, labels) => {
    const values = Object.values(labels);
    if (values.length === 0) return {};
    let known = seen.get(name);
    if (known === undefined) {
      known = new Set();
      seen.set(name, known);
    }
    const key = values.join('\u0000');
    if (!known.has(key)) {
      if (known.size >= MAX_SERIES)
        return Object.fromEntries(Object.keys(labels).map((label) => [label, 'other']));
      known.add(key);
    }
    return { ...labels };
  };
}
