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
  PM_CONFIG_SYNTAX: {
    status: 500,
    retryable: false,
    meaning: 'The configuration text is not the YAML it must be.',
  },
  PM_CONFIG_UNKNOWN_KEY: { status: 500, retryable: false, meaning: 'A configuration key does not exist.' },
  PM_CONFIG_MISSING: {
    status: 500,
    retryable: false,
    meaning: 'A configuration key that is needed is missing.',
  },
  PM_CONFIG_VALUE: {
    status: 500,
    retryable: false,
    meaning: 'A configuration value has the wrong type or range.',
  },
  PM_CONFIG_CONFLICT: {
    status: 500,
    retryable: false,
    meaning: 'Two configuration values do not fit together, or one is given twice.',
  },
  PM_CONFIG_SECRET: {
    status: 500,
    retryable: false,
    meaning: 'A secret named in the configuration cannot be read.',
  },
  PM_CONFIG_NO_EFFECT: {
    status: 500,
    retryable: false,
    meaning: 'A warning: the configuration key is valid but does nothing in this version.',
  },
  PM_CONFIG_UNREADABLE: { status: 500, retryable: false, meaning: 'The configuration file cannot be read.' },
  // --- host, plugins ---
  PM_PLUGIN_LOAD: { status: 500, retryable: false, meaning: 'A plugin file or package cannot be loaded.' },
  PM_PLUGIN_INVALID: { status: 500, retryable: false, meaning: 'A plugin definition breaks the contract.' },
  PM_PLUGIN_THREW: { status: 500, retryable: true, meaning: 'A plugin callback threw.' },
  PM_PLUGIN_DUPLICATE_TYPE: {
    status: 500,
    retryable: false,
    meaning: 'Two plugins, or a plugin and a built-in policy, register the same type.',
  },
  PM_POLICY_UNKNOWN: {
    status: 500,
    retryable: false,
    meaning: 'The configuration names a policy type or instance that does not exist.',
  },
  PM_POLICY_AMBIGUOUS: {
    status: 500,
    retryable: false,
    meaning: 'A name in the configuration is an instance and a type at once, or is given twice.',
  },
  PM_POLICY_PARAMETERS: {
    status: 500,
    retryable: false,
    meaning: 'The parameters of a policy do not fit its schema.',
  },
  PM_ROUTER_MODE: {
    status: 500,
    retryable: false,
    meaning: 'The router mode does not exist yet, or does not fit the policies and hints of a role.',
  },
  // --- kv ---
  PM_KV_ARGUMENT: {
    status: 500,
    retryable: false,
    meaning: 'A value given to hashing or the index is out of range.',
  },
  PM_KV_TOO_LONG: {
    status: 413,
    retryable: false,
    meaning: 'A prompt, chain or name is longer than hashing takes.',
  },
  PM_KV_NO_MEMORY: { status: 503, retryable: true, meaning: 'The system gives hashing no more memory.' },
  PM_KV_TABLE_FULL: {
    status: 500,
    retryable: false,
    meaning: 'A hash table holds as many entries as it can.',
  },
  PM_KV_INDEX_FULL: {
    status: 500,
    retryable: false,
    meaning: 'The prefix index holds as many engine hashes as it may.',
  },
  PM_KV_BIG_ENDIAN: {
    status: 500,
    retryable: false,
    meaning: 'Block hashing needs a little-endian machine.',
  },
  // --- events ---
  // --- fleet ---
  // --- scheduling, selection ---
  PM_SELECTION_NO_ENDPOINTS: {
    status: 503,
    retryable: true,
    meaning: 'No worker can take the request.',
  },
  PM_SELECTION_ALL_FILTERED: {
    status: 503,
    retryable: true,
    meaning: 'The filters of the worker-selection policy dropped every eligible worker.',
  },
  PM_SELECTION_NON_FINITE_COST: {
    status: 500,
    retryable: true,
    meaning: 'A scorer left a cost unwritten, or wrote one that is not a finite number.',
  },
  PM_SELECTION_INVALID_PICK: {
    status: 500,
    retryable: true,
    meaning: 'A picker answered something that is not the row of a candidate.',
  },
  PM_SELECTION_BLOCK_SIZE_UNKNOWN: {
    status: 503,
    retryable: true,
    meaning: 'The block size of a model is neither configured nor learned from its workers yet.',
  },
  // --- road ---
  // --- engines ---
  // --- tokens ---
  // --- gateway ---
  // --- admin ---
  PM_ADMIN_HOST: {
    status: 403,
    retryable: false,
    meaning: 'An admin request without token was not addressed to this machine.',
  },
  PM_ADMIN_UNAUTHORIZED: {
    status: 401,
    retryable: false,
    meaning: 'An admin request lacks the right token.',
  },
  PM_ADMIN_NOT_FOUND: { status: 404, retryable: false, meaning: 'The admin API has no such path or record.' },
  PM_ADMIN_QUERY: {
    status: 400,
    retryable: false,
    meaning: 'A query parameter of an admin request is wrong.',
  },
  PM_ADMIN_BODY: { status: 413, retryable: false, meaning: 'The body of an admin request is too large.' },
  PM_ADMIN_BUSY: { status: 503, retryable: true, meaning: 'Too many event streams are open.' },
  PM_ADMIN_FAILED: { status: 500, retryable: true, meaning: 'The admin API failed inside.' },
  // --- simulator ---
  // --- replay ---
  // --- cli ---
  PM_ADMIN_ANSWER: {
    status: 500,
    retryable: true,
    meaning: 'A command got no usable answer from the admin API of a router.',
  },
  PM_DECISION_UNKNOWN: {
    status: 500,
    retryable: false,
    meaning: 'The router remembers no decision for a request.',
  },
  PM_USAGE: {
    status: 500,
    retryable: false,
    meaning: 'The command line asks for something that does not exist or does not fit together.',
  },
} as const;

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;
