// The table of everything in a request that only a router may write, or only callers that configuration trusts. An engine acts
// on some of these, so a client that could write them would steer workers it was never shown.
import type { JsonObject } from './request-fields.ts';

/** Who may send a field: callers trusted for routing, for hint envelopes, for agent hints, or nobody. */
export type FieldTrust = 'routing' | 'hints' | 'agents' | 'nobody';

/** Request headers, lower case. */
export const ROUTER_ONLY_HEADERS: ReadonlyMap<string, FieldTrust> = new Map<string, FieldTrust>([
  // Worker pins; the unprefixed names are older aliases.
  ['x-dynamo-worker-instance-id', 'routing'],
  ['x-worker-instance-id', 'routing'],
  ['x-dynamo-dp-rank', 'routing'],
  ['x-dp-rank', 'routing'],
  ['x-data-parallel-rank', 'routing'],
  ['x-dynamo-meta-policy-class', 'routing'],
  ['x-pointsman-explain', 'routing'],
  ['x-tenant-id', 'routing'],
  // Pins of the prefill leg.
  ['x-dynamo-prefill-instance-id', 'routing'],
  ['x-prefill-instance-id', 'routing'],
  ['x-dynamo-prefill-dp-rank', 'routing'],
  ['x-prefill-dp-rank', 'routing'],
  ['x-bypass-remote-prefill', 'nobody'],
  // Agent hints.
  ['x-dynamo-request-priority', 'agents'],
  ['x-dynamo-request-strict-priority', 'agents'],
  ['x-pointsman-expected-output-tokens', 'agents'],
  ['x-pointsman-speculative-prefill', 'agents'],
]);

/**
 * Top-level members of the body. `kv_transfer_params` is looked into: its `kv_hint` has a rule of its own. What is for agents is the
 * engine's own word, which stays in the body.
 */
export const ROUTER_ONLY_BODY: ReadonlyMap<string, FieldTrust> = new Map<string, FieldTrust>([
  ['kv_hints', 'hints'],
  ['kv_transfer_params', 'nobody'],
  ['ec_transfer_params', 'nobody'],
  ['router_hint', 'nobody'],
  ['kv_router_hint', 'nobody'],
  ['disaggregated_params', 'nobody'],
  ['x-bypass-remote-prefill', 'nobody'],
  // Another prompt than the one that is counted, hashed and routed: engines take it in place of messages, or beside them.
  ['input_ids', 'nobody'],
  ['input_embeds', 'nobody'],
  ['prompt_embeds', 'nobody'],
  ['prompt_token_ids', 'nobody'],
  // Ranks as engines take them in the body.
  ['data_parallel_rank', 'nobody'],
  ['routed_dp_rank', 'nobody'],
  ['disagg_prefill_dp_rank', 'nobody'],
  ['decode_tp_size', 'nobody'],
  ['router_config_override', 'routing'],
  ['routing_constraints', 'routing'],
  ['pinned_worker', 'routing'],
  ['allowed_worker_ids', 'routing'],
  ['policy_class', 'routing'],
  ['priority', 'agents'],
]);

/** Members of the body's `nvext` object. */
export const ROUTER_ONLY_NVEXT: ReadonlyMap<string, FieldTrust> = new Map<string, FieldTrust>([
  ['backend_instance_id', 'routing'],
  ['decode_worker_id', 'routing'],
  ['dp_rank', 'routing'],
  ['router', 'routing'],
  ['prefill_worker_id', 'routing'],
  ['prefill_dp_rank', 'routing'],
  ['agent_hints', 'agents'],
]);

/** Any top-level member that begins so: the prefill handoff of SGLang. */
export const ROUTER_ONLY_PREFIX = 'bootstrap_';

/** The envelope inside `kv_transfer_params`. */
export const NESTED_HINT = 'kv_hint';

/** The rule of a top-level member, or null for an ordinary one. */
export function bodyFieldTrust(name: string): FieldTrust | null {
  return name.startsWith(ROUTER_ONLY_PREFIX) ? 'nobody' : (ROUTER_ONLY_BODY.get(name) ?? null);
}

/** Label under which a removed top-level member is counted; bounded whatever clients send. */
export function bodyFieldLabel(name: string): string {
  return name.startsWith(ROUTER_ONLY_PREFIX) ? `${ROUTER_ONLY_PREFIX}*` : name;
}

/** Free extension channel of vLLM, which lands beside the transfer parameters inside the engine. */
export const EXTENSION_FIELD = 'vllm_xargs';

/** Names in the extension channel that would be taken for the router's own. */
export function isRouterOnlyExtension(name: string): boolean {
  return bodyFieldTrust(name) !== null || name === NESTED_HINT;
}

/**
 * Names by which an engine is told to go on with a session of its own: among tenants they are the router's, which makes equal names of
 * two tenants different ones.
 */
export const ENGINE_SESSION_FIELDS: readonly string[] = ['session_id', 'session_params'];

/** What trusted callers' fields hold after ingress; empty objects for everyone else. */
export interface TrustedFields {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonObject;
  readonly nvext: JsonObject;
}
