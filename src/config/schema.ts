// The whole file as one schema, with every default. docs/configuration.md explains each key; what the keys become is build.ts's.
import type { z } from 'zod';
import { MAX_LINEAR_COST_WEIGHT } from '../plugin/index.ts';
import { agentKeys } from './agent-settings.ts';
import { busyThresholdKeys } from './busy-thresholds.ts';
import { disaggregationKeys } from './disaggregation.ts';
import { routerQueueKeys } from './queue-settings.ts';
import { model, queueKeys, worker } from './schema-fleet.ts';
import { hintPolicies, kvHintPolicy, requestClassifier, workerSelection } from './schema-selection.ts';
import { SELECTION_SERVICE_DEFAULTS as DEFAULTS } from './selection-service.ts';
import { sessionAffinityKeys } from './session-affinity.ts';
import type { RouterMode } from './types.ts';
import {
  decimal,
  duration,
  flag,
  list,
  mapping,
  network,
  or,
  orNull,
  positive,
  raw,
  secret,
  section,
  size,
  table,
  text,
  whole,
  word,
} from './values.ts';

/** Router modes, the default first. */
export const ROUTER_MODES = [
  'kv',
  'round-robin',
  'random',
  'power-of-two',
  'least-loaded',
  'device-aware-weighted',
  'direct',
] as const satisfies readonly RouterMode[];

/** Log levels, loudest first. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const KiB = 2 ** 10;
const MiB = 2 ** 20;
const GiB = 2 ** 30;
const HOUR = 3_600_000;

const port = (fallback: number) => or(whole(0, 65_535), fallback);
const loopback = () => or(text('a host name or address'), '127.0.0.1');

/** `router` keys that are the defaults of the cost policies; null where left out. */
export const routerCostKeys = () => ({
  overlap_score_credit: orNull(decimal(0, MAX_LINEAR_COST_WEIGHT)),
  overlap_score_credit_decay: orNull(decimal(0, MAX_LINEAR_COST_WEIGHT)),
  prefill_load_scale: orNull(decimal(0, MAX_LINEAR_COST_WEIGHT)),
  decode_active_request_weight: orNull(decimal(0, MAX_LINEAR_COST_WEIGHT)),
  host_cache_hit_weight: orNull(decimal(0, 1)),
  disk_cache_hit_weight: orNull(decimal(0, 1)),
  router_temperature: orNull(decimal(0, MAX_LINEAR_COST_WEIGHT)),
});

