// The one table of metrics: docs/metrics.md is generated from it, and every name stands on /metrics before any request.
// Names start with `pointsman_`, the unit is in the name. One section per room.

/** One row of the table. */
export interface MetricRow {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets, in the unit of its name. */
  readonly buckets?: readonly number[];
}

/** Every metric, by name. */
export const METRICS = {
  // --- gateway ---
  pointsman_requests_total: {
    kind: 'counter',
    help: 'Requests answered, by door, model and HTTP status.',
    labels: ['door', 'model', 'status'],
  },
  pointsman_stripped_fields_total: {
    kind: 'counter',
    help: 'Router-only fields and headers removed from client requests at ingress.',
    labels: ['field'],
  },
  // --- road ---
  pointsman_bookings_active: { kind: 'gauge', help: 'Bookings held now.', labels: [] },
  pointsman_time_to_first_token_seconds: {
    kind: 'histogram',
    help: 'From arrival to the first output token relayed.',
    labels: ['model'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  pointsman_selection_fallbacks_total: {
    kind: 'counter',
    help: 'Decisions in which the worker-selection policy failed and the default cost chose instead, by policy and error code.',
    labels: ['policy', 'code'],
  },
  pointsman_decision_ring_bytes: {
    kind: 'gauge',
    help: 'Memory in use for decision records.',
    labels: [],
  },
  pointsman_decisions_held: {
    kind: 'gauge',
    help: 'Decision records that can be looked up now.',
    labels: [],
  },
  // --- host ---
  // --- kv ---
  // --- events ---
  // --- fleet ---
  pointsman_workers: { kind: 'gauge', help: 'Workers of the fleet, by state.', labels: ['state'] },
  pointsman_worker_state_changes_total: {
    kind: 'counter',
    help: 'Changes of a worker into a state.',
    labels: ['state'],
  },
  pointsman_worker_restarts_total: {
    kind: 'counter',
    help: 'Engine restarts noticed by a changed epoch in the capability advertisement.',
    labels: [],
  },
  pointsman_health_checks_total: {
    kind: 'counter',
    help: 'Health checks of workers, by result (ok, failed).',
    labels: ['result'],
  },
  // --- engines ---
  // --- tokens ---
} as const satisfies Record<string, MetricRow>;

/** Name of a metric. */
export type MetricName = keyof typeof METRICS;
