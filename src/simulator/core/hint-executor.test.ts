// What hints do to one engine's cache, seen from outside: events, outcomes, hits.
import { describe, expect, it } from 'vitest';
import { SimulatorLog } from '../../../tests/support/simulator-log.ts';
import { createBlockHasher } from '../../kv/index.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';

const hasher = createBlockHasher();

/** An engine with blocks of 4 tokens that serves whole prompts one after the other. */
class Bench {
  readonly evicted: string[] = [];
  readonly engine: ReturnType<typeof createSimulatedEngine>;
  readonly log = new SimulatorLog();
  now = 0;
  #messages = 0;

  constructor(settings: Partial<SimulatedEngineSettings> = {}) {
    this.engine = createSimulatedEngine(
      {
        ...DEFAULT_ENGINE_SETTINGS,
        blockSize: 4,
        kvBlocks: 16,
        retainedShare: 1,
        timing: 'none',
        ...settings,
      },
      { hasher, onEvicted: (_lo, _hi, cause) => this.evicted.push(cause) },
    );
  }

  /** Serves `blocks` full blocks of a family's prompt and a token more; answers what was stored anew. */
  serve(
    family: number,
    blocks: number,
    options: { session?: string; hint?: [string, object][] } = {},
  ): bigint[] {
    const id = this.submit(family, blocks, options);
    const before = new Set(this.log.resident);
    for (let next = this.engine.nextEventAt(); next !== null; next = this.engine.nextEventAt())
      this.until(Math.max(next, this.now));
    this.now += 1;
    expect(this.log.finishedIds.has(id)).toBe(true);
    return [...this.log.resident].filter((hash) => !before.has(hash)).map(BigInt);
  }

  submit(
    family: number,
    blocks: number,
    {
      hint,
      outputTokens = 1,
      session,
    }: { session?: string; hint?: [string, object][]; outputTokens?: number } = {},
  ): string {
    this.#messages += 1;
    const message_id = `m${this.#messages}`;
    const actions = (hint ?? []).map(([name, payload], index) => {
      const [action_type, action_version] = name.split('@');
      return { action_id: `a${index + 1}`, action_type, action_version, payload };
    });
    this.engine.submit(
      {
        id: message_id,
        tokens: Uint32Array.from({ length: 4 * blocks + 1 }, (_, at) => 10_000 * family + at),
        outputTokens,
        sessionId: session ?? null,
        hint: hint === undefined ? null : { protocol_version: '0.1', message_id, actions },
      },
      this.now,
    );
    return message_id;
  }

  until(now: number): void {
    for (
      let next = this.engine.nextEventAt();
      next !== null && next <= now;
      next = this.engine.nextEventAt()
    ) {
      this.engine.advance(Math.max(next, this.now), this.log);
    }
    this.now = now;
    expect(this.log.contradictions).toEqual([]);
  }

  outcome(id: string) {
    return this.log.outcomes.get(id)?.[0];
  }

  has(hashes: readonly bigint[]): boolean[] {
    return hashes.map((hash) => this.log.resident.has(String(hash)));
  }
}

const retain = (block_hashes: readonly bigint[], priority = 50, ttl_ms = 1000): [string, object][] => [
  ['kv.retain@1.0', { block_hashes, priority, ttl_ms }],
];
const evict = (block_hashes: readonly bigint[], more: object = {}): [string, object][] => [
  ['kv.evict@1.0', { block_hashes, ...more }],
];
const last = (bench: Bench) => bench.log.late.at(-1);

