// The one table of metrics: docs/metrics.md is generated from it, and every name stands on /metrics before any request.
// Names start with `pointsman_`, the unit is in the name. One section per room.

/** One row of the table. */
export interface MetricRow {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets, in the unit of its name. */
  readonly buckets?: readonly number[];
  /** Name of the Rust router's metric for the same thing, for docs/metrics.md. */
  readonly dynamo?: string;
}

/** Every metric, by name. */
export const METRICS = {
  // --- gateway ---
  pointsman_requests_total: {
    kind: 'counter',
    help: 'Requests answered, by door, model and HTTP status.',
    dynamo: 'dynamo_component_router_requests_total',
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
    dynamo: 'dynamo_component_router_time_to_first_token_seconds',
    labels: ['model'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  // --- host ---
  pointsman_hint_actions_total: {
    kind: 'counter',
    help: 'Hint actions put into envelopes, by hint policy.',
    labels: ['policy'],
  },
  pointsman_hint_outputs_dropped_total: {
    kind: 'counter',
    help: 'Outputs of hint policies dropped whole, by hint policy and reason.',
    labels: ['policy', 'reason'],
  },
  pointsman_selection_failures_total: {
    kind: 'counter',
    help: 'Decisions that a worker-selection policy failed to make, by policy and error code.',
    labels: ['policy', 'code'],
  },
  // --- kv ---
  // --- events ---
  // --- fleet ---
  // --- engines ---
  // --- tokens ---
} as const satisfies Record<string, MetricRow>;

/** Name of a metric. */
export type MetricName = keyof typeof METRICS;
