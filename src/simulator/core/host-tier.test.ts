import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../events/index.ts';
import { createBlockHasher, type HashPairs } from '../../kv/index.ts';
import type { SimulatedEngine, SimulatedEngineSettings, SimulatorSink } from '../types.ts';
import { advertisedActions, createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';

const hasher = createBlockHasher();
const TIERS = ['device', 'host'] as const;
type Tier = (typeof TIERS)[number];

const names = (pairs: HashPairs): string[] =>
  Array.from({ length: pairs.length / 2 }, (_, at) => `${pairs[2 * at]}:${pairs[2 * at + 1]}`);

/** What a listener that does nothing but keep sets knows; it complains about what a sound stream never says. */
class NaiveListener implements SimulatorSink {
  readonly held: Record<Tier, Set<string>> = { device: new Set(), host: new Set() };
  readonly cached = new Map<string, number>();
  readonly ended = new Map<string, number>();
  readonly firstToken = new Map<string, number>();
  readonly events: KvEvent[] = [];

  kvEvents(events: readonly KvEvent[]): void {
    for (const event of events) {
      this.events.push(event);
      if (event.kind !== 'stored' && event.kind !== 'removed') continue;
      const set = this.held[event.tier === 'host' ? 'host' : 'device'];
      for (const name of names(event.external)) {
        expect(set.has(name)).toBe(event.kind === 'removed');
        if (event.kind === 'stored') set.add(name);
        else set.delete(name);
      }
    }
  }
  admitted(id: string, cachedTokens: number): void {
    this.cached.set(id, cachedTokens);
  }
  chunk(id: string, _token: number, at: number): void {
    if (!this.firstToken.has(id)) this.firstToken.set(id, at);
  }
  finished(id: string, _result: unknown, at: number): void {
    this.ended.set(id, at);
  }
  transfer(): void {}
}

function engineOf(settings: Partial<SimulatedEngineSettings>): SimulatedEngine {
  return createSimulatedEngine(
    { ...DEFAULT_ENGINE_SETTINGS, blockSize: 4, kvBlocks: 8, hostKvBlocks: 8, ...settings },
    { hasher },
  );
}

function agrees(
  engine: SimulatedEngine,
  listener: NaiveListener,
  settings: { kvBlocks: number; host: number },
): void {
  for (const tier of TIERS) {
    expect(names(engine.residentBlocks(tier)).sort()).toEqual([...listener.held[tier]].sort());
  }
  const stats = engine.stats();
  expect(stats.hostBlocks).toBe(listener.held.host.size);
  expect(stats.hostBlocks).toBeLessThanOrEqual(settings.host);
  expect(stats.activeBlocks).toBeGreaterThanOrEqual(0);
  expect(stats.activeBlocks + stats.inactiveBlocks).toBeLessThanOrEqual(settings.kvBlocks);
}

function serve(
  engine: SimulatedEngine,
  listener: NaiveListener,
  id: string,
  tokens: number[],
  now: number,
): number {
  engine.submit({ id, tokens: Uint32Array.from(tokens), outputTokens: 1, sessionId: null, hint: null }, now);
  let at = now;
  for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt()) {
    at = Math.max(at, next);
    engine.advance(at, listener);
  }
  return at;
}

const prompt = (family: number, length: number): number[] =>
  Array.from({ length }, (_, at) => family * 1000 + at);

