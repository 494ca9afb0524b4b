// What the indexer's endpoints do: bodies read field by field, answers as values.
import type { HashPairs } from '../../kv/index.ts';
import { fromBigUint64Array } from '../../kv/index.ts';
import { isZmqAddress } from '../zmq-address.ts';
import { badField, hashOf, listOf, nameOf, objectOf, optionalNameOf, u64Of, wholeOf } from './json-fields.ts';
import { MAX_RANK } from './peer-dump.ts';
import type { IndexerRegistry } from './registry.ts';

const MAX_U32 = 0xffffffff;
const DEFAULT_GROUP = 'default';
const OK = { status: 'ok' };

/** An answer's status and JSON value. */
export interface RouteAnswer {
  readonly status: number;
  readonly value: unknown;
}

/** Handles the parsed body of a POST, or the query of a GET. */
export type Route = (body: unknown) => RouteAnswer | Promise<RouteAnswer>;

/** POST routes by path. @param withTests mounts those that pause listeners. */
export function postRoutes(
  registry: IndexerRegistry,
  reopenLogs: () => void,
  withTests: boolean,
): Map<string, Route> {
  const paused = (pause: boolean): Route => {
    return async (body) => {
      const { dp_rank: rank, instance_id: id } = objectOf(body, 'the body');
      await registry.setPaused(u64Of(id, 'instance_id'), wholeOf(rank, 'dp_rank', 0, MAX_RANK, 0), pause);
      return { status: 200, value: OK };
    };
  };
  return new Map<string, Route>([
    ['/register', (body) => register(registry, body)],
    ['/unregister', (body) => unregister(registry, body)],
    ['/query', (body) => query(registry, body)],
    ['/query_by_hash', (body) => queryByHash(registry, body)],
    [
      '/register_peer',
      (body) => {
        registry.addPeer(peerUrl(objectOf(body, 'the body').url));
        return { status: 201, value: OK };
      },
    ],
    [
      '/deregister_peer',
      (body) => {
        registry.removePeer(peerUrl(objectOf(body, 'the body').url));
        return { status: 200, value: OK };
      },
    ],
    [
      '/reopen_logs',
      () => {
        reopenLogs();
        return { status: 200, value: OK };
      },
    ],
    ...(withTests
      ? ([
          ['/test/pause_listener', paused(true)],
          ['/test/resume_listener', paused(false)],
        ] as const)
      : []),
  ]);
}

async function register(registry: IndexerRegistry, body: unknown): Promise<RouteAnswer> {
  const fields = objectOf(body, 'the body');
  const endpoint = nameOf(fields.endpoint, 'endpoint');
  const replayEndpoint = optionalNameOf(fields.replay_endpoint, 'replay_endpoint');
  if (!isZmqAddress(endpoint)) throw badField('endpoint', 'a ZeroMQ address such as tcp://10.0.0.7:5557');
  if (replayEndpoint !== null && !isZmqAddress(replayEndpoint)) {
    throw badField('replay_endpoint', 'a ZeroMQ address such as tcp://10.0.0.7:5558');
  }
  await registry.register({
    instance: u64Of(fields.instance_id, 'instance_id'),
    rank: wholeOf(fields.dp_rank, 'dp_rank', 0, MAX_RANK, 0),
    model: nameOf(fields.model_name, 'model_name'),
    routingGroup: optionalNameOf(fields.routing_group, 'routing_group') ?? DEFAULT_GROUP,
    blockSize: wholeOf(fields.block_size, 'block_size', 1, 1_048_576),
    endpoint,
    replayEndpoint,
  });
  return { status: 201, value: OK };
}

function unregister(registry: IndexerRegistry, body: unknown): RouteAnswer {
  const fields = objectOf(body, 'the body');
  const routingGroup = optionalNameOf(fields.routing_group, 'routing_group');
  const rank = fields.dp_rank ?? null;
  registry.unregister(
    u64Of(fields.instance_id, 'instance_id'),
    nameOf(fields.model_name, 'model_name'),
    routingGroup,
    // A rank counts only within a group that is named.
    rank === null || routingGroup === null ? null : wholeOf(rank, 'dp_rank', 0, MAX_RANK),
  );
  return { status: 200, value: OK };
}

function query(registry: IndexerRegistry, body: unknown): RouteAnswer {
  const fields = objectOf(body, 'the body');
  const list = listOf(fields.token_ids, 'token_ids');
  const tokens = new Uint32Array(list.length);
  for (const [index, token] of list.entries()) {
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token > MAX_U32) {
      throw badField(`token_ids[${index}]`, `a whole number from 0 to ${MAX_U32}`);
    }
    tokens[index] = token;
  }
  const salt = optionalText(fields.cache_salt, 'cache_salt');
  const value = partitionOf(registry, fields).queryTokens(
    tokens,
    optionalText(fields.lora_name, 'lora_name'),
    salt,
  );
  return { status: 200, value };
}

function queryByHash(registry: IndexerRegistry, body: unknown): RouteAnswer {
  const fields = objectOf(body, 'the body');
  if ((fields.cache_salt ?? null) !== null) {
    throw badField(
      'cache_salt',
      'absent: hashes are made with the salt already; use /query to have it applied',
    );
  }
  const list = listOf(fields.block_hashes, 'block_hashes');
  const hashes = BigUint64Array.from(list, (hash, index) => hashOf(hash, `block_hashes[${index}]`));
  const local: HashPairs = fromBigUint64Array(hashes);
  return { status: 200, value: partitionOf(registry, fields).queryHashes(local) };
}

function partitionOf(registry: IndexerRegistry, fields: Readonly<Record<string, unknown>>) {
  const model = nameOf(fields.model_name, 'model_name');
  return registry.partition(model, optionalNameOf(fields.routing_group, 'routing_group') ?? DEFAULT_GROUP);
}

function optionalText(value: unknown, name: string): string | null {
  if (value === undefined || value === null || value === '') return null;
  if (typeof value === 'string' && value.length <= 65_536) return value;
  throw badField(name, 'a text of at most 65536 characters');
}

/** The url of a peer without the slash at its end. @throws PM_INDEXER_REQUEST */
export function peerUrl(value: unknown): string {
  const text = nameOf(value, 'url');
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw badField('url', 'an address such as http://10.0.0.7:8090');
  }
  return text.replace(/\/+$/, '');
}
