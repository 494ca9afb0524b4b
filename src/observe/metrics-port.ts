// How rooms report numbers. The implementation over prom-client stands beside this file; rooms see only the port.
import type { MetricName } from './metric-table.ts';

/** Label values of one series. */
export type MetricLabels = Readonly<Record<string, string>>;

/** One sample of a gauge with labels. */
export interface GaugeSample {
  readonly labels: MetricLabels;
  readonly value: number;
}

/** Takes counts and measurements by the names of the metric table. */
export interface Metrics {
  /** Adds to a counter; `by` ≥ 0, default 1. */
  count(name: MetricName, labels?: MetricLabels, by?: number): void;
  /** Records one value of a histogram, in the unit of its name. */
  observe(name: MetricName, value: number, labels?: MetricLabels): void;
  /** Has a gauge read at each scrape. A later call for the same name adds a reader. */
  gauge(name: MetricName, read: () => number | Iterable<GaugeSample>): void;
}

/** Metrics that go nowhere, for replay and tests. */
export const NO_METRICS: Metrics = { count() {}, observe() {}, gauge() {} };