describe('the host tier', () => {
  it('keeps what leaves the device, announces both, and brings it back for the time its bytes take', () => {
    // 16 tokens of 125,000 bytes at 1 Gbit/s: 16 ms.
    const engine = engineOf({ kvBytesPerToken: 125_000, hostGbps: 1 });
    const listener = new NaiveListener();
    let now = serve(engine, listener, 'a', prompt(1, 17), 0);
    const stored = [...listener.held.device];
    now = serve(engine, listener, 'b', prompt(2, 31), now);
    expect(engine.stats()).toMatchObject({ hostBlocks: 4, offloadedBlocks: 4, onboardedBlocks: 0 });
    expect([...listener.held.host].sort()).toEqual(stored.sort());
    const asked = now;
    now = serve(engine, listener, 'a2', prompt(1, 17), now);
    expect(listener.cached.get('a2')).toBe(16);
    expect(engine.stats().onboardedBlocks).toBe(4);
    const parts = { hostGbps: 1_000_000, kvBytesPerToken: 125_000 };
    const fast = engineOf(parts);
    const other = new NaiveListener();
    let then = serve(fast, other, 'a', prompt(1, 17), 0);
    then = serve(fast, other, 'b', prompt(2, 31), then);
    const fastAsked = then;
    serve(fast, other, 'a2', prompt(1, 17), then);
    const waited = listener.firstToken.get('a2')! - asked;
    expect(waited - (other.firstToken.get('a2')! - fastAsked)).toBeCloseTo(16, 3);
    // Copied back, the blocks stand on both tiers.
    for (const name of stored) expect([...TIERS].every((tier) => listener.held[tier].has(name))).toBe(true);
  });

  it('announces offloaded blocks with their tokens and the block before', () => {
    const engine = engineOf({});
    const listener = new NaiveListener();
    const now = serve(engine, listener, 'a', prompt(1, 13), 0);
    serve(engine, listener, 'b', prompt(2, 31), now);
    const host = listener.events.filter((event) => event.kind === 'stored' && event.tier === 'host');
    const device = listener.events.find((event) => event.kind === 'stored' && event.tier === 'device');
    expect(host.length).toBe(3);
    for (const event of host) {
      if (event.kind !== 'stored' || device?.kind !== 'stored') throw new Error('not a store');
      const block = names(device.external).indexOf(names(event.external)[0]!);
      expect([...event.tokenIds]).toEqual(prompt(1, 13).slice(4 * block, 4 * block + 4));
      const parent = event.parent === null ? null : `${event.parent.lo}:${event.parent.hi}`;
      expect(parent).toBe(block === 0 ? null : names(device.external)[block - 1]);
    }
  });

  it('forgets the least recently used blocks when it is full, last ones of a prompt first', () => {
    const engine = engineOf({ hostKvBlocks: 3 });
    const listener = new NaiveListener();
    let now = serve(engine, listener, 'a', prompt(1, 17), 0);
    const [first] = listener.held.device;
    now = serve(engine, listener, 'b', prompt(2, 31), now);
    expect(engine.stats()).toMatchObject({ hostBlocks: 3, offloadedBlocks: 4 });
    expect(listener.held.host.has(first!)).toBe(true);
    serve(engine, listener, 'a2', prompt(1, 17), now);
    expect(listener.cached.get('a2')).toBe(12);
  });

  it('gives everything back when a request leaves while its blocks are on their way', () => {
    const engine = engineOf({ kvBytesPerToken: 125_000, hostGbps: 0.001 });
    const listener = new NaiveListener();
    let now = serve(engine, listener, 'a', prompt(1, 17), 0);
    now = serve(engine, listener, 'b', prompt(2, 31), now);
    engine.submit(
      { id: 'gone', tokens: Uint32Array.from(prompt(1, 17)), outputTokens: 1, sessionId: null, hint: null },
      now,
    );
    engine.advance(now, listener);
    expect(engine.stats()).toMatchObject({ parked: 1, activeBlocks: 4 });
    engine.abort('gone', now);
    expect(engine.stats()).toMatchObject({ parked: 0, activeBlocks: 0, onboardedBlocks: 0 });
    serve(engine, listener, 'c', prompt(3, 31), now);
    expect(listener.ended.has('c')).toBe(true);
    agrees(engine, listener, { kvBlocks: 8, host: 8 });
  });

  it('is told of event by event: naive sets equal both tiers at every step, and every request ends', () => {
    const request = fc.record({
      family: fc.nat(3),
      length: fc.integer({ min: 1, max: 30 }),
      output: fc.integer({ min: 1, max: 6 }),
      wait: fc.nat(60),
      leaves: fc.boolean(),
    });
    const sizes = fc.record({
      kvBlocks: fc.integer({ min: 9, max: 20 }),
      host: fc.nat(12),
      slow: fc.boolean(),
    });
    fc.assert(
      fc.property(sizes, fc.array(request, { maxLength: 25 }), ({ host, kvBlocks, slow }, requests) => {
        const engine = engineOf({ kvBlocks, hostKvBlocks: host, hostGbps: slow ? 0.05 : 504, maxNumSeqs: 3 });
        const listener = new NaiveListener();
        let now = 0;
        const left = new Set<string>();
        const until = (limit: number): void => {
          for (let next = engine.nextEventAt(); next !== null && next <= limit; next = engine.nextEventAt()) {
            now = Math.max(now, next);
            engine.advance(now, listener);
            agrees(engine, listener, { kvBlocks, host });
          }
        };
        for (const [index, { family, leaves, length, output, wait }] of requests.entries()) {
          const tokens = Uint32Array.from(prompt(family, length));
          engine.submit({ id: `r${index}`, tokens, outputTokens: output, sessionId: null, hint: null }, now);
          until(now + wait);
          now += wait;
          if (!leaves || listener.ended.has(`r${index}`)) continue;
          engine.abort(`r${index}`, now);
          left.add(`r${index}`);
        }
        until(Number.POSITIVE_INFINITY);
        expect(listener.ended.size + left.size).toBe(requests.length);
        expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, parked: 0, activeBlocks: 0 });
      }),
      { numRuns: 200 },
    );
  });
});

