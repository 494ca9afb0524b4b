// Grammar of `models` and `workers`, and of the queue profiles that stand beside a model's keys or at the root.
import { z } from 'zod';
import { ROLES } from '../plugin/index.ts';
import { busyThresholdKeys } from './busy-thresholds.ts';
import {
  anyText,
  decimal,
  describeValue,
  duration,
  flag,
  form,
  list,
  mapping,
  or,
  orNull,
  positive,
  raw,
  section,
  shaped,
  table,
  text,
  u64,
  whole,
  word,
} from './values.ts';

/** Engine dialects a worker may name; `auto` asks the engine. */
export const DIALECTS = ['auto', 'vllm', 'sglang', 'trtllm', 'llamacpp', 'llamacpp-node', 'sim'] as const;

const MAX_BLOCK_SIZE = 65_536;
const MAX_TOKEN_ID = 2 ** 32 - 1;
const MAX_RANKS = 4096;
/** Of an engine in this process. */
const MAX_SEQUENCES = 64;
const MAX_CONTEXT_TOKENS = 2 ** 24;
const MAX_WAITING = 65_536;

/** Queue keys, at the root or for one model. */
export const queueKeys = () => ({
  default_policy_family: orNull(text()),
  policy_classes: orNull(list(policyClass(), 'policy classes')),
  uncached_isl_buckets: orNull(list(mapping({ min_tokens: whole(0), bucket: text() }), 'buckets')),
});

const policyClass = () =>
  mapping({
    name: text(),
    policy_family: orNull(text()),
    cache_bucket: orNull(text()),
    queue_policy: or(word(['fcfs', 'wspt']), 'fcfs'),
    quantum: whole(1),
    prefill_busy_threshold: orNull(whole(0)),
    prefill_busy_threshold_frac: orNull(decimal(0)),
    busy_worker_ratio: orNull(decimal(0, 1)),
    request_queue_limit_per_worker: orNull(whole(0)),
    raw_isl_token_queue_limit_per_worker: orNull(whole(0)),
    cached_token_queue_limit_per_worker: orNull(whole(0)),
  });

/** One model. */
export const model = () =>
  section({
    served_as: orNull(text()),
    aliases: list(text(), 'names'),
    block_size: orNull(whole(1, MAX_BLOCK_SIZE)),
    eagle: orNull(flag()),
    image_token_id: orNull(whole(0, MAX_TOKEN_ID)),
    tokens: section({
      source: orNull(word(['local', 'engine', 'estimate'])),
      tokenizer: orNull(text('the path of a tokenizer.json or a GGUF model')),
      template: orNull(text('the path of a chat template')),
      render_as: orNull(word(['plain', 'vllm', 'sglang', 'llamacpp'])),
      timeout: orNull(duration(10, 60_000)),
      concurrency: orNull(whole(1, 1024)),
    }),
    routing_group: or(text(), 'default'),
    ...busyThresholdKeys(),
    prefill_tokens_per_second: orNull(positive()),
    ...queueKeys(),
  });

/** `http://host:port`, with an optional path; no credentials, query or fragment. */
const workerUrl = () =>
  form('a url such as http://127.0.0.1:9000, without credentials, query or fragment', (value) => {
    if (typeof value !== 'string' || !URL.canParse(value)) return undefined;
    const url = new URL(value);
    const plain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
    return plain && (url.protocol === 'http:' || url.protocol === 'https:')
      ? url.href.replace(/\/+$/, '')
      : undefined;
  });

const endpoint = () =>
  form('a ZeroMQ endpoint such as tcp://127.0.0.1:9001', (value) =>
    typeof value === 'string' && /^(?:tcp|ipc):\/\/[^\s]+$/.test(value) ? value : undefined,
  );

const kvEvents = () =>
  mapping({
    connect: orNull(endpoint()),
    bind: orNull(endpoint()),
    poll: or(flag(), false),
    replay: orNull(endpoint()),
    topic: or(anyText(), ''),
  });

const capabilities = () =>
  shaped({ anyOf: [{ enum: ['ask', 'none'] }, { type: 'object' }] }, wordOrAdvertisement());

const wordOrAdvertisement = () =>
  z.unknown().transform((value, context): 'ask' | 'none' | Readonly<Record<string, unknown>> => {
    if (value === 'ask' || value === 'none') return value;
    const mappingOnly = typeof value === 'string' ? null : raw().safeParse(value);
    if (mappingOnly?.success) return mappingOnly.data;
    context.addIssue({
      code: 'custom',
      message: `expected ask, none or a mapping, found ${describeValue(value)}`,
    });
    return z.NEVER;
  });

/** How a worker hands the KV of prompts over, where its engine does not say. */
const handoff = () =>
  mapping({
    kind: word(['nixl', 'nixl_push', 'mooncake', 'bootstrap']),
    host: orNull(text('a host name or address')),
    port: orNull(whole(1, 65_535)),
    engine_id: orNull(text()),
    tp_size: or(whole(1), 1),
    pp_size: or(whole(1), 1),
  });

/** How a worker of dialect `sglang` is spoken to, where its release or its flags differ from a new one with none. */
const sglang = () =>
  mapping({
    close_session: or(flag(), false),
    openai_hints: or(flag(), false),
    rank_field: or(word(['routed_dp_rank', 'data_parallel_rank']), 'routed_dp_rank'),
    low_priority_first: or(flag(), false),
  });

/** One worker. */
export const worker = () =>
  mapping({
    id: orNull(u64()),
    model: orNull(text()),
    url: orNull(workerUrl()),
    dialect: or(word(DIALECTS), 'auto'),
    role: or(word(ROLES), 'aggregated'),
    ranks: section({ first: or(whole(0, MAX_RANKS), 0), count: or(whole(1, MAX_RANKS), 1) }),
    kv_events: table(kvEvents(), 'ranks'),
    max_num_batched_tokens: orNull(whole(1)),
    total_kv_blocks: orNull(whole(1)),
    taints: list(text(), 'taints'),
    topology: table(text(), 'topology levels'),
    device: orNull(text()),
    adapters: list(text(), 'adapters'),
    kv_transfer_domain: orNull(text()),
    kv_transfer_enforcement: or(word(['required', 'preferred']), 'required'),
    kv_transfer_preferred_weight: or(decimal(0, 1), 1),
    handoff: orNull(handoff()),
    sglang: orNull(sglang()),
    kv_hint_form: or(word(['envelope', 'legacy']), 'envelope'),
    capabilities: or(capabilities(), 'ask'),
    gguf: orNull(text('the path of a GGUF model')),
    sequences: orNull(whole(1, MAX_SEQUENCES)),
    context_tokens: orNull(whole(64, MAX_CONTEXT_TOKENS)),
    max_waiting: orNull(whole(0, MAX_WAITING)),
  });
