// Hours of churn through a capped prefix index: sessions that come, grow turn by turn and end, on workers whose pools evict what they
// used longest ago, and announce it. After eight tenths a new index is told what all pools hold; from then on both hear the same, and
// in the last tenth of events they must find as much.
import { type Rng, seededRng } from '../../plugin/index.ts';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { createPrefixIndex } from './extent-index.ts';
import { mixPair } from './pair-mix.ts';
import type { PrefixIndex } from './types.ts';

/** Sizes of a churn. */
export interface ChurnOptions {
  /** Blocks stored and removed in all. */
  readonly events: number;
  readonly maxBytes: number;
  readonly workers: number;
  /** Sessions alive at the same time. */
  readonly sessions: number;
  /** Blocks that a worker's pool holds. */
  readonly pool: number;
  readonly seed: number;
  readonly progress?: (tenth: number, state: ChurnState) => void;
}

/** An index after a tenth of the churn. */
export interface ChurnState {
  readonly bytes: number;
  readonly holdings: number;
  readonly evicted: number;
  /** Share of asked blocks that were found in this tenth. */
  readonly hitRate: number;
}

/** What came of a churn. */
export interface ChurnResult {
  readonly tenths: readonly ChurnState[];
  /** The last tenth in the index that was built anew. */
  readonly fresh: ChurnState;
}

interface Session {
  readonly id: number;
  length: number;
  readonly end: number;
}

const TENTHS = 10;
/** Tenths after which the new index is built. */
const REBUILT_AFTER = 8;
const SYSTEMS = 8;
const SYSTEM_BLOCKS = 16;
const MOST_BLOCKS = 512;
/** Blocks that a pool evicts at once. */
const EVICTED_AT_ONCE = 32;

/** One index and what it was asked in this tenth. */
class Asked {
  readonly index: PrefixIndex;
  #asked = 0;
  #found = 0;

  constructor(index: PrefixIndex) {
    this.index = index;
  }

  ask(local: HashPairs, sequence: HashPairs): { owner: number; depth: number } {
    const match = this.index.find(local, sequence, ['device']);
    let best = { owner: -1, depth: 0 };
    for (let row = 0; row < match.count; row++) {
      const depth = match.depthPerTier[0]![row]!;
      if (depth > best.depth) best = { owner: match.owners[row]!, depth };
    }
    this.#asked += local.length / 2;
    this.#found += best.depth;
    return best;
  }

  /** The state now; begins a new tenth. */
  state(): ChurnState {
    const { bytes, holdings, evicted } = this.index.stats();
    const hitRate = this.#found / Math.max(1, this.#asked);
    this.#asked = 0;
    this.#found = 0;
    return { bytes, holdings, evicted, hitRate };
  }
}

/** Leads a churn to its end. */
export function churn(options: ChurnOptions): ChurnResult {
  return new Churn(options).lead();
}

class Churn {
  readonly #options: ChurnOptions;
  readonly #rng: Rng;
  readonly #hasher = createBlockHasher();
  readonly #old: Asked;
  #new: Asked | null = null;
  /** Per worker the blocks it holds of each session, the least recently used first. */
  readonly #pools: Map<Session, number>[];
  readonly #held: number[];
  readonly #sessions: Session[] = [];
  readonly #local = new Uint32Array(2 * MOST_BLOCKS);
  readonly #sequence = new Uint32Array(2 * MOST_BLOCKS);
  readonly #names = new Uint32Array(2 * MOST_BLOCKS);
  #made = 0;
  #events = 0;

  constructor(options: ChurnOptions) {
    this.#options = options;
    this.#rng = seededRng(options.seed);
    this.#old = new Asked(this.#fresh());
    this.#pools = Array.from({ length: options.workers }, () => new Map<Session, number>());
    this.#held = this.#pools.map(() => 0);
    for (let nth = 0; nth < options.sessions; nth++) this.#sessions.push(this.#begin());
  }

