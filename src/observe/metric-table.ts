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
  pointsman_requests_active: {
    kind: 'gauge',
    help: 'Requests the gateway has accepted and not finished answering.',
    labels: [],
  },
  pointsman_speculative_prefills_total: {
    kind: 'counter',
    help: 'Prompts of next turns computed ahead, by model and outcome: sent (booked on a worker), and then one of completed, failed or cancelled (the next turn came, or the router stops); those never sent end as cancelled or refused (no room, they would have waited, or the prompt is not known exactly).',
    labels: ['model', 'outcome'],
  },
  pointsman_speculative_prefills_active: {
    kind: 'gauge',
    help: 'Prompts of next turns that are tokenized or computed ahead now (limits.speculative_prefills).',
    labels: [],
  },
  // --- parity ---
  pointsman_parity_findings: {
    kind: 'gauge',
    help: 'What differs now between what the router believes and what engines do, by code (docs/parity.md): worker ranks with the finding.',
    labels: ['finding'],
  },
  pointsman_parity_prompts_total: {
    kind: 'counter',
    help: 'Answered prompts compared with the blocks that their engine announced: agreed, tokens (it has other tokens), chain (other parents), lora, salt, silent (nothing was announced) or unclear.',
    labels: ['verdict'],
  },
  pointsman_prediction_drifts: {
    kind: 'gauge',
    help: 'Worker ranks whose reported cached tokens drift from the predicted ones, by kind: over_predicted, never_hits or under_predicted.',
    labels: ['kind'],
  },
  // --- road ---
  pointsman_disaggregated_requests_total: {
    kind: 'counter',
    help: 'Requests of models whose workers are prefill or decode workers, by where the prompt was computed: remote (a prefill worker), bypass and fallback (the decode worker), terminal (the prefill worker, which answered it all), refused (nowhere).',
    labels: ['model', 'path'],
  },
  pointsman_handoff_failures_total: {
    kind: 'counter',
    help: 'Requests of two workers that failed, by the leg that failed first and how the KV was to be handed over.',
    labels: ['model', 'leg', 'kind'],
  },
  pointsman_bookings_active: { kind: 'gauge', help: 'Bookings held now.', labels: [] },
  pointsman_timing_prefill_token_seconds: {
    kind: 'gauge',
    help: 'Time of one prompt token to compute, as learnt of each kind of worker (model, role, engine dialect, device); only where a policy declares `timing`.',
    labels: ['model', 'role', 'engine', 'device'],
  },
  pointsman_timing_prefill_attention_seconds: {
    kind: 'gauge',
    help: 'Time of one prompt token looking at one other, as learnt.',
    labels: ['model', 'role', 'engine', 'device'],
  },
  pointsman_timing_prefill_pass_seconds: {
    kind: 'gauge',
    help: 'Time of a prompt whatever its length, as learnt.',
    labels: ['model', 'role', 'engine', 'device'],
  },
  pointsman_timing_decode_seconds: {
    kind: 'gauge',
    help: 'Time of one output token on an idle worker, as learnt.',
    labels: ['model', 'role', 'engine', 'device'],
  },
  pointsman_timing_decode_fill_seconds: {
    kind: 'gauge',
    help: 'What an output token takes longer as prompts fill the worker (slope at 0 per 1,048,576 tokens), as learnt.',
    labels: ['model', 'role', 'engine', 'device'],
  },
  pointsman_timing_observations: {
    kind: 'gauge',
    help: 'Observations that the times rest on, older ones counting less; phase is prefill (times without a pause) or decode (answers).',
    labels: ['model', 'role', 'engine', 'device', 'phase'],
  },
  pointsman_timing_error: {
    kind: 'gauge',
    help: 'Mean |ln(observed / expected)| of late observations; 0.1 is about 10 %.',
    labels: ['model', 'role', 'engine', 'device', 'phase'],
  },
  pointsman_kv_link_bytes_per_second: {
    kind: 'gauge',
    help: 'Speed at which a worker copies KV blocks from peers, as learnt from the outcomes its engine reports.',
    labels: ['worker', 'rank'],
  },
  pointsman_kv_link_latency_seconds: {
    kind: 'gauge',
    help: 'Time of a copy of KV blocks to a worker whatever its size, as learnt.',
    labels: ['worker', 'rank'],
  },
  pointsman_kv_link_observations: {
    kind: 'gauge',
    help: 'Copies that the speed rests on, older ones counting less.',
    labels: ['worker', 'rank'],
  },
  pointsman_kv_link_error: {
    kind: 'gauge',
    help: 'Mean |ln(observed / expected)| of late copies; 0.1 is about 10 %.',
    labels: ['worker', 'rank'],
  },
  pointsman_bookings_expired_total: {
    kind: 'counter',
    help: 'Bookings ended because nothing came of them for long and nobody waited (abandoned), or nobody owned them (unowned).',
    labels: ['reason'],
  },
  pointsman_overload_refusals_total: {
    kind: 'counter',
    help: 'Requests refused by load, by model and reason: workers_busy (busy thresholds), queue_full (limits of a policy class), queue_deadline (due before its turn), queue_would_wait (a caller that does not wait) or concurrent_requests (the limit of that name; the gateway tells it before it knows the model).',
    dynamo: 'dynamo_frontend_model_rejection_total',
    labels: ['model', 'reason'],
  },
  pointsman_busy_workers: {
    kind: 'gauge',
    help: 'Workers that are over a busy threshold on every rank, by model; only models that have a threshold.',
    labels: ['model'],
  },
  pointsman_requests_held: {
    kind: 'gauge',
    help: 'Requests that wait for a first worker of their model now (limits.first_worker_wait).',
    labels: [],
  },
  pointsman_holds_total: {
    kind: 'counter',
    help: 'Waits for a first worker that ended, by outcome: went_on, expired, aborted, or full for requests that found no place to wait.',
    labels: ['outcome'],
  },
  pointsman_queue_pending_requests: {
    kind: 'gauge',
    help: 'Requests that wait for their turn now, by model, role and policy class; only queues in which some have waited.',
    dynamo: 'dynamo_frontend_router_queue_pending_requests',
    labels: ['model', 'role', 'policy_class'],
  },
  pointsman_queue_pending_isl_tokens: {
    kind: 'gauge',
    help: 'Prompt tokens of the requests that wait for their turn now.',
    dynamo: 'dynamo_frontend_router_queue_pending_isl_tokens',
    labels: ['model', 'role', 'policy_class'],
  },
  pointsman_queue_pending_cached_tokens: {
    kind: 'gauge',
    help: 'Of these, the tokens that a worker had cached when they came.',
    dynamo: 'dynamo_frontend_router_queue_pending_cached_tokens',
    labels: ['model', 'role', 'policy_class'],
  },
  pointsman_queue_kept_bytes: {
    kind: 'gauge',
    help: 'Memory in use for requests that wait for their turn: texts of their sessions, and their block hashes while all is 64 MiB at most.',
    labels: [],
  },
  pointsman_queue_unknown_classes_total: {
    kind: 'counter',
    help: 'Requests that asked for a policy class or family that the queue profile of their model does not have, and went to its default family.',
    labels: ['model'],
  },
  pointsman_queue_requests_total: {
    kind: 'counter',
    help: 'Requests that waited for their turn, by how that ended: admitted, expired (due before), aborted (the client left) or stopped with the router.',
    labels: ['model', 'role', 'policy_class', 'outcome'],
  },
  pointsman_queue_wait_seconds: {
    kind: 'histogram',
    help: 'How long requests waited until their turn came; those that went on at once are not in it.',
    labels: ['model', 'role', 'policy_class'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  },
  pointsman_keyless_conversations: {
    kind: 'gauge',
    help: 'Conversations without an id that are known by their prompts now (router.keyless_sessions).',
    labels: [],
  },
  pointsman_keyless_bytes: {
    kind: 'gauge',
    help: 'Memory in use for the blocks of these conversations.',
    labels: [],
  },
  pointsman_retries_total: {
    kind: 'counter',
    help: 'Failures before the first byte that another worker might make good, by what failed (unreachable, lost, unavailable, overloaded) and what became of the retry: answered, failed, no_worker (nobody could take it), aborted; or exhausted (limits.retries) and no_budget (limits.retry_budget) where there was none.',
    labels: ['model', 'reason', 'outcome'],
  },
  pointsman_session_bindings: {
    kind: 'gauge',
    help: 'Sessions bound to workers, those included that are being bound (router.session_affinity.max_sessions caps them).',
    labels: [],
  },
  pointsman_session_binding_waits: {
    kind: 'gauge',
    help: 'Requests that wait until the first request of their session is placed.',
    labels: [],
  },
  pointsman_session_affinity_total: {
    kind: 'counter',
    help: 'What became of session bindings, by role: initialised (new), bound (hard: the request had to go there), kept and moved (soft), overtaken (another request changed it meanwhile), waited (until it was made), invalidated (its worker failed or is not there), conflict (a request ran elsewhere although bound), unbound (no room, so the request went on without).',
    labels: ['model', 'role', 'outcome'],
  },
  pointsman_session_bindings_expired_total: {
    kind: 'counter',
    help: 'Bindings of sessions that no request used for router.session_affinity.ttl.',
    labels: [],
  },
  pointsman_classifications_waiting: {
    kind: 'gauge',
    help: 'Requests that wait for the answer of a request classifier now.',
    labels: [],
  },
  pointsman_time_to_first_token_seconds: {
    kind: 'histogram',
    help: 'From arrival to the first output token relayed, of streams: a whole answer does not show when its first token was out.',
    dynamo: 'dynamo_component_router_time_to_first_token_seconds',
    labels: ['model'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  pointsman_prompt_tokens_total: {
    kind: 'counter',
    help: 'Prompt tokens of finished requests.',
    labels: ['model'],
  },
  pointsman_predicted_cached_tokens_total: {
    kind: 'counter',
    help: 'Prompt tokens of finished requests that the router expected the engine to find cached, hints included.',
    labels: ['model'],
  },
  pointsman_predicted_cached_tokens_by_tier_total: {
    kind: 'counter',
    help: 'The tokens of pointsman_predicted_cached_tokens_total by where they were expected: device, host, or hint for what a hint was to bring.',
    labels: ['model', 'tier'],
  },
  pointsman_reported_cached_tokens_total: {
    kind: 'counter',
    help: 'Prompt tokens of finished requests that engines reported as cached.',
    labels: ['model'],
  },
  pointsman_hint_outcomes_total: {
    kind: 'counter',
    help: 'Reports on sent hint actions, by action type and outcome; unreported = nothing was heard by the end of the request.',
    labels: ['type', 'outcome'],
  },
  pointsman_door_errors_total: {
    kind: 'counter',
    help: 'Requests ended because their own door failed while taking the answer.',
    labels: [],
  },
  pointsman_decisions_unrecorded_total: {
    kind: 'counter',
    help: 'Bookings of which no decision record could be made; their requests went on.',
    labels: [],
  },
  pointsman_selection_fallbacks_total: {
    kind: 'counter',
    help: 'Decisions that the default cost made in the place of a worker-selection policy that is broken, or skipped (PM_SELECTION_TRIPPED), by policy and error code; a refusal such as filters that drop everybody is not one.',
    labels: ['policy', 'code'],
  },
  pointsman_kv_copy_commits_made_total: {
    kind: 'counter',
    help: 'Bookings whose choice counted on a KV copy, by worker-selection policy; each is sent, degraded or released.',
    labels: ['policy'],
  },
  pointsman_kv_copy_commits_settled_total: {
    kind: 'counter',
    help: 'What became of committed KV copies: sent to the engine, degraded to a dispatch without, or released to select once more.',
    labels: ['policy', 'result', 'reason'],
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
    help: 'Calls of a worker-selection policy that ended in an error, by policy and error code: refusals such as filters that drop everybody are counted, decisions while the policy is skipped are not.',
    labels: ['policy', 'code'],
  },
  pointsman_classifications_total: {
    kind: 'counter',
    help: 'Requests given to the request classifier, by what became of them (classified, refused, failed, left, skipped) and error code.',
    labels: ['classifier', 'result', 'code'],
  },
  pointsman_classifier_event_failures_total: {
    kind: 'counter',
    help: 'Lifecycle events that the request classifier failed to take: its onEvent threw, was rejected, or did not end in time.',
    labels: ['classifier'],
  },
  pointsman_plugin_overruns_total: {
    kind: 'counter',
    help: 'Calls of a plugin that took longer than containment.soft_budget, by plugin, role (none for a classifier) and part (selection, hint, classifier).',
    labels: ['plugin', 'role', 'part'],
  },
  pointsman_plugin_trips_total: {
    kind: 'counter',
    help: 'Times the breaker of a plugin tripped, by plugin, role and part.',
    labels: ['plugin', 'role', 'part'],
  },
  pointsman_plugin_skips_total: {
    kind: 'counter',
    help: 'Calls of a plugin that were not made because its breaker had tripped or its thread was being replaced, by plugin, role and part.',
    labels: ['plugin', 'role', 'part'],
  },
  pointsman_plugin_rollbacks_total: {
    kind: 'counter',
    help: 'Reloads taken back because a plugin tripped its breaker while it was on probation.',
    labels: [],
  },
  pointsman_reloads_total: {
    kind: 'counter',
    help: 'Reloads by result (applied, unchanged, failed).',
    labels: ['result'],
  },
  pointsman_config_reload_failed_total: {
    kind: 'counter',
    help: 'Reloads that changed nothing because the configuration or a plugin cannot be used.',
    labels: [],
  },
  pointsman_config_generation: {
    kind: 'gauge',
    help: 'Number of the generation of plugins and policies that serves, counted from 1 at the start.',
    labels: [],
  },
  pointsman_plugin_threads_lost_total: {
    kind: 'counter',
    help: 'Threads of isolated plugins that were ended because they did not answer within the deadline (timed_out), or that ended by themselves (died), by plugin and reason.',
    labels: ['plugin', 'reason'],
  },
  pointsman_plugin_output_dropped_total: {
    kind: 'counter',
    help: 'What isolated plugins wrote beyond what leaves their thread, by plugin: log lines (log), and bytes on standard output and error (output).',
    labels: ['plugin', 'what'],
  },
  pointsman_plugin_counts_total: {
    kind: 'counter',
    help: 'What plugins count themselves, by plugin, its own name for the count, and its label.',
    labels: ['plugin', 'name', 'label'],
  },
  pointsman_plugin_gauge: {
    kind: 'gauge',
    help: 'Readings of plugins, by plugin, its own name for the reading, and its label; those of several partitions and roles added up.',
    labels: ['plugin', 'name', 'label'],
  },
  // --- kv ---
  pointsman_kv_index_bytes: {
    kind: 'gauge',
    help: 'Memory of the arrays of the prefix index; limits.index_bytes caps it.',
    labels: [],
  },
  pointsman_kv_index_blocks: {
    kind: 'gauge',
    help: 'Distinct blocks that the prefix index knows on any worker, those of cleared workers included until they are taken away.',
    labels: [],
  },
  pointsman_kv_index_worker_blocks: {
    kind: 'gauge',
    help: 'Blocks that worker ranks hold by tier (device, host, disk, external), a block counted once for each rank and tier.',
    labels: ['tier'],
  },
  pointsman_kv_index_evicted_total: {
    kind: 'counter',
    help: 'Blocks of workers that the prefix index forgot to stay within limits.index_bytes; the engines still hold them.',
    labels: [],
  },
  pointsman_kv_index_removes_not_held_total: {
    kind: 'counter',
    help: 'Blocks that engines removed and the prefix index did not hold, by reason: evicted (it had forgotten them for want of room) or unknown (it never had them, or they were removed before).',
    labels: ['reason'],
  },
  pointsman_lineage_sessions: {
    kind: 'gauge',
    help: 'Sessions of which the session prefix index knows blocks; 0 where no policy declares session-lineage.',
    labels: [],
  },
  pointsman_lineage_frontiers: {
    kind: 'gauge',
    help: 'Deepest blocks of sessions on worker ranks.',
    labels: [],
  },
  pointsman_lineage_blocks: {
    kind: 'gauge',
    help: 'Distinct blocks of sessions, those of none among them until they are pruned.',
    labels: [],
  },
  pointsman_lineage_bytes: {
    kind: 'gauge',
    help: 'Memory that the session prefix index has in use; limits.lineage_bytes caps it.',
    labels: [],
  },
  pointsman_lineage_updates_waiting: {
    kind: 'gauge',
    help: 'Updates that wait to be applied to the session prefix index.',
    labels: [],
  },
  pointsman_lineage_forgotten_total: {
    kind: 'counter',
    help: 'What the session prefix index forgot, by reason: evicted (sessions unused for longest, for want of room), expired (sessions, limits.lineage_ttl) or frontier (the oldest chain of a session with too many on one rank).',
    labels: ['reason'],
  },
  pointsman_lineage_updates_total: {
    kind: 'counter',
    help: 'Updates of the session prefix index, by outcome: applied, refused (a chain that contradicts what is known, or hangs on nothing known), stale_match (nothing of it was held any more), late_store (of a session that is over), dropped_match, dropped_store and folded_removal (for want of room in the queue; a folded removal costs all frontiers of its rank).',
    labels: ['outcome'],
  },
  pointsman_snapshot_writes_total: {
    kind: 'counter',
    help: 'Snapshots of the prefix index, by result (written, failed).',
    labels: ['result'],
  },
  pointsman_snapshot_restores_total: {
    kind: 'counter',
    help: 'Snapshots found at a start, by result (restored, refused, old).',
    labels: ['result'],
  },
  pointsman_snapshot_owners_total: {
    kind: 'counter',
    help: 'Worker ranks of a restored snapshot, by result: restored, or left out because the worker is not configured (worker), is another engine life (epoch), or its model or block size differs (model, block_size), or it was cleared while the snapshot was taken (void).',
    labels: ['result'],
  },
  pointsman_snapshot_rows: {
    kind: 'gauge',
    help: 'Rows of the newest snapshot written by this process: blocks by owner, tier and engine hash.',
    labels: [],
  },
  // --- events ---
  pointsman_kv_event_batches_total: {
    kind: 'counter',
    help: 'KV event batches received from engines.',
    labels: [],
  },
  pointsman_kv_event_batches_missed_total: {
    kind: 'counter',
    help: 'KV event batches that engines sent and the router lost for good: nobody could be asked for them, or the engine did not have them either.',
    labels: [],
  },
  pointsman_kv_event_gaps_total: {
    kind: 'counter',
    help: 'Times the sequence of a KV event stream jumped forward.',
    labels: [],
  },
  pointsman_kv_event_duplicates_total: {
    kind: 'counter',
    help: 'KV event batches that were heard before, or came from a process that had ended, and were left out.',
    labels: [],
  },
  pointsman_kv_event_restarts_total: {
    kind: 'counter',
    help: 'Times a KV event stream showed that its engine started anew, so that its blocks were forgotten.',
    labels: [],
  },
  pointsman_kv_event_replays_total: {
    kind: 'counter',
    help: 'Questions to engines for missed KV event batches, by what became of them: asked, and then answered, timed_out or failed; too_old counts answers that did not reach back to what was asked for.',
    labels: ['result'],
  },
  pointsman_kv_event_batches_replayed_total: {
    kind: 'counter',
    help: 'KV event batches that engines repeated on demand.',
    labels: [],
  },
  pointsman_kv_event_overflows_total: {
    kind: 'counter',
    help: 'KV event batches that found no room among those that wait for a replay; they are asked for again.',
    labels: [],
  },
  pointsman_kv_event_batches_pending: {
    kind: 'gauge',
    help: 'KV event batches that wait for those before them.',
    labels: [],
  },
  pointsman_kv_event_pending_bytes: {
    kind: 'gauge',
    help: 'Bytes of the KV event batches that wait.',
    labels: [],
  },
  pointsman_kv_event_streams: {
    kind: 'gauge',
    help: 'KV event streams by how far the index can be trusted about their workers: exact, recovering (a replay is under way), partial (right, but the engine may hold more), stale (batches are lost for good).',
    labels: ['state'],
  },
  pointsman_kv_events_total: { kind: 'counter', help: 'KV events received, by kind.', labels: ['kind'] },
  pointsman_kv_events_rejected_total: {
    kind: 'counter',
    help: 'KV events (for undecodable: batches) that changed nothing, by reason.',
    labels: ['reason'],
  },
  pointsman_kv_blocks_rejected_total: {
    kind: 'counter',
    help: 'Blocks that KV events stored and the router did not index, by reason.',
    labels: ['reason'],
  },
  pointsman_kv_orphan_blocks: {
    kind: 'gauge',
    help: 'Blocks that wait for their parent: stored behind a block of which nothing was heard.',
    labels: [],
  },
  pointsman_kv_pages: {
    kind: 'gauge',
    help: 'Pages held that are smaller than the blocks of their model.',
    labels: [],
  },
  pointsman_kv_side_bytes: {
    kind: 'gauge',
    help: 'Memory kept of KV events beside the prefix index, by part: marks (cache salts, at most 256 MiB), pages (those smaller than the blocks of their model, at most 4,194,304) and orphans (blocks that wait for their parent, at most 64 MiB with tables beside).',
    labels: ['part'],
  },
  pointsman_approximate_ranks: {
    kind: 'gauge',
    help: 'Worker ranks whose cache is estimated from what was sent to them, by reason.',
    labels: ['reason'],
  },
  pointsman_approximate_blocks: {
    kind: 'gauge',
    help: 'Blocks that such ranks are believed to hold, blocks of generated tokens included.',
    labels: [],
  },
  pointsman_approximate_bytes: {
    kind: 'gauge',
    help: 'Bytes of the table of these blocks; the prefix index counts its own.',
    labels: [],
  },
  pointsman_approximate_corrections_total: {
    kind: 'counter',
    help: 'Times that such a rank reported fewer cached tokens than estimated, so that blocks were given up.',
    labels: [],
  },
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
  pointsman_engine_connection_faults_total: {
    kind: 'counter',
    help: 'Connections to workers that were refused, or broke before the answer was complete.',
    labels: ['worker', 'kind'],
  },
  pointsman_engine_side_calls_total: {
    kind: 'counter',
    help: 'Calls to engines beside a request: the end of a session (close_session), an abort (abort). By result (ok, failed).',
    labels: ['worker', 'call', 'result'],
  },
  // --- services ---
  pointsman_indexer_requests_total: {
    kind: 'counter',
    help: 'Requests to the standalone indexer, by endpoint and method.',
    dynamo: 'dynamo_kvindexer_requests_total',
    labels: ['endpoint', 'method'],
  },
  pointsman_indexer_errors_total: {
    kind: 'counter',
    help: 'Requests to the standalone indexer that were refused or failed, by endpoint and class of status (4xx, 5xx).',
    dynamo: 'dynamo_kvindexer_errors_total',
    labels: ['endpoint', 'status_class'],
  },
  pointsman_indexer_request_duration_seconds: {
    kind: 'histogram',
    help: 'From the head of a request to the standalone indexer to the end of its answer.',
    dynamo: 'dynamo_kvindexer_request_duration_seconds',
    labels: ['endpoint'],
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5],
  },
  pointsman_indexer_access_log_dropped_total: {
    kind: 'counter',
    help: 'Lines of the access log of the standalone indexer that were dropped, as its file could not be written fast enough or at all.',
    labels: [],
  },
  pointsman_selector_requests_total: {
    kind: 'counter',
    help: 'Requests to the selection service, by endpoint and method.',
    labels: ['endpoint', 'method'],
  },
  pointsman_selector_errors_total: {
    kind: 'counter',
    help: 'Requests to the selection service that were refused or failed, by endpoint and status.',
    labels: ['endpoint', 'status'],
  },
  pointsman_selector_request_duration_seconds: {
    kind: 'histogram',
    help: 'From the head of a request to the selection service to the end of its answer.',
    labels: ['endpoint'],
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5],
  },
  pointsman_selector_pending_entries: {
    kind: 'gauge',
    help: 'Selections that wait for their reservation (services.selection.selection_cache_max_entries caps them).',
    labels: [],
  },
  pointsman_selector_pending_bytes: {
    kind: 'gauge',
    help: 'Bytes that these selections keep (services.selection.selection_cache_max_bytes caps them).',
    labels: [],
  },
  pointsman_selector_pending_lost_total: {
    kind: 'counter',
    help: 'Selections that nobody reserved in time (expired) or that made room for others (evicted).',
    labels: ['reason'],
  },
  pointsman_selector_reservations: {
    kind: 'gauge',
    help: 'Reservations held by callers of the selection service.',
    labels: [],
  },
  pointsman_indexer_models: {
    kind: 'gauge',
    help: 'Indexes of the standalone indexer, one per model and routing group.',
    dynamo: 'dynamo_kvindexer_models',
    labels: [],
  },
  pointsman_indexer_index_bytes: {
    kind: 'gauge',
    help: 'Memory of the arrays of all indexes of the standalone indexer; --index-mib caps each.',
    labels: [],
  },
  pointsman_indexer_index_blocks: {
    kind: 'gauge',
    help: 'Distinct blocks that the indexes of the standalone indexer know on any instance.',
    labels: [],
  },
  pointsman_indexer_workers: {
    kind: 'gauge',
    help: 'Instances registered with the standalone indexer.',
    dynamo: 'dynamo_kvindexer_workers',
    labels: [],
  },
  pointsman_indexer_listeners: {
    kind: 'gauge',
    help: 'Event streams the standalone indexer listens to, by status (pending, active, paused, failed).',
    dynamo: 'dynamo_kvindexer_listeners',
    labels: ['status'],
  },
  // --- tokens ---
  pointsman_tokenize_seconds: {
    kind: 'histogram',
    help: 'From handing a prompt to a tokenizer thread, or to an engine, until its token ids are back, waiting included.',
    labels: ['model'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
  },
  pointsman_tokenize_estimates_total: {
    kind: 'counter',
    help: 'Prompts of models with a local tokenizer, or whose engines are asked, that were routed by an estimate, by reason.',
    labels: ['model', 'reason'],
  },
  pointsman_tokenized_pieces_total: {
    kind: 'counter',
    help: 'Pieces of prompts between special tokens: those whose ids were kept from an earlier prompt (reused), and those that were encoded.',
    labels: ['model', 'ids'],
  },
  pointsman_tokenized_characters_total: {
    kind: 'counter',
    help: 'Characters that local tokenizers went through.',
    labels: ['model'],
  },
  pointsman_token_cache_bytes: {
    kind: 'gauge',
    help: 'Memory of kept token ids of prompts, capped by limits.token_cache_bytes per model.',
    labels: ['model'],
  },
  pointsman_engine_tokenize_total: {
    kind: 'counter',
    help: 'Prompts of models whose engines are asked for token ids, by outcome: answered, cached = an earlier answer was still kept, or why there are none (engine_refused, engine_silent, engine_busy, no_engine).',
    labels: ['model', 'outcome'],
  },
} as const satisfies Record<string, MetricRow>;

/** Name of a metric. */
export type MetricName = keyof typeof METRICS;
