// A trace as look-ups and KV events of many workers: each request is looked up, goes to a worker drawn for it, and what that changes
// in the worker's cache is told as engines do.
import { createBlockHasher, type HashPairs, hashAt, ROUTER_SEED } from '../../src/kv/index.ts';
import { seededRng } from '../../src/plugin/index.ts';
import { type Chain, engineHashes, type StoreEvent } from '../index-workload.ts';
import { BlockCache } from './block-cache.ts';
import type { Requests } from './requests.ts';

/** A look-up, or a KV event of one owner. */
export type Operation =
  | ({ readonly kind: 'find' } & Chain)
  | ({ readonly kind: 'store' } & StoreEvent)
  | { readonly kind: 'remove'; readonly owner: number; readonly external: HashPairs };

/** How requests become operations. */
export interface OperationSettings {
  /** Requests are spread over so many. */
  readonly workers: number;
  /** Copies of each worker: copy c of worker w is owner c · workers + w. */
  readonly duplicates: number;
  readonly blockSize: number;
  /** Blocks of each cache. */
  readonly capacity: number;
  readonly seed: number;
  /** Whether engines have hashes of their own. */
  readonly named: boolean;
}

/** Operations by time, and what they add up to. */
export interface Operations {
  readonly list: readonly Operation[];
  /** ms from the first request, by operation. */
  readonly times: readonly number[];
  readonly owners: number;
  /** Blocks of the look-ups. */
  readonly blocksLookedUp: number;
  /** Blocks of the events. */
  readonly blocksTold: number;
  /** Whether any event removes blocks. */
  readonly removes: boolean;
  /** Requests that were looked up only: longer than a cache. */
  readonly tooLong: number;
  /** Caches at the end, by worker. */
  readonly caches: readonly BlockCache[];
}

/** Tokens of a step of prefill; its blocks are told in one event. */
const STEP_TOKENS = 8192;
/** Tokens that are hashed in one call. */
const HASHED_TOKENS = 2 ** 20;

/** The operations of requests; equal arguments make equal operations. */
export function operationsOf(requests: Requests, settings: OperationSettings): Operations {
  const { capacity, duplicates, named, seed, workers } = settings;
  const rng = seededRng(seed);
  const caches = Array.from({ length: workers }, () => new BlockCache(capacity));
  const sequenceOfId = new Map<number, readonly [HashPairs, number]>();
  const list: Operation[] = [];
  const times: number[] = [];
  const step = Math.max(1, Math.floor(STEP_TOKENS / settings.blockSize));
  const hash = promptHasher(settings.blockSize);
  let blocksLookedUp = 0;
  let blocksTold = 0;
  let removes = false;
  let tooLong = 0;
  for (const [request, prompt] of requests.prompts.entries()) {
    const worker = rng.integer(workers);
    const chain = hash(prompt);
    const admission = caches[worker]!.admit(prompt);
    if (admission === null) tooLong += 1;
    for (let owner = worker; owner < workers * duplicates; owner += workers) {
      list.push({ kind: 'find', ...chain });
      blocksLookedUp += prompt.length;
      if (admission === null) continue;
      const { evicted, hits } = admission;
      if (evicted.length > 0) {
        const sequence = gathered(evicted, sequenceOfId);
        list.push({ kind: 'remove', owner, external: engineHashes(sequence, owner, named) });
        removes = true;
      }
      const external = engineHashes(chain.sequence, owner, named);
      for (let from = hits; from < prompt.length; from += step) {
        const to = Math.min(prompt.length, from + step);
        list.push({
          kind: 'store',
          owner,
          parent: from === 0 ? null : hashAt(external, from - 1),
          external: external.subarray(2 * from, 2 * to),
          local: chain.local.subarray(2 * from, 2 * to),
        });
      }
      blocksTold += evicted.length + prompt.length - hits;
    }
    // Evicted in a later request, by when its own may be gone.
    if (admission !== null) {
      for (let at = admission.hits; at < prompt.length; at += 1)
        sequenceOfId.set(prompt[at]!, [chain.sequence, at]);
    }
    while (times.length < list.length) times.push(requests.arrivals[request]!);
  }
  const owners = workers * duplicates;
  return { list, times, owners, blocksLookedUp, blocksTold, removes, tooLong, caches };
}

/** Hashes prompts whose blocks are an id each, repeated for the whole block. */
export function promptHasher(blockSize: number): (prompt: Uint32Array) => Chain {
  const hasher = createBlockHasher();
  const blocksAtOnce = Math.max(1, Math.floor(HASHED_TOKENS / blockSize));
  return (prompt) => {
    const local = new Uint32Array(2 * prompt.length);
    for (let from = 0; from < prompt.length; from += blocksAtOnce) {
      const ids = prompt.subarray(from, from + blocksAtOnce);
      const tokens = new Uint32Array(ids.length * blockSize);
      ids.forEach((id, at) => void tokens.fill(id, at * blockSize, (at + 1) * blockSize));
      local.set(hasher.hashPrompt(tokens, blockSize, ROUTER_SEED).local, 2 * from);
    }
    const sequence = new Uint32Array(local.length);
    hasher.chain(null, local, sequence);
    return { local, sequence };
  };
}

function gathered(
  ids: readonly number[],
  sequenceOfId: ReadonlyMap<number, readonly [HashPairs, number]>,
): HashPairs {
  const pairs = new Uint32Array(2 * ids.length);
  ids.forEach((id, at) => {
    const [sequence, place] = sequenceOfId.get(id)!;
    pairs[2 * at] = sequence[2 * place]!;
    pairs[2 * at + 1] = sequence[2 * place + 1]!;
  });
  return pairs;
}
