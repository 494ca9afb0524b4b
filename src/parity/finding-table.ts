// The one table of parity findings: what is wrong, what it means for routing, and the exact flag or key to change. docs/parity.md is
// generated from it. Words in braces are facts of the case.

/** What a finding means for the rank's KV events. */
export type FindingEffect =
  /** What they say does not match what is sent: the rank's cache is estimated instead. */
  | 'unusable'
  /** Routing works, with less than it could know. */
  | 'degraded';

/** One row of the table. */
export interface FindingRow {
  readonly effect: FindingEffect;
  /** What was seen, after "worker 1 rank 0: ". */
  readonly says: string;
  /** What to change, by dialect; `any` where the dialect has no words of its own. */
  readonly remedy: { readonly any: string } & Readonly<Partial<Record<'vllm' | 'sglang' | 'trtllm', string>>>;
}

const VLLM_EVENTS =
  '--kv-events-config \'{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}\'';
const SGLANG_EVENTS = '--kv-events-config \'{"publisher":"zmq","endpoint":"tcp://*:5557"}\'';

/** Every finding, by code. */
export const FINDINGS = {
  unreachable: {
    effect: 'degraded',
    says: 'does not answer at {url} ({problem})',
    remedy: { any: 'start the engine, or correct workers[].url' },
  },
  refused_probe: {
    effect: 'degraded',
    says: 'refuses a probe prompt: {problem}',
    remedy: {
      any: 'models.{model}.served_as must be the name that the engine serves (vLLM and SGLang: --served-model-name)',
    },
  },
  block_size: {
    effect: 'unusable',
    says: 'stores blocks of {found} tokens, which do not make up the blocks of {expected} tokens of model {model}',
    remedy: {
      vllm: '--block-size {expected} on the engine, or models.{model}.block_size: {found}',
      sglang: '--page-size {expected} on the engine, or models.{model}.block_size: {found}',
      any: '--block-size {expected} (SGLang: --page-size {expected}) on the engine, or models.{model}.block_size: {found}',
    },
  },
  page_size_1: {
    effect: 'degraded',
    says: 'announces pages of one token: an event per token, put together to blocks of {expected}',
    remedy: { any: '--page-size {expected} on the engine (its default is 1 on many backends)' },
  },
  hash_seed: {
    effect: 'degraded',
    says: 'names the same blocks by other hashes than {others} of the same hash scheme: KV cannot be fetched between them, and hints by hash miss',
    remedy: {
      vllm: 'PYTHONHASHSEED=0 in the environment of every engine, and the same --prefix-caching-hash-algo',
      any: 'the same hash seed on every engine (vLLM: PYTHONHASHSEED=0 and the same --prefix-caching-hash-algo)',
    },
  },
  template: {
    effect: 'unusable',
    says: 'sees other tokens than the router hashes: {problem}',
    remedy: {
      any: 'models.{model}.tokens.template and models.{model}.tokens.tokenizer must be those of the engine (vLLM and SGLang: --chat-template, --tokenizer)',
    },
  },
  hash_chain: {
    effect: 'unusable',
    says: 'chains blocks to other parents than their prompt has: of {expected} blocks of a prompt {found} are found',
    remedy: {
      any: 'an engine whose KV events name the right parent block; until then router.use_kv_events: false',
    },
  },
  events_off: {
    effect: 'unusable',
    says: 'computes blocks and announces none: {problem}',
    remedy: {
      vllm: VLLM_EVENTS,
      sglang: SGLANG_EVENTS,
      any: `${VLLM_EVENTS} (SGLang: ${SGLANG_EVENTS}); workers[].kv_events names the endpoint and the topic`,
    },
  },
  literal_bind_address: {
    effect: 'unusable',
    says: 'connects to {endpoint} instead of listening there, as its event endpoint names a host',
    remedy: {
      any: 'give "endpoint":"tcp://*:{port}" in --kv-events-config (a * makes the engine listen), or let the router listen: workers[].kv_events.{rank}.bind',
    },
  },
  not_connected: {
    effect: 'unusable',
    says: 'answers requests, but nobody listens at {endpoint} for subscribers',
    remedy: {
      any: '"endpoint":"tcp://*:PORT" in --kv-events-config: with a host name the engine connects instead of listening, and without "enable_kv_cache_events":true (vLLM) or "publisher":"zmq" (SGLang) it does neither; or correct workers[].kv_events.{rank}.connect',
    },
  },
  topic: {
    effect: 'unusable',
    says: 'publishes under another topic than "{expected}"',
    remedy: {
      any: 'workers[].kv_events.{rank}.topic: "{found}", or "topic":"{expected}" in --kv-events-config',
    },
  },
  swapped_ranks: {
    effect: 'degraded',
    says: 'rank {found} speaks on the event port of rank {rank}',
    remedy: {
      any: 'workers[].kv_events: exchange the endpoints of ranks {rank} and {found} (an engine publishes rank r at its port + r)',
    },
  },
  ranks: {
    effect: 'degraded',
    says: 'has {found} ranks, and {expected} are configured: {problem}',
    remedy: {
      vllm: 'workers[].ranks.count: {found}, or --data-parallel-size {expected} on the engine; workers[].ranks.first where it numbers its ranks from another than 0',
      sglang: 'workers[].ranks.count: {found}, or --dp-size {expected} on the engine',
      any: 'workers[].ranks.count: {found} (vLLM: --data-parallel-size, SGLang: --dp-size, llama.cpp: --parallel)',
    },
  },
  hybrid_groups: {
    effect: 'degraded',
    says: 'keeps KV in groups of several kinds ({found}): only full attention is indexed, so an engine may hold less of a prompt than is predicted',
    remedy: {
      vllm: '--disable-hybrid-kv-cache-manager on the engine',
      any: 'one KV cache group on the engine (vLLM: --disable-hybrid-kv-cache-manager)',
    },
  },
  salt_ignored: {
    effect: 'degraded',
    says: 'serves one cache to different cache_salts: tenants share blocks, and the router predicts nothing for salted prompts',
    remedy: {
      any: 'an engine version that mixes cache_salt into its block hashes and names it in its KV events (vLLM >= 0.9, SGLang with cache_salt in events)',
    },
  },
  lora_mismatch: {
    effect: 'degraded',
    says: 'stores blocks of adapter {expected} under {found}: prompts of the adapter are never found',
    remedy: {
      vllm: 'a version whose KV events carry lora_name, and --lora-modules {expected}=PATH under the name that clients use',
      sglang:
        '"format":"dynamo" in --kv-events-config, which adds lora_name, and --lora-paths {expected}=PATH',
      any: 'an engine whose KV events carry lora_name, the adapter loaded under the name that clients use (vLLM: --lora-modules {expected}=PATH)',
    },
  },
  replay_old: {
    effect: 'degraded',
    says: 'its replay endpoint {endpoint} answers without batches that were just heard ({problem}): lost events cannot be made good',
    remedy: {
      any: 'workers[].kv_events.{rank}.replay must be the replay_endpoint of the same engine and rank (its port + rank); a larger "buffer_steps" in --kv-events-config keeps more batches',
    },
  },
  no_replay: {
    effect: 'degraded',
    says: 'offers no replay of KV events ({problem}): what is lost once stays unknown',
    remedy: {
      any: '"replay_endpoint":"tcp://*:5558" in --kv-events-config, and workers[].kv_events.{rank}.replay: tcp://HOST:5558',
    },
  },
  event_clock: {
    effect: 'degraded',
    says: 'the time stamps of its KV events jumped by {found} s against the clock here: a restart may be taken for a repetition',
    remedy: {
      any: 'run a time service (chrony, ntpd with slew) on the host of the engine, so that its clock never steps',
    },
  },
  duplicate_stores: {
    effect: 'degraded',
    says: 'announces {found} of {expected} blocks twice: evictions of one copy leave the other counted',
    remedy: {
      any: 'one publisher per rank: a single --kv-events-config, no second event bridge on the same stream, and an engine version that announces a block once',
    },
  },
  prefix_caching_off: {
    effect: 'unusable',
    says: 'computes a prompt anew that it has just computed: its prefix cache is off',
    remedy: {
      vllm: '--enable-prefix-caching on the engine (and no --no-enable-prefix-caching)',
      sglang: 'start the engine without --disable-radix-cache',
      any: '--enable-prefix-caching on vLLM; on SGLang no --disable-radix-cache',
    },
  },
  cached_not_reported: {
    effect: 'degraded',
    says: 'does not report cached tokens, so that predictions are not checked ({problem})',
    remedy: {
      vllm: '--enable-prompt-tokens-details on the engine',
      sglang: '--enable-cache-report on the engine',
      any: 'an engine that reports usage.prompt_tokens_details.cached_tokens (vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report)',
    },
  },
  event_gaps: {
    effect: 'degraded',
    says: 'lost {found} batches of its KV events for good',
    remedy: {
      trtllm:
        'a larger event_buffer_max_size in kv_cache_config of the engine, and no other reader of its /kv_cache_events',
      any: 'a replay_endpoint and a larger "hwm" and "buffer_steps" in --kv-events-config',
    },
  },
  over_predicted: {
    effect: 'degraded',
    says: 'has less cached than predicted in {found} of {expected} requests: {problem}',
    remedy: { any: 'pointsman doctor names what differs; a replay_endpoint keeps evictions from being lost' },
  },
  under_predicted: {
    effect: 'degraded',
    says: 'has more cached than predicted in {found} of {expected} requests: {problem}',
    remedy: {
      any: 'pointsman doctor names what differs; events that were published before the router listened need a replay_endpoint',
    },
  },
} as const satisfies Readonly<Record<string, FindingRow>>;

/** Code of a finding. */
export type FindingCode = keyof typeof FINDINGS;
