// A worker's record as clients write it: names and types of the wire, so that what is read back is what was written.
import { isZmqAddress } from '../zmq-address.ts';
import {
  badField,
  decimalOf,
  entriesOf,
  flagOf,
  given,
  MAX_U32,
  membersOf,
  nameOf,
  objectOf,
  textOf,
  u64Of,
  wholeOf,
} from './fields.ts';

const DEFAULT = 'default';
const MAX_TEXT = 1024;
const MAX_LIST = 4096;
const MAX_BLOCK_SIZE = 1_048_576;
const MAX_RANKS = 4096;
/** As many as an engine's own advertisement may name. */
const MAX_ACTIONS = 256;
const MAX_ACTION_NAME = 128;
/** Ranks fit a column of signed integers. */
const MAX_FIRST_RANK = 0x7fffffff - MAX_RANKS;

/** What a client says of a worker; null = nothing. */
export interface WorkerFields {
  readonly worker_id: bigint;
  readonly model_name: string;
  readonly routing_group: string;
  /** Handed to callers; nobody here connects to it. */
  readonly endpoint: string | null;
  /** Of the only rank. */
  readonly kv_events_endpoint: string | null;
  /** By rank, in decimal. */
  readonly kv_events_endpoints: Readonly<Record<string, string>>;
  /** Of the first rank; others are asked at the ports behind it. */
  readonly replay_endpoint: string | null;
  readonly block_size: number | null;
  readonly data_parallel_start_rank: number;
  readonly data_parallel_size: number;
  readonly max_num_batched_tokens: number | null;
  readonly total_kv_blocks: number | null;
  readonly stable_routing_id: string | null;
  readonly is_eagle: boolean | null;
  readonly taints: readonly string[];
  readonly topology_domains: Readonly<Record<string, string>>;
  readonly kv_transfer_domain: string | null;
  readonly kv_transfer_enforcement: string | null;
  readonly kv_transfer_preferred_weight: number | null;
  /** Not empty = its ranks take hints. */
  readonly router_hint_worker_type: string | null;
  /** Actions that its ranks take, such as `kv.retain@1.0`; null = nobody said. Not a field of the Rust service. */
  readonly router_hint_actions: readonly string[] | null;
  /** Where peers ask a rank for blocks, by rank, in decimal. */
  readonly router_hint_source_control_endpoints: Readonly<Record<string, string>>;
}

type Readers = { readonly [K in keyof WorkerFields]: (value: unknown, name: string) => WorkerFields[K] };

const text = (value: unknown, name: string): string => textOf(value, name, MAX_TEXT);

/** An empty text stands for none, as in the Rust service. */
const address = (value: unknown, name: string): string | null => {
  const found = text(value, name);
  if (found === '') return null;
  if (isZmqAddress(found)) return found;
  throw badField(name, 'a ZeroMQ address such as tcp://10.0.0.7:5557');
};

const byRank = (value: unknown, name: string, read: (value: unknown, name: string) => string | null) => {
  const found = membersOf(value, name, MAX_RANKS, read);
  const kept = [...found].filter((entry): entry is [string, string] => entry[1] !== null);
  for (const [rank] of kept) {
    if (!/^(?:0|[1-9]\d{0,9})$/.test(rank)) throw badField(name, 'an object whose keys are rank numbers');
  }
  return Object.fromEntries(kept);
};

const action = (value: unknown, name: string): string => {
  const found = textOf(value, name, MAX_ACTION_NAME);
  if (/^[A-Za-z0-9_.-]+@[0-9]+(\.[0-9]+)*$/.test(found)) return found;
  throw badField(name, 'an action with its version, such as kv.retain@1.0');
};

const READERS: Readers = {
  worker_id: u64Of,
  model_name: nameOf,
  routing_group: nameOf,
  endpoint: text,
  kv_events_endpoint: address,
  kv_events_endpoints: (value, name) => byRank(value, name, address),
  replay_endpoint: address,
  block_size: (value, name) => wholeOf(value, name, 0, MAX_BLOCK_SIZE),
  data_parallel_start_rank: (value, name) => wholeOf(value, name, 0, MAX_FIRST_RANK),
  data_parallel_size: (value, name) => wholeOf(value, name, 0, MAX_RANKS),
  max_num_batched_tokens: (value, name) => wholeOf(value, name, 0, Number.MAX_SAFE_INTEGER),
  total_kv_blocks: (value, name) => wholeOf(value, name, 0, Number.MAX_SAFE_INTEGER),
  stable_routing_id: text,
  is_eagle: flagOf,
  taints: (value, name) => entriesOf(value, name, MAX_LIST, nameOf),
  topology_domains: (value, name) => Object.fromEntries(membersOf(value, name, MAX_LIST, text)),
  kv_transfer_domain: text,
  kv_transfer_enforcement(value, name) {
    if (value === 'required' || value === 'preferred') return value;
    throw badField(name, 'required or preferred');
  },
  kv_transfer_preferred_weight: (value, name) => decimalOf(value, name, 0, 1),
  router_hint_worker_type: text,
  router_hint_actions: (value, name) => entriesOf(value, name, MAX_ACTIONS, action),
  router_hint_source_control_endpoints: (value, name) => byRank(value, name, text),
};

/** What a worker has of which nothing is said. */
const UNSAID: Omit<WorkerFields, 'worker_id'> = {
  model_name: DEFAULT,
  routing_group: DEFAULT,
  endpoint: null,
  kv_events_endpoint: null,
  kv_events_endpoints: {},
  replay_endpoint: null,
  block_size: null,
  data_parallel_start_rank: 0,
  data_parallel_size: 1,
  max_num_batched_tokens: null,
  total_kv_blocks: null,
  stable_routing_id: null,
  is_eagle: null,
  taints: [],
  topology_domains: {},
  kv_transfer_domain: null,
  kv_transfer_enforcement: null,
  kv_transfer_preferred_weight: null,
  router_hint_worker_type: null,
  router_hint_actions: null,
  router_hint_source_control_endpoints: {},
};

/** A whole record. @throws PM_SELECTOR_REQUEST */
export function readWorker(body: unknown): WorkerFields {
  const worker_id = u64Of(objectOf(body, 'the body').worker_id, 'worker_id');
  return { ...UNSAID, ...readChanges(body), worker_id };
}

/** The fields that a body supplies. @throws PM_SELECTOR_REQUEST */
export function readChanges(body: unknown): Partial<WorkerFields> {
  const fields = objectOf(body, 'the body');
  const read = Object.entries(READERS).flatMap(([name, reader]) => {
    const value = given<unknown>(fields[name], name, reader);
    return fields[name] === undefined || fields[name] === null ? [] : [[name, value]];
  });
  // Every reader gives the type of the field it is listed under.
  return Object.fromEntries(read) as Partial<WorkerFields>;
}

/** The partition a query or body names; both parts are `default` unless given. @throws PM_SELECTOR_REQUEST */
export function readPartition(fields: Readonly<Record<string, unknown>>): {
  readonly model: string;
  readonly routingGroup: string;
} {
  return {
    model: given(fields.model_name, 'model_name', nameOf) ?? DEFAULT,
    // The name that older clients send.
    routingGroup: given(fields.routing_group ?? fields.tenant_id, 'routing_group', nameOf) ?? DEFAULT,
  };
}

/** A rank or number of u32. */
export function u32Of(value: unknown, name: string): number {
  return wholeOf(value, name, 0, MAX_U32);
}
