// Cache oracles for replay, written to be obviously right: arrays that are searched and Maps in insertion order, no shared code
// with the simulator. A request goes to worker `index mod workers`; each is finished before the next comes.
import { TRACE_BLOCK_SIZE, type Trace } from '../../src/replay/index.ts';

/** What a naive run counts. */
export interface NaiveRun {
  /** Σ hit ids / Σ ids. */
  readonly idRate: number;
  /** Σ reused tokens / Σ prompt tokens. */
  readonly tokenRate: number;
}

/** The block-list model: every id is a block; longest resident prefix; ids touched and entered in order; LRU out. */
export function naiveBlockList(trace: Trace, workers: number, blocks: number): NaiveRun {
  // A Map iterates in insertion order, so its first key is the least recently used.
  const caches = Array.from({ length: workers }, () => new Map<number, true>());
  let hits = 0;
  for (let request = 0; request < trace.requests; request += 1) {
    const cache = caches[request % workers]!;
    const ids = idsOf(trace, request);
    let prefix = 0;
    while (prefix < ids.length && cache.has(ids[prefix]!)) prefix += 1;
    hits += prefix;
    for (const id of ids) {
      cache.delete(id);
      cache.set(id, true);
      if (cache.size > blocks) cache.delete(cache.keys().next().value!);
    }
  }
  return { idRate: hits / trace.hashIds.length, tokenRate: hits / trace.hashIds.length };
}

/**
 * The engine model with blocks of 512 tokens: only full blocks are cached, the last prompt token is always computed, output
 * fills blocks too (its last token is never computed), and a finished request lets go of its deepest block first. A block that
 * has to be computed although its contents are cached is a second copy.
 */
export function naiveEngine(trace: Trace, workers: number, blocks: number): NaiveRun {
  const caches = Array.from({ length: workers }, () => new NaivePool(blocks));
  let reusedBlocks = 0;
  let reusedTokens = 0;
  let tokens = 0;
  for (let request = 0; request < trace.requests; request += 1) {
    const pool = caches[request % workers]!;
    const input = trace.inputLengths[request]!;
    const computed = input + trace.outputLengths[request]! - 1;
    const ids = idsOf(trace, request);
    const names: (string | null)[] = [];
    for (let block = 0; block * TRACE_BLOCK_SIZE < computed; block += 1) {
      const end = (block + 1) * TRACE_BLOCK_SIZE;
      if (end <= input) names.push(`prompt ${ids[block]}`);
      else names.push(end <= computed ? `output ${request} ${block}` : null);
    }
    const reused = pool.serve(names, Math.floor((input - 1) / TRACE_BLOCK_SIZE));
    reusedBlocks += reused;
    reusedTokens += reused * TRACE_BLOCK_SIZE;
    tokens += input;
  }
  return { idRate: reusedBlocks / trace.hashIds.length, tokenRate: reusedTokens / tokens };
}

/** Physical blocks; unused ones with contents wait in order of release. */
class NaivePool {
  readonly #size: number;
  /** Contents of unused blocks by block number, least recently released first. */
  readonly #unused = new Map<number, string>();
  /** Block numbers by contents. */
  readonly #byName = new Map<string, number[]>();
  #next = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Runs one request alone; returns how many leading blocks it could reuse, at most `reusable`. */
  serve(names: readonly (string | null)[], reusable: number): number {
    const held: { block: number; name: string | null }[] = [];
    while (held.length < reusable) {
      const name = names[held.length] ?? null;
      const block = name === null ? undefined : this.#byName.get(name)?.[0];
      if (block === undefined) break;
      this.#unused.delete(block);
      held.push({ block, name });
    }
    const reused = held.length;
    for (const name of names.slice(reused)) {
      if (this.#unused.size + held.length >= this.#size) this.#evict();
      const block = this.#next;
      this.#next += 1;
      held.push({ block, name });
    }
    for (const { block, name } of held.slice(reused)) {
      if (name !== null) this.#byName.set(name, [...(this.#byName.get(name) ?? []), block]);
    }
    for (const { block, name } of held.reverse()) if (name !== null) this.#unused.set(block, name);
    return reused;
  }

  #evict(): void {
    const [block, name] = this.#unused.entries().next().value!;
    this.#unused.delete(block);
    const left = this.#byName.get(name)!.filter((other) => other !== block);
    if (left.length > 0) this.#byName.set(name, left);
    else this.#byName.delete(name);
  }
}

function idsOf(trace: Trace, request: number): Uint32Array {
  return trace.hashIds.subarray(trace.idOffsets[request]!, trace.idOffsets[request + 1]!);
}