describe('kv.retain@1.0', () => {
  it('keeps blocks longer than later ones until its time is over, and says how many it found', () => {
    const bench = new Bench();
    const kept = bench.serve(1, 3);
    bench.serve(9, 1, { hint: retain([...kept, 12_345n], 1, 100) });
    expect(bench.outcome('m2')).toEqual({
      ...{ action_id: 'a1', outcome: 'clipped', blocks_asked: 4, blocks_done: 3 },
    });
    for (const family of [2, 3, 4]) bench.serve(family, 4);
    expect(bench.has(kept)).toEqual([true, true, true]);
    bench.until(200);
    for (const family of [5, 6, 7, 10]) bench.serve(family, 4);
    expect(bench.has(kept)).toEqual([false, false, false]);
    expect(bench.log.late).toEqual([
      {
        ...{ kind: 'hint-outcome', messageId: 'm2', actionId: 'a1', outcome: 'accepted' },
        ...{ reason: 'expired', blocks: 3 },
      },
    ]);
    expect(new Set(bench.evicted)).toEqual(new Set(['room']));
  });

  it('never holds more than its share of the pool: the rest of the list is left out', () => {
    const bench = new Bench({ retainedShare: 0.25 });
    const stored = bench.serve(1, 6);
    bench.serve(9, 1, { hint: retain(stored) });
    expect(bench.outcome('m2')).toMatchObject({ outcome: 'clipped', blocks_asked: 6, blocks_done: 4 });
    expect(bench.engine.stats().retainedBlocks).toBe(4);
    const others = bench.serve(2, 2);
    bench.serve(9, 1, { hint: retain(others) });
    expect(bench.outcome('m4')).toMatchObject({ outcome: 'rejected', reason: 'no_room', blocks_done: 0 });
    // What it has may be renewed.
    bench.serve(9, 1, { hint: retain(stored.slice(0, 4), 9) });
    expect(bench.outcome('m5')).toMatchObject({ outcome: 'accepted', blocks_done: 4 });
  });

  it('finds nothing where nothing is', () => {
    const bench = new Bench();
    bench.serve(9, 1, { hint: retain([5n]) });
    expect(bench.outcome('m1')).toMatchObject({ outcome: 'missing', blocks_asked: 1, blocks_done: 0 });
  });

  it('gives way only to need: what is evicted all the same is told once, the lowest priority first', () => {
    const bench = new Bench();
    const low = bench.serve(1, 4);
    const high = bench.serve(2, 4);
    bench.serve(8, 1, { hint: [...retain(low, 10, 500), ...retain(high, 20, 500)] });
    bench.serve(3, 10);
    expect(bench.has(low)).toContain(false);
    expect(bench.has(high)).toEqual([true, true, true, true]);
    const gone = bench.has(low).filter((has) => !has).length;
    expect(bench.log.late).toMatchObject([
      { messageId: 'm3', actionId: 'a1', outcome: 'clipped', reason: 'evicted', blocks: 4 - gone },
    ]);
    bench.until(1000);
    bench.serve(9, 1);
    expect(bench.log.late.slice(1)).toMatchObject([
      ...(gone < 4 ? [{ actionId: 'a1', outcome: 'clipped', reason: 'expired', blocks: 4 - gone }] : []),
      { actionId: 'a2', outcome: 'accepted', reason: 'expired', blocks: 4 },
    ]);
  });

  it('supersedes what the same session said before, and nothing that another said', () => {
    const bench = new Bench();
    const stored = bench.serve(1, 2);
    bench.serve(9, 1, { session: 'a', hint: retain(stored, 90, 10_000) });
    bench.serve(9, 1, { session: 'b', hint: retain(stored, 10, 10_000) });
    bench.serve(9, 1, { session: 'a', hint: retain(stored, 5, 20) });
    bench.until(100);
    // What is left is b's: neither a's first priority, nor a's second end.
    const other = bench.serve(2, 2);
    bench.serve(9, 1, { session: 'c', hint: retain(other, 9, 10_000) });
    bench.serve(3, 13);
    expect(bench.has([...stored, ...other])).toEqual([true, true, false, false]);
    expect(bench.log.late).toMatchObject([
      { messageId: 'm4', reason: 'expired', blocks: 2 },
      { messageId: 'm6', reason: 'evicted' },
    ]);
  });

  it('releases with priority 0 what the session itself retained', () => {
    const bench = new Bench();
    const stored = bench.serve(1, 2);
    bench.serve(9, 1, { session: 'a', hint: retain(stored) });
    bench.serve(9, 1, { session: 'b', hint: retain(stored, 0) });
    expect(bench.outcome('m3')).toMatchObject({ outcome: 'accepted', blocks_done: 0 });
    expect(bench.engine.stats().retainedBlocks).toBe(2);
    bench.serve(9, 1, { session: 'a', hint: retain(stored.slice(1), 0) });
    expect(bench.outcome('m4')).toMatchObject({ outcome: 'accepted', blocks_asked: 1, blocks_done: 1 });
    expect(bench.engine.stats().retainedBlocks).toBe(1);
  });
});