/** Every key of a configuration file. A policy file's keys are a part of them. */
export const fileSchema = mapping({
  listen: section({ host: loopback(), port: port(8000) }),
  admin: section({ host: loopback(), port: port(8001), token: orNull(secret()) }),
  auth: orNull(
    mapping({
      api_keys: list(
        mapping({
          name: text(),
          sha256: secret(),
          models: orNull(list(text(), 'models')),
          tenant: orNull(text()),
        }),
        'API keys',
      ),
    }),
  ),
  limits: section({
    body_bytes: or(size(KiB, GiB), 16 * MiB),
    header_bytes: or(size(KiB, 16 * MiB), 32 * KiB),
    prompt_tokens: or(whole(1, 2 ** 31 - 1), 262_144),
    token_cache_bytes: or(size(0, 16 * GiB), 64 * MiB),
    concurrent_requests: or(whole(1, 1_000_000), 2048),
    first_worker_wait: or(duration(0, HOUR), 0),
    first_worker_waiting: or(whole(1, 1_000_000), 1024),
    retries: or(whole(0, 16), 2),
    retry_budget: or(decimal(0, 1), 0.2),
    speculative_prefills: or(whole(0, 4096), 16),
    index_bytes: or(size(MiB, 1024 * GiB), 512 * MiB),
    lineage_bytes: or(size(MiB, 512 * MiB), 128 * MiB),
    lineage_sessions: or(whole(1, 1_048_576), 16_384),
    lineage_ttl: or(duration(0, 24 * HOUR), 0),
    decision_bytes: or(size(64 * KiB, 64 * GiB), 64 * MiB),
    overload_status: or(whole(400, 599), 429),
    drain: or(duration(0, HOUR), 30_000),
  }),
  models: table(model(), 'models'),
  workers: list(worker(), 'workers'),
  discovery: section({ none: orNull(mapping({})), kubernetes: orNull(raw()), nats: orNull(raw()) }),
  replicas: section({ enabled: or(flag(), false) }),
  router: section({
    mode: or(word(ROUTER_MODES, ' (a worker-selection policy stands under worker_selection)'), 'kv'),
    use_kv_events: or(flag(), true),
    kv_event_idle_check: or(duration(0, HOUR), 30_000),
    overlap_score_credit: or(decimal(0, MAX_LINEAR_COST_WEIGHT), 1),
    overlap_score_credit_decay: or(decimal(0, MAX_LINEAR_COST_WEIGHT), 0),
    prefill_load_scale: or(decimal(0, MAX_LINEAR_COST_WEIGHT), 1),
    decode_active_request_weight: or(decimal(0, MAX_LINEAR_COST_WEIGHT), 0),
    host_cache_hit_weight: or(decimal(0, 1), 0.75),
    disk_cache_hit_weight: or(decimal(0, 1), 0.25),
    router_temperature: or(decimal(0, MAX_LINEAR_COST_WEIGHT), 0),
    encoder_cuda_to_cpu_ratio: or(whole(1, 1_000_000), 8),
    router_ttl_secs: or(positive(), 120),
    ...busyThresholdKeys(),
    ...routerQueueKeys(),
    ...disaggregationKeys(),
    ...agentKeys(),
    active_request_expiry_secs: or(positive(), 300),
    router_track_output_blocks: or(flag(), false),
    router_prefill_load_model: or(word(['none', 'throughput']), 'none'),
    engine_load: or(word(['observe', 'blend']), 'observe'),
    timing_profile: orNull(text('the path of a timing profile')),
    seed: or(whole(0), 0),
    enable_session_prefix_index: or(flag(), true),
    session_affinity: sessionAffinityKeys(),
    trust_incoming_hints_from: list(network(), 'networks'),
    trust_routing_fields_from: list(network(), 'networks'),
  }),
  snapshot: section({
    path: orNull(text('the path of a file')),
    every: or(duration(1000, HOUR), 30_000),
    max_age: or(duration(1000, 24 * HOUR), 600_000),
  }),
  parity: section({
    probe_prompts: or(flag(), false),
    probe_every: or(duration(1000, 24 * HOUR), 600_000),
    ask_token_ids: or(flag(), false),
  }),
  router_policy_config: orNull(text('the path of a policy file')),
  services: section({
    selection: orNull(
      section({
        host: loopback(),
        port: port(DEFAULTS.port),
        token: orNull(secret()),
        selection_cache_ttl_secs: or(positive(), DEFAULTS.cacheTtlMs / 1000),
        selection_cache_max_entries: or(whole(0, 1_000_000), DEFAULTS.cacheMaxEntries),
        selection_cache_max_bytes: or(whole(0), DEFAULTS.cacheMaxBytes),
      }),
    ),
    indexer: orNull(section({ port: port(8090) })),
  }),
  plugins: list(text('a path or a package name'), 'plugins'),
  worker_selection: orNull(workerSelection()),
  hint_policies: orNull(hintPolicies()),
  kv_hint_policy: orNull(kvHintPolicy()),
  request_classifier: orNull(requestClassifier()),
  ...queueKeys(),
  containment: section({
    soft_budget: or(duration(0, HOUR), 1),
    watchdog: or(duration(100, HOUR), 10_000),
    // Each breaker remembers the times of as many failures and overruns, so these have a cap.
    breaker: section({
      failures: or(whole(1, 10_000), 5),
      overruns: or(whole(1, 10_000), 50),
      window: or(duration(1, HOUR), 30_000),
      skip: or(duration(1, HOUR), 10_000),
    }),
    tripped: section({
      classifier: or(word(['pass-through', 'refuse']), 'pass-through'),
      worker_selection: or(word(['default', 'refuse']), 'default'),
    }),
  }),
  observe: section({
    candidates: or(whole(1, 4096), 64),
    engine_load: or(flag(), false),
    log_level: or(word(LOG_LEVELS), 'info'),
    tracing: section({ otlp: orNull(text('the url of an OTLP collector')) }),
  }),
});

/** A file that passed the schema, in the names of the file. */
export type FileValue = z.output<typeof fileSchema>;
