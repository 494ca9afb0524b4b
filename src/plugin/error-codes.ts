// The one table of error codes: what each means, the HTTP status it becomes, and whether trying again can help.
// docs/errors.md is generated from it, and a test fails on a code that nothing raises. One section per room, in road order.

/** One row of the table. */
export interface ErrorCodeRow {
  /** Meaning, one sentence. */
  readonly meaning: string;
  /** HTTP status when it ends a request; 500 where it never reaches one. */
  readonly status: number;
  /** Whether sending the same request again can succeed. */
  readonly retryable: boolean;
}

/** Every code Pointsman raises, by name. */
export const ERROR_CODES = {
  // --- config ---
  PM_CONFIG_INVALID: {
    status: 500,
    retryable: false,
    meaning: 'The configuration file has problems; each is listed with line and column.',
  },
  PM_CONFIG_UNREADABLE: { status: 500, retryable: false, meaning: 'The configuration file cannot be read.' },
  // --- host, plugins ---
  PM_PLUGIN_LOAD: { status: 500, retryable: false, meaning: 'A plugin file or package cannot be loaded.' },
  PM_PLUGIN_INVALID: { status: 500, retryable: false, meaning: 'A plugin definition breaks the contract.' },
  PM_PLUGIN_THREW: { status: 500, retryable: true, meaning: 'A plugin callback threw.' },
  // --- kv ---
  // --- events ---
  // --- fleet ---
  PM_WORKER_INVALID: { status: 400, retryable: false, meaning: 'What was said about a worker cannot be right.' },
  PM_WORKER_EXISTS: { status: 409, retryable: false, meaning: 'A worker with this id is already in the fleet.' },
  PM_WORKER_UNKNOWN: { status: 404, retryable: false, meaning: 'No worker with this id is in the fleet.' },
  PM_FLEET_FULL: {
    status: 409,
    retryable: false,
    meaning: 'The fleet has as many data-parallel ranks as it may hold.',
  },
  PM_CAPABILITIES_INVALID: {
    status: 502,
    retryable: true,
    meaning: 'A worker advertises KV hint capabilities that cannot be read.',
  },
  // --- scheduling, selection ---
  PM_SELECTION_NO_ENDPOINTS: {
    status: 503,
    retryable: true,
    meaning: 'No worker can take the request.',
  },
  PM_SELECTION_PINNED_NOT_ALLOWED: {
    status: 400,
    retryable: false,
    meaning: 'The request is pinned to a worker that its own list of allowed workers leaves out.',
  },
  PM_SELECTION_PINNED_UNAVAILABLE: {
    status: 503,
    retryable: true,
    meaning: 'The worker that the request is pinned to cannot take it.',
  },
  PM_SELECTION_FAILED: {
    status: 500,
    retryable: true,
    meaning: 'The worker-selection policy failed and no default could decide in its place.',
  },
  // --- road ---
  // --- engines ---
  // --- tokens ---
  // --- gateway ---
  // --- admin ---
  // --- simulator ---
  // --- replay ---
  // --- cli ---
  PM_USAGE: {
    status: 500,
    retryable: false,
    meaning: 'The command line asks for something that does not exist or does not fit together.',
  },
} as const;

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;