  lead(): ChurnResult {
    const tenths: ChurnState[] = [];
    for (let tenth = 1; tenth <= TENTHS; tenth++) {
      while (this.#events < (tenth * this.#options.events) / TENTHS) this.#turn();
      const state = this.#old.state();
      tenths.push(state);
      this.#options.progress?.(tenth, state);
      if (tenth === TENTHS - 1) this.#new?.state();
      if (tenth === REBUILT_AFTER) this.#rebuild();
    }
    if (this.#new === null) throw new Error('no index was built anew');
    return { tenths, fresh: this.#new.state() };
  }

  #fresh(): PrefixIndex {
    const index = createPrefixIndex({ hasher: this.#hasher, maxBytes: this.#options.maxBytes });
    for (let worker = 0; worker < this.#options.workers; worker++) {
      for (let system = 0; system < SYSTEMS; system++) {
        const names = this.#namesOf(system, worker, 0, SYSTEM_BLOCKS);
        index.store(worker, 'device', null, names, this.#contentsOf(system, SYSTEM_BLOCKS));
      }
    }
    return index;
  }

  /** A new index is told what all pools hold, by all workers at the same time, as when a router starts beside running engines. */
  #rebuild(): void {
    this.#new = new Asked(this.#fresh());
    const pools = this.#pools.map((pool) => [...pool]);
    const most = Math.max(...pools.map(({ length }) => length));
    for (let nth = 0; nth < most; nth++) {
      for (const [worker, pool] of pools.entries()) {
        const [session, held] = pool[nth] ?? [];
        if (session !== undefined && held !== undefined) {
          this.#store(this.#new.index, session, worker, 0, held);
        }
      }
    }
  }

  #begin(): Session {
    const id = SYSTEMS + this.#made++;
    const length = 20 + this.#rng.integer(100);
    return { id, length, end: length + this.#rng.integer(300) };
  }

  /** One request: looked up, routed to where most was found, computed there and announced. */
  #turn(): void {
    const { sessions, workers } = this.#options;
    // Few sessions are asked for much more often than the others.
    const nth = Math.floor(sessions * this.#rng.next() ** 3);
    let session = this.#sessions[nth]!;
    if (session.length >= session.end) {
      session = this.#begin();
      this.#sessions[nth] = session;
    }
    const blocks = SYSTEM_BLOCKS + session.length;
    const local = this.#contentsOf(session.id, blocks);
    const sequence = this.#sequence.subarray(0, 2 * blocks);
    this.#hasher.chain(null, local, sequence);
    const best = this.#old.ask(local, sequence);
    this.#new?.ask(local, sequence);
    const worker = best.depth > SYSTEM_BLOCKS ? best.owner : this.#rng.integer(workers);
    this.#compute(session, worker);
    session.length += 1 + this.#rng.integer(30);
  }

  #compute(session: Session, worker: number): void {
    const pool = this.#pools[worker]!;
    const held = pool.get(session) ?? 0;
    pool.delete(session);
    pool.set(session, session.length);
    this.#held[worker]! += session.length - held;
    this.#events += session.length - held;
    this.#store(this.#old.index, session, worker, held, session.length);
    if (this.#new !== null) this.#store(this.#new.index, session, worker, held, session.length);
    while (this.#held[worker]! > this.#options.pool) this.#shrink(pool, worker);
  }

  /** The pool drops the end of what it used longest ago. */
  #shrink(pool: Map<Session, number>, worker: number): void {
    for (const [session, held] of pool) {
      const left = Math.max(0, held - EVICTED_AT_ONCE);
      const names = this.#namesOf(session.id, worker, SYSTEM_BLOCKS + left, SYSTEM_BLOCKS + held);
      this.#old.index.remove(worker, 'device', names);
      this.#new?.index.remove(worker, 'device', names);
      this.#held[worker]! -= held - left;
      this.#events += held - left;
      if (left === 0) pool.delete(session);
      else pool.set(session, left);
      return;
    }
  }

  #store(index: PrefixIndex, session: Session, worker: number, from: number, to: number): void {
    if (to === from) return;
    const local = this.#contentsOf(session.id, SYSTEM_BLOCKS + to).subarray(2 * (SYSTEM_BLOCKS + from));
    const before =
      from === 0
        ? this.#namesOf(session.id % SYSTEMS, worker, SYSTEM_BLOCKS - 1, SYSTEM_BLOCKS)
        : this.#namesOf(session.id, worker, SYSTEM_BLOCKS + from - 1, SYSTEM_BLOCKS + from);
    const parent: U64 = { lo: before[0]!, hi: before[1]! };
    const names = this.#namesOf(session.id, worker, SYSTEM_BLOCKS + from, SYSTEM_BLOCKS + to);
    index.store(worker, 'device', parent, names, local);
  }

  /** Contents of a session's prompt, its system prompt in front; of a system prompt for the first numbers. */
  #contentsOf(id: number, blocks: number): HashPairs {
    const local = this.#local.subarray(0, 2 * blocks);
    for (let at = 0; at < blocks; at++) {
      const of = at < SYSTEM_BLOCKS ? id % SYSTEMS : id;
      local[2 * at] = mixPair(of, at);
      local[2 * at + 1] = of;
    }
    return local;
  }

  /** A worker's own names of blocks [from, to). */
  #namesOf(id: number, worker: number, from: number, to: number): HashPairs {
    const names = this.#names.subarray(0, 2 * (to - from));
    for (let at = from; at < to; at++) {
      names[2 * (at - from)] = mixPair(at + 7, id);
      names[2 * (at - from) + 1] = mixPair(id, at * 64 + worker);
    }
    return names;
  }
}
