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
