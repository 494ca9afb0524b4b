// Families of sessions on one simulated engine, under kv_release_session: prompts are forks of the parent's or begin with a preamble of
// sub-agents, turns come in any order, and ends carry what the policy sends. What is needed is known from the tokens alone.

import type { KvEvent } from '../../src/events/index.ts';
import { createBlockHasher, type HashPairs } from '../../src/kv/index.ts';
import type { Rng } from '../../src/plugin/index.ts';
import { kvReleaseSession } from '../../src/policies/index.ts';
import {
  createSimulatedEngine,
  DEFAULT_ENGINE_SETTINGS,
  type SimulatorSink,
} from '../../src/simulator/index.ts';
import { openHintPolicy, type TrialBooking } from '../../src/testing/index.ts';
import type { ReleaseLineage } from './release-lineage.ts';

const BLOCK = 2;
const WORKER = { workerId: 1n, rank: 0 };
const hasher = createBlockHasher();

/** What came of the trees. */
export interface TreeTally {
  trees: number;
  ends: number;
  turns: number;
  /** Blocks that went because a hint asked for it. */
  released: number;
  /** The same because the engine needed room. */
  evicted: number;
}

interface Session {
  readonly id: string;
  readonly parent: Session | null;
  tokens: number[];
  children: number;
  /** Whether it has, or may have had, blocks. */
  began: boolean;
  over: boolean;
}

/** One policy, as a router has it, for any number of trees. */
export async function agentTrees(
  lineageOf: () => ReleaseLineage,
  fail: (problem: string) => never,
): Promise<{ run(rng: Rng): void; readonly tally: TreeTally }> {
  const { book } = await openHintPolicy(kvReleaseSession, {
    context: { capabilities: ['kv.evict@1.0'], blockSize: BLOCK, worker: WORKER },
  });
  const tally: TreeTally = { trees: 0, ends: 0, turns: 0, released: 0, evicted: 0 };
  return {
    tally,
    run(rng) {
      tally.trees += 1;
      new Tree(tally, book, lineageOf(), rng, fail).run();
    },
  };
}

type Book = (context: TrialBooking) => {
  readonly actions: readonly unknown[];
  readonly error: string | null;
};

class Tree implements SimulatorSink {
  readonly #tally: TreeTally;
  readonly #book: Book;
  readonly #lineage: ReleaseLineage;
  readonly #rng: Rng;
  readonly #fail: (problem: string) => never;
  readonly #engine;
  readonly #sessions: Session[] = [];
  /** Hash of a block by its parent's and its tokens, of every block there ever was. */
  readonly #names = new Map<string, string>();
  readonly #resident = new Set<string>();
  /** What hints took since the last look. */
  #taken: string[] = [];
  #answer: number[] = [];
  #cached = 0;
  #now = 0;
  #requests = 0;