describe('kv.retain@1.1', () => {
  const ranges = (directives: object[], scope: string | null = null): [string, object][] => [
    ['kv.retain@1.1', { scope, directives }],
  ];

  it('retains the blocks of its own request when that ends, prompt and answer', () => {
    const bench = new Bench();
    const id = bench.submit(1, 3, {
      outputTokens: 8,
      hint: ranges([
        { start: 0, end: 6, priority: 80 },
        { start: 6, priority: 40, duration: 5 },
      ]),
    });
    bench.until(1);
    expect(bench.outcome(id)).toEqual({ action_id: 'a1', outcome: 'deferred' });
    // 13 + 8 tokens are 5 full blocks, but the last token of an answer is never computed; the second block belongs to both ranges.
    expect(last(bench)).toMatchObject({ messageId: id, actionId: 'a1', outcome: 'accepted', blocks: 5 });
    expect(bench.engine.stats().retainedBlocks).toBe(5);
    bench.until(5002);
    bench.serve(9, 1);
    expect(bench.engine.stats().retainedBlocks).toBe(2);
  });

  it('covers the answer alone where it says so, and finds nothing where the request is too short', () => {
    const bench = new Bench();
    bench.submit(1, 3, { outputTokens: 8, hint: ranges([{ covers_output: true, priority: 10 }]) });
    bench.until(1);
    expect(last(bench)).toMatchObject({ outcome: 'accepted', blocks: 2 });
    bench.serve(2, 1, { hint: ranges([{ start: 400, priority: 10 }]) });
    expect(last(bench)).toMatchObject({ outcome: 'missing', blocks: 0 });
  });

  it('is bounded by the share, its end first', () => {
    const bench = new Bench({ retainedShare: 0.125 });
    const stored = bench.serve(1, 4, { hint: ranges([{ priority: 10 }]) });
    expect(last(bench)).toMatchObject({ outcome: 'clipped', blocks: 2 });
    bench.serve(2, 13);
    expect(bench.has(stored)).toEqual([true, true, false, false]);
  });

  it('releases by priority 0 under the same scope', () => {
    const bench = new Bench();
    bench.serve(1, 4, { session: 'a', hint: ranges([{ priority: 10 }], 'job') });
    bench.serve(1, 4, { session: 'b', hint: ranges([{ priority: 0 }], 'other') });
    expect(bench.engine.stats().retainedBlocks).toBe(4);
    bench.serve(1, 4, {
      session: 'b',
      hint: ranges(
        [
          { priority: 10, end: 8 },
          { start: 8, priority: 0 },
        ],
        'job',
      ),
    });
    expect(bench.engine.stats().retainedBlocks).toBe(2);
  });
});

