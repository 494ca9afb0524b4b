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
  PM_CONFIG_DEPRECATED: {
    status: 500,
    retryable: false,
    meaning: 'A warning: the configuration uses an older spelling; the text shows the present one.',
  },
  PM_CONFIG_UNREADABLE: { status: 500, retryable: false, meaning: 'The configuration file cannot be read.' },
  // --- host, plugins ---
  PM_PLUGIN_LOAD: { status: 500, retryable: false, meaning: 'A plugin file or package cannot be loaded.' },
  PM_PLUGIN_INVALID: {
    status: 500,
    retryable: false,
    meaning: 'A plugin definition, or what a plugin hands to the router, breaks the contract.',
  },
  PM_PLUGIN_FOLDER: {
    status: 500,
    retryable: false,
    meaning: 'The folder of a plugin cannot be read or written, or holds a file that would be overwritten.',
  },
  PM_PLUGIN_THREW: { status: 500, retryable: true, meaning: 'A plugin callback threw.' },
  PM_PLUGIN_DUPLICATE_TYPE: {
    status: 500,
    retryable: false,
    meaning: 'Two plugins, or a plugin and a built-in policy, register the same type.',
  },
  PM_PLUGIN_REFUSED: {
    status: 500,
    retryable: false,
    meaning: 'A reload would load a plugin version, or a configuration, that was rolled back before.',
  },
  PM_CONFIG_RESTART: {
    status: 500,
    retryable: false,
    meaning: 'A changed configuration key takes effect, or is possible, only at the next start.',
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
    meaning:
      'An event has more blocks than the prefix index may hold, or room for it cannot be made by evicting others.',
  },
  PM_KV_BIG_ENDIAN: {
    status: 500,
    retryable: false,
    meaning: 'Block hashing needs a little-endian machine.',
  },
  PM_KV_LINEAGE_ANCHOR: {
    status: 500,
    retryable: false,
    meaning: 'The paths of a session were asked for from a block on that no session has.',
  },
  PM_SNAPSHOT_UNUSABLE: {
    status: 500,
    retryable: false,
    meaning: 'A snapshot of the prefix index cannot be used; the router starts without.',
  },
  PM_SNAPSHOT_WRITE: {
    status: 500,
    retryable: true,
    meaning: 'A snapshot of the prefix index cannot be written.',
  },
  // --- events ---
  PM_EVENT_DECODE: {
    status: 500,
    retryable: false,
    meaning: 'A KV event batch of an engine does not follow the wire format, or exceeds a cap.',
  },
  PM_EVENT_ENCODE: {
    status: 500,
    retryable: false,
    meaning: 'A KV event of the simulated engine cannot be written in the wire format.',
  },
  PM_EVENT_ENDPOINT: {
    status: 500,
    retryable: false,
    meaning: 'The address of an engine’s KV events is no ZeroMQ address.',
  },
  PM_EVENT_MESSAGE: {
    status: 500,
    retryable: false,
    meaning: 'A message on an engine’s KV event socket was no KV event message and was ignored.',
  },
  // --- fleet ---
  PM_WORKER_INVALID: {
    status: 400,
    retryable: false,
    meaning: 'What was said about a worker cannot be right.',
  },
  PM_WORKER_EXISTS: {
    status: 409,
    retryable: false,
    meaning: 'A worker with this id is already in the fleet.',
  },
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
  PM_SELECTION_OVERLOADED: {
    status: 429,
    retryable: true,
    meaning: 'Every worker that could take the request is over a busy threshold.',
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
  PM_SELECTION_ADAPTER_UNKNOWN: {
    status: 404,
    retryable: false,
    meaning: 'No worker of the model holds the LoRA adapter that the request names.',
  },
  PM_SELECTION_PIN_REQUIRED: {
    status: 400,
    retryable: false,
    meaning: 'Worker selection is direct, and the request names no worker.',
  },
  PM_SELECTION_FAILED: {
    status: 500,
    retryable: true,
    meaning: 'The worker-selection policy failed and no default could decide in its place.',
  },
  PM_SELECTION_ALL_FILTERED: {
    status: 503,
    retryable: true,
    meaning: 'The filters of the worker-selection policy dropped every eligible worker.',
  },
  PM_SELECTION_TRIPPED: {
    status: 503,
    retryable: true,
    meaning:
      'The worker-selection policy failed or overran too often and is skipped for a while; ends a request only under containment.tripped.worker_selection: refuse.',
  },
  PM_CLASSIFIER_CAPACITY: {
    status: 429,
    retryable: true,
    meaning: 'The request classifier refused the request: there is no room for it now.',
  },
  PM_CLASSIFIER_RATE_LIMITED: {
    status: 429,
    retryable: true,
    meaning: 'The request classifier refused the request: its sender has used up its share.',
  },
  PM_CLASSIFIER_THREW: {
    status: 500,
    retryable: true,
    meaning: 'The request classifier threw, or its promise was rejected.',
  },
  PM_CLASSIFIER_INVALID: {
    status: 500,
    retryable: true,
    meaning: 'The request classifier answered something that is not a set of overrides.',
  },
  PM_CLASSIFIER_TIMEOUT: {
    status: 503,
    retryable: true,
    meaning: 'The request classifier did not answer within request_classifier.max_wait.',
  },
  PM_CLASSIFIER_TRIPPED: {
    status: 503,
    retryable: true,
    meaning:
      'The request classifier failed or overran too often and is skipped for a while; ends a request only under containment.tripped.classifier: refuse.',
  },
  PM_CLASSIFIER_DUPLICATE_ID: {
    status: 409,
    retryable: true,
    meaning: 'A request with the same id is under way, so a classifier could not tell the two apart.',
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
  PM_COMMIT_WITHOUT_SOURCE: {
    status: 500,
    retryable: true,
    meaning: 'A picker committed a KV copy to a worker for which no peer has one, or that takes no hints.',
  },
  PM_COMMIT_SENDER: {
    status: 500,
    retryable: false,
    meaning:
      'A worker-selection policy commits KV copies, but not exactly one hint policy of its role sends them.',
  },
  PM_PARTITION_NOT_READY: {
    status: 503,
    retryable: true,
    meaning: 'The policies of a model cannot be created, so it is not served for now; others are.',
  },
  PM_SELECTION_BLOCK_SIZE_UNKNOWN: {
    status: 503,
    retryable: true,
    meaning: 'The block size of a model is neither configured nor learned from its workers yet.',
  },
  PM_AFFINITY_FULL: {
    status: 503,
    retryable: true,
    meaning:
      'As many sessions are bound to workers as router.session_affinity.max_sessions allows, or too many requests wait for a binding.',
  },
  PM_AFFINITY_ID: {
    status: 400,
    retryable: false,
    meaning: 'A session id is too long to be bound to a worker.',
  },
  PM_AFFINITY_CONFLICT: {
    status: 409,
    retryable: false,
    meaning: 'The request must go to another worker than the one its session is bound to.',
  },
  PM_AFFINITY_UNAVAILABLE: {
    status: 503,
    retryable: true,
    meaning:
      'The worker that the session is bound to cannot take its request; the next request of the session gets another one.',
  },
  // --- road ---
  // --- engines ---
  PM_ENGINE_DIALECT: {
    status: 500,
    retryable: false,
    meaning: 'A worker names an engine dialect that does not exist, or auto and is not recognized.',
  },
  PM_ENGINE_REQUEST: {
    status: 400,
    retryable: false,
    meaning: 'The request cannot be written in the form the engine takes.',
  },
  PM_ENGINE_REFUSED: {
    status: 400,
    retryable: false,
    meaning: 'The engine refused the request; its own status and message are passed on.',
  },
  PM_ENGINE_FAILED: {
    status: 502,
    retryable: true,
    meaning: 'The engine answered with a server error, or a redirect; its text stays inside.',
  },
  PM_ENGINE_UNREACHABLE: {
    status: 502,
    retryable: true,
    meaning: 'No connection to the engine could be made.',
  },
  PM_ENGINE_LOST: {
    status: 502,
    retryable: true,
    meaning: 'The connection to the engine broke before its answer was complete.',
  },
  // --- tokens ---
  PM_TOKENS_SOURCE: {
    status: 500,
    retryable: false,
    meaning: 'A model names a source of token ids that is not available.',
  },
  PM_LLAMA_MISSING: {
    status: 500,
    retryable: false,
    meaning: 'node-llama-cpp is not installed, or has no program for this machine.',
  },
  PM_LLAMA_MODEL: { status: 500, retryable: false, meaning: 'A GGUF model is missing or cannot be loaded.' },
  PM_TOKENIZER_INVALID: {
    status: 500,
    retryable: false,
    meaning: 'A tokenizer or chat template cannot be loaded, or fails its self-check.',
  },
  PM_TOKENIZER_BUSY: {
    status: 429,
    retryable: true,
    meaning: 'Too many prompts wait for tokenizing.',
  },
  PM_TOKENIZER_FAILED: {
    status: 500,
    retryable: false,
    meaning: 'Tokenizing a prompt failed inside the tokenizer.',
  },
  PM_PROMPT_INVALID: {
    status: 400,
    retryable: false,
    meaning: 'The prompt is empty, or its token ids are not integers from 0 to 4294967295.',
  },
  PM_PROMPT_TOO_LONG: {
    status: 400,
    retryable: false,
    meaning: 'The prompt has more tokens than limits.prompt_tokens allows.',
  },
  PM_CHAT_INVALID: {
    status: 400,
    retryable: false,
    meaning: 'The messages of a chat request are not a list of messages with role and text.',
  },
  PM_CHAT_TEMPLATE: {
    status: 400,
    retryable: false,
    meaning: 'The chat template of the model refuses the messages, or the model has none.',
  },
  // --- gateway ---
  PM_NETWORK_INVALID: {
    status: 500,
    retryable: false,
    meaning: 'A trusted network is neither an IP address nor a network in CIDR form.',
  },
  PM_REQUEST_INVALID: {
    status: 400,
    retryable: false,
    meaning: 'The request body is not JSON, or a field has a wrong type or value.',
  },
  PM_REQUEST_UNAUTHORIZED: {
    status: 401,
    retryable: false,
    meaning: 'The API key is missing or unknown.',
  },
  PM_REQUEST_NOT_FOUND: { status: 404, retryable: false, meaning: 'No such path on this port.' },
  PM_REQUEST_METHOD: { status: 405, retryable: false, meaning: 'The path exists but not with this method.' },
  PM_MODEL_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: 'No such model, or the API key may not use it.',
  },
  PM_REQUEST_TIMEOUT: {
    status: 408,
    retryable: true,
    meaning: 'The request did not arrive in time.',
  },
  PM_BODY_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: 'The request body is larger than limits.body_bytes.',
  },
  PM_HEADERS_TOO_LARGE: {
    status: 431,
    retryable: false,
    meaning: 'The request headers are larger than limits.header_bytes.',
  },
  PM_DISAGG_NO_PREFILL: {
    status: 503,
    retryable: true,
    meaning:
      'No prefill worker is ready, and decode workers may not compute prompts (router.decode_fallback).',
  },
  PM_DISAGG_TOPOLOGY: {
    status: 503,
    retryable: true,
    meaning:
      'The prefill worker must hand its KV over within a topology level, and no decode worker there can be found.',
  },
  PM_DISAGG_HANDOFF: {
    status: 502,
    retryable: true,
    meaning: 'A prefill worker computed the prompt and did not say how its KV is to be taken over.',
  },
  PM_DISAGG_REQUEST: {
    status: 400,
    retryable: false,
    meaning:
      'The request asks for something that two workers cannot do together, such as several answers to one prompt; the gateway refuses those for every model, as PM_REQUEST_INVALID.',
  },
  PM_ROAD_EXPIRED: {
    status: 504,
    retryable: true,
    meaning: 'The engine sent nothing for long, and nobody was known to wait for the answer.',
  },
  PM_OVERLOADED: {
    status: 429,
    retryable: true,
    meaning: 'As many requests are under way as limits.concurrent_requests allows.',
  },
  PM_QUEUE_FULL: {
    status: 429,
    retryable: true,
    meaning:
      'All workers are busy, and as much waits in the policy class of the request as its limits allow.',
  },
  PM_QUEUE_DEADLINE: {
    status: 429,
    retryable: true,
    meaning: 'The request was due before its turn in the admission queue came.',
  },
  PM_QUEUE_WOULD_WAIT: {
    status: 429,
    retryable: true,
    meaning: 'All workers are busy, and the caller does not want to wait in the admission queue.',
  },
  PM_SHUTTING_DOWN: {
    status: 503,
    retryable: true,
    meaning: 'This router is stopping and takes no new requests.',
  },
  PM_LISTEN: { status: 500, retryable: false, meaning: 'A port cannot be listened on.' },
  PM_CLIENT_STALLED: {
    status: 408,
    retryable: false,
    meaning: 'The client stopped reading its answer.',
  },
  PM_INTERNAL: {
    status: 500,
    retryable: true,
    meaning: 'Something failed inside the router; the log has more.',
  },
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
  PM_ADMIN_REQUEST: {
    status: 400,
    retryable: false,
    meaning: 'The body of an admin request is not JSON, or a field has a wrong value.',
  },
  PM_ADMIN_BODY: { status: 413, retryable: false, meaning: 'The body of an admin request is too large.' },
  PM_ADMIN_BUSY: { status: 503, retryable: true, meaning: 'Too many event streams are open.' },
  PM_ADMIN_FAILED: { status: 500, retryable: true, meaning: 'The admin API failed inside.' },
  // --- services ---
  PM_INDEXER_REQUEST: {
    status: 400,
    retryable: false,
    meaning: 'The body of a request to the indexer is not JSON, or a field has a wrong value.',
  },
  PM_INDEXER_HOST: {
    status: 403,
    retryable: false,
    meaning: 'A request to an indexer on a loopback address was not addressed to this machine.',
  },
  PM_INDEXER_UNKNOWN: {
    status: 404,
    retryable: false,
    meaning: 'The indexer has no such path, index, instance or peer.',
  },
  PM_INDEXER_CONFLICT: {
    status: 409,
    retryable: false,
    meaning: 'A registration does not fit what the indexer has, or a listener is not in that state.',
  },
  PM_INDEXER_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: 'The body of a request to the indexer is too large.',
  },
  PM_INDEXER_ACCESS_LOG: {
    status: 500,
    retryable: false,
    meaning: 'The access log of the indexer cannot be written.',
  },
  PM_INDEXER_FULL: {
    status: 503,
    retryable: false,
    meaning: 'The indexer has as many indexes, ranks, peers or readers of dumps as it may.',
  },
  PM_SELECTOR_REQUEST: {
    status: 400,
    retryable: false,
    meaning: 'The body of a request to the selection service is not JSON, or a field has a wrong value.',
  },
  PM_SELECTOR_UNAUTHORIZED: {
    status: 401,
    retryable: false,
    meaning: 'A request to the selection service lacks the right token.',
  },
  PM_SELECTOR_HOST: {
    status: 403,
    retryable: false,
    meaning: 'A request to a selection service on a loopback address was not addressed to this machine.',
  },
  PM_SELECTOR_UNKNOWN: {
    status: 404,
    retryable: false,
    meaning: 'The selection service has no such path, worker, rank, selection or reservation.',
  },
  PM_SELECTOR_METHOD: {
    status: 405,
    retryable: false,
    meaning: 'A path of the selection service was called with a method that it does not have.',
  },
  PM_SELECTOR_CONFLICT: {
    status: 409,
    retryable: false,
    meaning: 'A reservation id is taken, or a worker id belongs to a worker that was not registered here.',
  },
  PM_SELECTOR_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: 'The body of a request to the selection service is too large.',
  },
  PM_SELECTOR_NOT_BUILT: {
    status: 501,
    retryable: false,
    meaning: 'The selection service does not have this yet: it does not replicate its state to others.',
  },
  PM_SELECTOR_NOT_READY: {
    status: 503,
    retryable: true,
    meaning: 'No worker of the partition can be scheduled yet.',
  },
  PM_SELECTOR_FULL: {
    status: 503,
    retryable: false,
    meaning: 'The selection service has as many workers, partitions or readers of dumps as it may.',
  },
  PM_INDEXER_PEER: {
    status: 500,
    retryable: true,
    meaning: "A peer's dump cannot be had or used; the indexer tries the next peer, or starts empty.",
  },
  // --- simulator ---
  PM_SIM_SETTINGS: {
    status: 500,
    retryable: false,
    meaning: 'A setting of a simulated engine is out of range.',
  },
  PM_SIM_INVALID: {
    status: 400,
    retryable: false,
    meaning: 'The body of a request to a simulated engine is not what the API asks for.',
  },
  PM_SIM_NOT_FOUND: {
    status: 404,
    retryable: false,
    meaning: 'A simulated engine has no such path or model.',
  },
  PM_SIM_METHOD: {
    status: 405,
    retryable: false,
    meaning: 'A path of a simulated engine was called with another HTTP method.',
  },
  PM_SIM_TOO_LARGE: {
    status: 413,
    retryable: false,
    meaning: 'The body of a request to a simulated engine is larger than it accepts.',
  },
  PM_SIM_BUSY: {
    status: 503,
    retryable: true,
    meaning: 'A simulated engine has too many requests, or stops.',
  },
  PM_SIM_CONTROL: {
    status: 500,
    retryable: false,
    meaning: 'A message on the control channel between simulated engines is malformed.',
  },
  PM_SIM_HANDOFF: {
    status: 503,
    retryable: true,
    meaning: 'A simulated engine did not get the KV that another one computed, or nobody came for its own.',
  },
  PM_SIM_START: { status: 500, retryable: false, meaning: 'Simulated engines cannot be started.' },
  PM_SIM_REQUEST: { status: 400, retryable: false, meaning: 'A simulated engine cannot take this request.' },
  PM_SIM_WORKER: {
    status: 500,
    retryable: false,
    meaning: 'A request names a worker the simulated fleet does not have.',
  },
  // --- replay ---
  PM_REPLAY_TRACE: {
    status: 500,
    retryable: false,
    meaning: 'A trace file cannot be read, or one of its lines is wrong.',
  },
  PM_REPLAY_SETTINGS: {
    status: 500,
    retryable: false,
    meaning: 'The options of a replay do not fit together or do not fit the trace.',
  },
  PM_REPLAY_INTERRUPTED: { status: 500, retryable: true, meaning: 'A replay was stopped by a signal.' },
  PM_REPLAY_STUCK: {
    status: 500,
    retryable: false,
    meaning: 'A replay ran out of events with requests unanswered; a defect.',
  },
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
// Plugins hold it too: none may change what others' errors become.
for (const row of Object.values(ERROR_CODES)) Object.freeze(row);
Object.freeze(ERROR_CODES);

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;