describe('kv.prefetch', () => {
  const envelope = (message_id: string, action_type: string, payload: object) => ({
    protocol_version: '0.1',
    message_id,
    actions: [{ action_id: 'a1', action_type, action_version: '1.0', payload }],
  });
  const hashOf = (name: string): bigint => {
    const [lo, hi] = name.split(':');
    return (BigInt(hi!) << 32n) | BigInt(lo!);
  };

  /** Four blocks of family 1 in host memory, none of them on the device; 160 ms to copy them back. */
  function offloaded(settings: Partial<SimulatedEngineSettings> = {}) {
    const engine = engineOf({ kvBytesPerToken: 1_250_000, hostGbps: 1, ...settings });
    const listener = new PrefetchListener();
    let now = serve(engine, listener, 'a', prompt(1, 17), 0);
    const stored = [...listener.held.device];
    now = serve(engine, listener, 'b', prompt(2, 31), now);
    return { engine, listener, now, stored, hashes: stored.map(hashOf) };
  }

  /** Notes outcomes as well. */
  class PrefetchListener extends NaiveListener {
    readonly outcomes = new Map<string, unknown>();
    override admitted(id: string, cachedTokens: number, outcomes: readonly unknown[] = []): void {
      super.admitted(id, cachedTokens);
      this.outcomes.set(id, outcomes[0]);
    }
    get late() {
      return this.events.filter((event) => event.kind === 'hint-outcome');
    }
  }

  const send = (engine: SimulatedEngine, id: string, type: string, payload: object, now: number): void => {
    const hint = envelope(id, type, payload);
    engine.submit({ id, tokens: Uint32Array.of(9), outputTokens: 1, sessionId: null, hint }, now);
  };
  const ask = (engine: SimulatedEngine, id: string, block_hashes: readonly bigint[], now: number): void =>
    send(engine, id, 'kv.prefetch', { block_hashes }, now);

  it('brings blocks back for the time their bytes take, beside the passes, and the next prompt finds them', () => {
    const { engine, hashes, listener, now, stored } = offloaded();
    ask(engine, 'p', [...hashes, 5n], now);
    engine.advance(now, listener);
    expect(listener.outcomes.get('p')).toEqual({ action_id: 'a1', outcome: 'deferred', blocks_asked: 5 });
    let at = now;
    for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt()) {
      at = Math.max(at, next);
      engine.advance(at, listener);
      agrees(engine, listener, { kvBlocks: 8, host: 8 });
    }
    // Its own pass was over long before.
    expect(at).toBeCloseTo(now + 160, 3);
    expect(listener.ended.get('p')).toBeLessThan(at);
    expect(listener.late).toEqual([
      {
        ...{ kind: 'hint-outcome', messageId: 'p', actionId: 'a1', outcome: 'clipped', reason: null },
        blocks: 4,
      },
    ]);
    for (const name of stored) expect(listener.held.device.has(name)).toBe(true);
    serve(engine, listener, 'a2', prompt(1, 17), at);
    expect(listener.cached.get('a2')).toBe(16);
    // They come with their tokens and the block before.
    const back = listener.events
      .filter((event) => event.kind === 'stored' && event.tier === 'device')
      .slice(-4);
    for (const event of back) {
      if (event.kind !== 'stored') throw new Error('not a store');
      const block = stored.indexOf(names(event.external)[0]!);
      expect([...event.tokenIds]).toEqual(prompt(1, 17).slice(4 * block, 4 * block + 4));
    }
  });

  it('has nothing to do for what is on the device, and finds nothing where nothing is', () => {
    const { engine, hashes, listener, now } = offloaded();
    let at = serve(engine, listener, 'a2', prompt(1, 17), now);
    ask(engine, 'p', hashes, at);
    engine.advance(at, listener);
    expect(listener.outcomes.get('p')).toMatchObject({ outcome: 'accepted', blocks_done: 4 });
    at = serve(engine, listener, 'c', prompt(3, 3), at + 1);
    ask(engine, 'q', [1n, 2n], at);
    engine.advance(at, listener);
    expect(listener.outcomes.get('q')).toMatchObject({ outcome: 'missing', blocks_done: 0 });
  });

  it('takes the first blocks where there is no room for all, and none where there is none', () => {
    const { engine, hashes, listener, now } = offloaded({ hostKvBlocks: 16 });
    // 5 of 8 blocks are held by a request under way, one more by the one that asks.
    engine.submit(
      { id: 'long', tokens: Uint32Array.from(prompt(4, 19)), outputTokens: 9, sessionId: null, hint: null },
      now,
    );
    ask(engine, 'p', hashes, now);
    engine.advance(now, listener);
    expect(listener.outcomes.get('p')).toMatchObject({ outcome: 'deferred' });
    ask(engine, 'q', hashes.slice(2), now);
    let at = now;
    for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt()) {
      at = Math.max(at, next);
      engine.advance(at, listener);
      agrees(engine, listener, { kvBlocks: 8, host: 16 });
    }
    expect(listener.late[0]).toMatchObject({ messageId: 'p', outcome: 'clipped', blocks: 2 });
    expect(listener.outcomes.get('q')).toMatchObject({ outcome: 'rejected', reason: 'no_room' });
    expect(listener.ended.has('long')).toBe(true);
  });

  it('makes no room at the cost of what it names and is there, even where all else is retained', () => {
    const { engine, hashes, listener, now, stored } = offloaded({ hostKvBlocks: 16, retainedShare: 1 });
    const others = [...listener.held.device].filter((name) => !stored.includes(name));
    const named = others.slice(0, 3);
    const retained = others.slice(3).map(hashOf);
    send(engine, 'r', 'kv.retain', { block_hashes: retained, priority: 9, ttl_ms: 10_000 }, now);
    engine.advance(now, listener);
    expect(listener.outcomes.get('r')).toMatchObject({ outcome: 'accepted', blocks_done: 4 });
    ask(engine, 'p', [...named.map(hashOf), ...hashes], now + 1);
    for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt())
      engine.advance(Math.max(now + 1, next), listener);
    const told = listener.late.find((event) => event.messageId === 'p');
    const there = [...named, ...stored].filter((name) => listener.held.device.has(name));
    expect(there.slice(0, 3)).toEqual(named);
    expect(told).toMatchObject({ blocks: there.length });
    expect(there.length).toBeGreaterThan(3);
  });

  it('is not undone by an eviction on its way: what is being copied is in use', () => {
    const { engine, hashes, listener, now } = offloaded();
    ask(engine, 'p', hashes, now);
    send(engine, 'e', 'kv.evict', { block_hashes: hashes }, now);
    for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt()) {
      engine.advance(Math.max(now, next), listener);
      agrees(engine, listener, { kvBlocks: 8, host: 8 });
    }
    expect(listener.outcomes.get('e')).toMatchObject({ outcome: 'rejected', reason: 'in_use' });
    expect(listener.late).toMatchObject([{ messageId: 'p', outcome: 'accepted', blocks: 4 }]);
  });

  it('is not advertised, and refused, without host memory', () => {
    const settings = { ...DEFAULT_ENGINE_SETTINGS, hostKvBlocks: 0 };
    expect(advertisedActions(settings)).not.toContain('kv.prefetch@1.0');
    expect(advertisedActions({ ...settings, hostKvBlocks: 1 })).toContain('kv.prefetch@1.0');
    const engine = engineOf({ hostKvBlocks: 0 });
    const listener = new PrefetchListener();
    ask(engine, 'p', [1n], 0);
    engine.advance(0, listener);
    expect(listener.outcomes.get('p')).toMatchObject({ outcome: 'rejected', reason: 'unsupported' });
  });
});

describe('kv.evict with host memory', () => {
  it.each([
    ['device', 4],
    [undefined, 0],
  ] as const)('of tier %s leaves %i blocks there', (tier, left) => {
    const engine = engineOf({});
    const listener = new NaiveListener();
    const now = serve(engine, listener, 'a', prompt(1, 17), 0);
    const payload = {
      block_hashes: BigUint64Array.from(
        [...listener.held.device].map((name) => {
          const [lo, hi] = name.split(':');
          return (BigInt(hi!) << 32n) | BigInt(lo!);
        }),
      ),
      ...(tier && { tier }),
    };
    const action = { action_id: 'a1', action_type: 'kv.evict', action_version: '1.0', payload };
    const hint = { protocol_version: '0.1', message_id: 'e', actions: [action] };
    engine.submit({ id: 'e', tokens: Uint32Array.of(9), outputTokens: 1, sessionId: null, hint }, now);
    for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt())
      engine.advance(Math.max(now, next), listener);
    expect([listener.held.device.size, listener.held.host.size]).toEqual([0, left]);
    agrees(engine, listener, { kvBlocks: 8, host: 8 });
  });
});