describe('kv.evict@1.0', () => {
  it('evicts what nobody holds or retains, and announces it', () => {
    const bench = new Bench();
    const stored = bench.serve(1, 3);
    bench.serve(9, 1, { hint: evict([...stored, 5n]) });
    expect(bench.outcome('m2')).toEqual({
      ...{ action_id: 'a1', outcome: 'clipped', blocks_asked: 4, blocks_done: 3 },
    });
    bench.until(10);
    expect(bench.has(stored)).toEqual([false, false, false]);
    expect(bench.evicted).toEqual(['hint', 'hint', 'hint']);
    expect(bench.engine.stats()).toMatchObject({ evictedByHint: 3, evictedForRoom: 0 });
    bench.serve(9, 1, { hint: evict(stored) });
    expect(bench.outcome('m3')).toMatchObject({ outcome: 'missing', blocks_done: 0 });
  });

  it('leaves alone what its own request uses, until that is over', () => {
    const bench = new Bench();
    const stored = bench.serve(1, 3);
    bench.serve(1, 3, { hint: evict(stored) });
    expect(bench.outcome('m2')).toMatchObject({ outcome: 'rejected', reason: 'in_use', blocks_done: 0 });
    expect(bench.has(stored)).toEqual([true, true, true]);
    bench.serve(1, 3, { hint: evict(stored, { execute_at: 'request_completion' }) });
    expect(bench.outcome('m3')).toEqual({ action_id: 'a1', outcome: 'deferred' });
    expect(last(bench)).toMatchObject({ messageId: 'm3', actionId: 'a1', outcome: 'accepted', blocks: 3 });
    expect(bench.has(stored)).toEqual([false, false, false]);
  });

  it('leaves alone what another session retains', () => {
    const bench = new Bench();
    const stored = bench.serve(1, 3);
    bench.serve(9, 1, { session: 'a', hint: retain(stored.slice(0, 1)) });
    bench.serve(9, 1, { session: 'b', hint: evict(stored) });
    expect(bench.outcome('m3')).toMatchObject({ outcome: 'clipped', blocks_asked: 3, blocks_done: 2 });
    bench.serve(9, 1, { session: 'a', hint: evict(stored) });
    expect(bench.outcome('m4')).toMatchObject({ outcome: 'clipped', blocks_done: 1 });
    expect(bench.engine.stats().retainedBlocks).toBe(0);
  });

  it('takes the blocks that its request computed, from a position on, unless another used them meanwhile', () => {
    const own = { execute_at: 'request_completion', current_request_block_start: 1 };
    const bench = new Bench();
    const stored = bench.serve(1, 3, { hint: evict([], own) });
    expect(stored.length).toBe(1);
    expect(last(bench)).toMatchObject({ messageId: 'm1', outcome: 'accepted', blocks: 2 });
    const busy = new Bench({ timing: 'default' });
    const first = busy.submit(1, 3, { outputTokens: 50, hint: evict([], own) });
    busy.until(100);
    expect(busy.log.finishedIds.has(first)).toBe(false);
    busy.submit(1, 2);
    busy.until(100_000);
    // Blocks 1 and 2 of the prompt: the other used the first of them.
    expect(busy.log.late[0]).toMatchObject({ messageId: first, outcome: 'clipped' });
    busy.submit(1, 3);
    busy.until(200_000);
    expect(busy.log.take().find((line) => line.startsWith('admitted m3'))).toMatch(/^admitted m3 8 /);
  });

  it('of an aborted request comes to its end all the same', () => {
    const bench = new Bench({ timing: 'default' });
    const stored = bench.serve(1, 3);
    const id = bench.submit(9, 1, {
      outputTokens: 40,
      hint: evict(stored, { execute_at: 'request_completion' }),
    });
    bench.until(bench.now + 50);
    bench.engine.abort(id, bench.now);
    expect(bench.engine.nextEventAt()).toBe(bench.now);
    bench.until(bench.now + 1);
    expect(bench.has(stored)).toEqual([false, false, false]);
    expect(last(bench)).toMatchObject({ messageId: id, outcome: 'accepted', blocks: 3 });
    bench.until(bench.now + 1000);
    expect(bench.engine.nextEventAt()).toBeNull();
  });
});
