import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../events/index.ts';
import { createBlockHasher, type HashPairs } from '../../kv/index.ts';
import type { SimulatedEngine, SimulatedEngineSettings, SimulatorSink } from '../types.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';

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