  constructor(
    tally: TreeTally,
    book: Book,
    lineage: ReleaseLineage,
    rng: Rng,
    fail: (problem: string) => never,
  ) {
    this.#tally = tally;
    this.#book = book;
    this.#lineage = lineage;
    this.#rng = rng;
    this.#fail = fail;
    // Half of the engines are too small for a family.
    const kvBlocks = rng.integer(2) === 0 ? 2048 : 40 + rng.integer(24);
    this.#engine = createSimulatedEngine(
      { ...DEFAULT_ENGINE_SETTINGS, blockSize: BLOCK, kvBlocks, timing: 'none' },
      {
        hasher,
        onEvicted: (lo, hi, cause) => {
          if (cause === 'room') this.#tally.evicted += 1;
          else this.#taken.push(nameOf(lo, hi));
        },
      },
    );
  }

  run(): void {
    const rng = this.#rng;
    const preamble = this.#fresh(1 + rng.integer(12));
    const root = this.#open(null, this.#fresh(4 + rng.integer(20)));
    // Now and then nothing was heard of a parent.
    if (rng.integer(8) > 0) this.#turn(root);
    for (let step = 0; step < 6 + rng.integer(18); step += 1) {
      const session = this.#pick();
      if (session === null) return;
      const what = rng.integer(10);
      if (what < 3 && this.#sessions.length < 9) {
        const fork = session.tokens.slice(0, 1 + rng.integer(session.tokens.length));
        const base = rng.integer(3) === 0 ? preamble : fork;
        this.#turn(this.#open(session, [...base, ...this.#fresh(1 + rng.integer(10))]));
      } else if (what < 6 && session.children === 0 && session.parent !== null) this.#end(session);
      else if (what === 6 && session.tokens.length > 8) this.#compact(session);
      else this.#turn(session);
    }
    for (const session of this.#sessions.toReversed())
      if (!session.over && session.children === 0 && session.parent !== null && rng.integer(4) > 0)
        this.#end(session);
    // The parents were idle until now.
    for (const session of this.#sessions) if (!session.over) this.#turn(session);
  }

  #pick(): Session | null {
    const open = this.#sessions.filter(({ over }) => !over);
    return open[this.#rng.integer(open.length)] ?? null;
  }

  #open(parent: Session | null, tokens: number[]): Session {
    const id = `t${this.#tally.trees}.${this.#sessions.length}`;
    const session = { id, parent, tokens, children: 0, began: parent === null, over: false };
    if (parent !== null) parent.children += 1;
    this.#sessions.push(session);
    return session;
  }

  #fresh(count: number): number[] {
    return Array.from({ length: count }, () => 1_000_000 + this.#rng.integer(1_000_000_000));
  }

  #turn(session: Session, more: object = {}): void {
    // Longer ones would not fit into the smallest engine.
    if (session.tokens.length > 60) return;
    session.tokens.push(...this.#fresh(1 + this.#rng.integer(4)));
    const expected = this.#residentPrefix(session.tokens);
    this.#serve(session, session.tokens, more);
    session.tokens.push(...this.#answer);
    // The engine computes the last token of a prompt in any case.
    const usable = Math.min(expected, Math.floor((session.tokens.length - this.#answer.length - 1) / BLOCK));
    if (this.#cached !== usable * BLOCK)
      this.#fail(`${session.id} hits ${this.#cached / BLOCK} blocks of ${usable} that are there`);
  }

  #compact(session: Session): void {
    this.#turn(session, { compaction: true });
    session.tokens = [...session.tokens.slice(0, 1 + this.#rng.integer(8)), ...this.#fresh(4)];
    this.#turn(session);
  }

  #end(session: Session): void {
    const others = this.#sessions.filter((other) => other !== session && other.began && !other.over);
    const before = others.map((other) => this.#residentPrefix(other.tokens));
    session.over = true;
    if (session.parent !== null) session.parent.children -= 1;
    const real = this.#rng.integer(2) === 0;
    const tokens = real ? [...session.tokens, ...this.#fresh(1 + this.#rng.integer(8))] : this.#fresh(1);
    const evicted = this.#tally.evicted;
    this.#serve(session, tokens, { sessionFinal: true });
    this.#lineage.finish(session.id);
    this.#tally.ends += 1;
    // What made room for the last request itself is the engine's choice.
    if (this.#tally.evicted !== evicted) return;
    for (const [index, other] of others.entries()) {
      const left = this.#residentPrefix(other.tokens);
      if (left < before[index]!)
        this.#fail(`the end of ${session.id} leaves ${other.id} ${left} blocks of ${before[index]}`);
    }
  }

  /** A request goes the way it goes in a router: match, hints, engine, events. */
  #serve(session: Session, tokens: readonly number[], more: object): void {
    const found = this.#blocksOf(tokens, this.#residentPrefix(tokens));
    const { actions, error } = this.#book({
      session: {
        sessionId: session.id,
        ...(session.parent && { parentSessionId: session.parent.id }),
        ...more,
      },
      promptTokens: tokens.length,
      cache: { deviceBlocks: found.length },
      lineage: this.#lineage,
    });
    if (error !== null) this.#fail(error);
    this.#lineage.match(session.id, found);
    session.began = true;
    this.#requests += 1;
    this.#tally.turns += 1;
    this.#answer = [];
    this.#engine.submit(
      {
        id: `r${this.#requests}`,
        tokens: Uint32Array.from(tokens),
        outputTokens: 1 + this.#rng.integer(5),
        sessionId: session.id,
        hint: { protocol_version: '0.1', message_id: `m${this.#requests}`, actions },
      },
      this.#now,
    );
    this.#now += 1;
    for (let next = this.#engine.nextEventAt(); next !== null; next = this.#engine.nextEventAt())
      this.#engine.advance(Math.max(next, this.#now), this);
    this.#checkTaken(session);
  }

  #checkTaken(session: Session): void {
    this.#tally.released += this.#taken.length;
    if (this.#taken.length === 0) return;
    const taken = new Set(this.#taken);
    this.#taken = [];
    for (const other of this.#sessions) {
      if (other.over || !other.began || other === session) continue;
      for (const name of this.#blocksOf(other.tokens))
        if (taken.has(name)) this.#fail(`${session.id} took a block of ${other.id}`);
    }
  }

  /** Blocks of a prompt by name, as far as they ever were computed. */
  #blocksOf(tokens: readonly number[], most = Number.POSITIVE_INFINITY): string[] {
    const names: string[] = [];
    for (let at = 0; at + BLOCK <= tokens.length && names.length < most; at += BLOCK) {
      const name = this.#names.get(keyOf(names.at(-1) ?? '', tokens, at));
      if (name === undefined) break;
      names.push(name);
    }
    return names;
  }

  #residentPrefix(tokens: readonly number[]): number {
    const names = this.#blocksOf(tokens);
    const end = names.findIndex((name) => !this.#resident.has(name));
    return end < 0 ? names.length : end;
  }

  kvEvents(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === 'stored') {
        let parent = event.parent === null ? '' : nameOf(event.parent.lo, event.parent.hi);
        const stored = namesOf(event.external);
        for (const [index, name] of stored.entries()) {
          this.#names.set(keyOf(parent, event.tokenIds, index * BLOCK), name);
          this.#resident.add(name);
          parent = name;
        }
        const before = event.parent === null ? null : nameOf(event.parent.lo, event.parent.hi);
        if (event.sessionId !== null) this.#lineage.store(event.sessionId, before, stored);
      } else if (event.kind === 'removed') {
        const removed = namesOf(event.external);
        for (const name of removed) this.#resident.delete(name);
        this.#lineage.remove(removed);
      }
    }
  }

  admitted(_id: string, cachedTokens: number): void {
    this.#cached = cachedTokens;
  }

  chunk(_id: string, token: number): void {
    this.#answer.push(token);
  }

  finished(): void {}

  transfer(): void {}
}

function keyOf(parent: string, tokens: ArrayLike<number>, at: number): string {
  return `${parent}|${tokens[at]}|${tokens[at + 1]}`;
}

function nameOf(lo: number, hi: number): string {
  return String((BigInt(hi) << 32n) | BigInt(lo));
}

function namesOf(pairs: HashPairs): string[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) => nameOf(pairs[2 * at]!, pairs[2 * at + 1]!));
}
