// Fetching KV from a peer, on two bare machines joined by a directory that the test controls.
import { describe, expect, it } from 'vitest';
import { SimulatorLog } from '../../../tests/support/simulator-log.ts';
import { createBlockHasher } from '../../kv/index.ts';
import type { FetchAnswer, PeerDirectory, SimulatedEngine, SimulatedEngineSettings } from '../types.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';
import { prefillMs } from './timing.ts';

const hasher = createBlockHasher();
const SETTINGS: SimulatedEngineSettings = {
  ...DEFAULT_ENGINE_SETTINGS,
  blockSize: 4,
  kvBlocks: 100,
  // A block of 4 tokens is 1 Mbit, so that it takes 1 ms at 1 Gbit/s.
  kvBytesPerToken: 31_250,
  nicGbps: 1,
  fetchLatencyMs: 2,
};

/** A directory of one source; answers at once unless told otherwise. */
class OneSource implements PeerDirectory {
  readonly asked: { from: number; hashes: number }[] = [];
  readonly released: string[] = [];
  source: SimulatedEngine | null = null;
  now = 0;
  silent = false;
  #rates = new Map<string, (gbps: number) => void>();

  reserve(
    endpoint: string,
    request: { id: number; from: number; blockHashes: BigUint64Array; deadlineMs: number },
    answered: (answer: FetchAnswer) => void,
    rateChanged?: (gbps: number) => void,
  ): void {
    this.asked.push({ from: request.from, hashes: request.blockHashes.length });
    if (this.silent) return;
    const key = `${endpoint}/${request.id}`;
    if (rateChanged) this.#rates.set(key, rateChanged);
    answered(
      this.source === null ? { error: 'unreachable' } : this.source.grantFetch({ ...request, key }, this.now),
    );
  }

  release(endpoint: string, id: number, how: 'done' | 'cancel'): void {
    this.released.push(`${id} ${how}`);
    this.source?.releaseFetch(`${endpoint}/${id}`, this.now);
  }

  claim(): void {}

  drop(): void {}

  announce(key: string, gbps: number): void {
    this.#rates.get(key)?.(gbps);
  }
}

interface Pair {
  readonly source: SimulatedEngine;
  readonly target: SimulatedEngine;
  readonly peers: OneSource;
  readonly sourceLog: SimulatorLog;
  readonly log: SimulatorLog;
  /** Lets time pass on both. */
  until(now: number): void;
}

function pair(
  sourceSettings: Partial<SimulatedEngineSettings> = {},
  targetSettings: Partial<SimulatedEngineSettings> = {},
): Pair {
  const peers = new OneSource();
  const source = createSimulatedEngine(
    { ...SETTINGS, ...sourceSettings },
    { hasher, announceRate: (key, gbps) => peers.announce(key, gbps) },
  );
  const target = createSimulatedEngine({ ...SETTINGS, ...targetSettings }, { hasher, peers });
  peers.source = source;
  const sourceLog = new SimulatorLog();
  const log = new SimulatorLog();
  return {
    source,
    target,
    peers,
    sourceLog,
    log,
    until(now) {
      peers.now = now;
      source.advance(now, sourceLog);
      target.advance(now, log);
    },
  };
}

function prompt(family: number, length: number): Uint32Array {
  return Uint32Array.from({ length }, (_, index) => family * 1000 + index);
}

function request(id: string, tokens: Uint32Array, hint: unknown = null) {
  return { id, tokens, outputTokens: 1, sessionId: null, hint };
}

function fetchHint(hashes: Iterable<string>) {
  return {
    protocol_version: '0.1',
    message_id: 'm',
    actions: [
      {
        action_id: 'a1',
        action_type: 'kv.fetch',
        action_version: '1.0',
        payload: {
          source_control_endpoint: 'peer',
          block_hashes: BigUint64Array.from([...hashes].map(BigInt)),
        },
      },
    ],
  };
}

/** Has the source compute a prompt; returns its hashes in order. */
function warm(the: Pair, tokens: Uint32Array): string[] {
  const before = new Set(the.sourceLog.everStored);
  the.source.submit(request(`warm-${tokens[0]}-${tokens.length}`, tokens), 0);
  the.source.advance(1000, the.sourceLog);
  the.sourceLog.take();
  return [...the.sourceLog.everStored].filter((hash) => !before.has(hash));
}

describe('kv.fetch', () => {
  it('parks the request, moves the blocks, publishes them before it is scheduled, and counts them as cached', () => {
    const the = pair();
    const hashes = warm(the, prompt(1, 26));
    expect(hashes).toHaveLength(6);
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(2000);
    expect(the.log.take()).toEqual(['transfer start a 6 @2000']);
    expect(the.target.stats()).toMatchObject({ parked: 1, running: 0, waiting: 0, activeBlocks: 6 });
    expect(the.source.stats().activeBlocks).toBe(6);
    // 2 ms latency and 6 blocks of 1 ms.
    expect(the.target.nextEventAt()).toBe(2008);
    the.until(2008);
    expect(the.log.take()).toEqual(['transfer end a 6 @2008', 'stored 6', 'admitted a 24 @2008']);
    expect(the.source.stats().activeBlocks).toBe(0);
    expect(the.log.outcomes.get('a')).toEqual([
      {
        action_id: 'a1',
        outcome: 'accepted',
        blocks_asked: 6,
        blocks_done: 6,
        bytes: 6 * 4 * 31_250,
        ms: 8,
      },
    ]);
    the.until(3000);
    expect(the.log.take().at(-1)).toMatch(/^finished a 24\/1 @/);
    expect(the.peers.released).toEqual(['1 done']);
    expect(the.log.contradictions).toEqual([]);
  });

  it('asks only for what it lacks, and for nothing when it has it all', () => {
    const the = pair();
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('own', prompt(1, 10)), 2000);
    the.until(3000);
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 3000);
    the.until(4000);
    expect(the.peers.asked).toEqual([{ from: 2, hashes: 6 }]);
    expect(the.log.outcomes.get('a')).toMatchObject([
      { outcome: 'accepted', blocks_asked: 6, blocks_done: 4 },
    ]);
    the.target.submit(request('b', prompt(1, 26), fetchHint(hashes)), 5000);
    the.until(6000);
    expect(the.peers.asked).toHaveLength(1);
    expect(the.log.outcomes.get('b')).toMatchObject([{ outcome: 'accepted', blocks_done: 0 }]);
  });

  it('does not hold back the requests behind it while it waits', () => {
    const the = pair();
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.target.submit(request('b', prompt(2, 3)), 2000);
    the.until(2000);
    expect(the.log.take()).toEqual(['admitted b 0 @2000', 'transfer start a 6 @2000']);
  });

  it('gets only blocks the source holds now: an evicted end is computed again', () => {
    const the = pair({ kvBlocks: 10 });
    const hashes = warm(the, prompt(1, 26));
    // Another 6 blocks push out the youngest end of the first chain.
    warm(the, prompt(2, 23));
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(3000);
    const [outcome] = the.log.outcomes.get('a')!;
    expect(outcome).toMatchObject({ outcome: 'clipped', blocks_asked: 6 });
    expect(outcome!.blocks_done).toBeGreaterThan(0);
    expect(outcome!.blocks_done).toBeLessThan(6);
    expect(the.log.take()).toContain(
      `admitted a ${4 * outcome!.blocks_done!} @${2000 + 2 + outcome!.blocks_done!}`,
    );
  });

  it('recomputes at once when the peer cannot be reached, holds nothing or has another hash seed', () => {
    const cases: [Partial<SimulatedEngineSettings>, (the: Pair) => void, string][] = [
      [{}, (the) => (the.peers.source = null), 'unreachable'],
      [{ hashSeed: 7 }, () => undefined, 'nothing_held'],
    ];
    for (const [settings, prepare, reason] of cases) {
      const the = pair(settings);
      warm(the, prompt(1, 26));
      prepare(the);
      // Hashes as the target would name them.
      const own = pair();
      const hashes = warm(own, prompt(1, 26));
      the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
      the.until(2000);
      expect(the.log.outcomes.get('a')).toMatchObject([
        { outcome: 'missing', reason, blocks_done: 0, ms: 0 },
      ]);
      the.until(3000);
      expect(the.log.take().at(-1)).toMatch(/^finished a 0\/1 @/);
      expect(the.target.stats().activeBlocks).toBe(0);
    }
  });

  it('does not ask for blocks whose names are not its own', () => {
    const the = pair({ hashSeed: 7 });
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(3000);
    expect(the.peers.asked).toEqual([]);
    expect(the.log.outcomes.get('a')).toMatchObject([{ outcome: 'missing', reason: 'hash_mismatch' }]);
  });

  it('waits 50 ms for an answer, then recomputes and cancels', () => {
    const the = pair();
    const hashes = warm(the, prompt(1, 26));
    the.peers.silent = true;
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(2000);
    expect(the.target.nextEventAt()).toBe(2050);
    the.until(2050);
    expect(the.log.take()).toEqual(['stored 6', 'admitted a 0 @2050']);
    expect(the.peers.released).toEqual(['1 cancel']);
    expect(the.log.outcomes.get('a')).toMatchObject([{ outcome: 'missing', reason: 'timeout', ms: 50 }]);
  });

  it('gives a transfer up after the fetch timeout', () => {
    const the = pair({}, { nicGbps: 0.0001, fetchTimeoutMs: 300 });
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(2300);
    expect(the.log.outcomes.get('a')).toMatchObject([{ outcome: 'missing', reason: 'timeout', ms: 300 }]);
    expect(the.source.stats().activeBlocks).toBe(0);
  });

  it('rejects a fetch for which it has no room', () => {
    const the = pair({}, { kvBlocks: 8 });
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('big', prompt(2, 20)), 2000);
    the.until(2000);
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2001);
    the.until(2000 + prefillMs({ requests: 1, totalIsl: 20, totalPrefix: 0 }) + 30);
    the.until(4000);
    expect(the.log.take().at(-1)).toMatch(/^finished a /);
    expect(the.log.contradictions).toEqual([]);
  });

  it('shares the link between transfers, and hears when the source has more to give', () => {
    const the = pair();
    const first = warm(the, prompt(1, 26));
    const second = warm(the, prompt(2, 14));
    the.target.submit(request('long', prompt(1, 26), fetchHint(first)), 2000);
    the.target.submit(request('short', prompt(2, 14), fetchHint(second)), 2000);
    the.until(2000);
    the.until(2100);
    const lines = the.log.take();
    // Half the link each: 3 blocks take 6 ms; the other 3 of the long one then run at full speed.
    expect(lines).toContain('transfer end short 3 @2008');
    expect(lines).toContain('transfer end long 6 @2011');
  });

  it('frees blocks on both sides when the request is aborted under way', () => {
    const the = pair();
    const hashes = warm(the, prompt(1, 26));
    the.target.submit(request('a', prompt(1, 26), fetchHint(hashes)), 2000);
    the.until(2003);
    the.target.abort('a', 2003);
    expect(the.peers.released).toEqual(['1 cancel']);
    expect(the.target.stats()).toMatchObject({ parked: 0, waiting: 0, activeBlocks: 0 });
    expect(the.source.stats().activeBlocks).toBe(0);
    expect(the.target.nextEventAt()).toBeNull();
  });

  it('keeps granted blocks from eviction until the deadline, then lets them go', () => {
    const the = pair({ kvBlocks: 6 });
    const hashes = warm(the, prompt(1, 18));
    const keys = BigUint64Array.from(hashes.map(BigInt));
    const ask = (key: string, from: number) =>
      the.source.grantFetch({ key, from, blockHashes: keys, deadlineMs: 100 }, 2000);
    expect(ask('k', 1)).toEqual({ held: 4, bytes: 3 * 4 * 31_250, gbps: 1 });
    expect(ask('k', 1)).toEqual({ error: 'busy' });
    expect(the.source.stats().activeBlocks).toBe(4);
    the.source.submit(request('other', prompt(3, 15)), 2001);
    the.source.advance(2001, the.sourceLog);
    expect(the.source.stats()).toMatchObject({ running: 0, waiting: 1 });
    expect(the.source.nextEventAt()).toBe(2100);
    the.source.advance(2100, the.sourceLog);
    expect(the.source.stats()).toMatchObject({ running: 1, waiting: 0 });
    expect(ask('later', 0)).toMatchObject({ held: 2 });
  });

  it('refuses a list that is too long', () => {
    const the = pair();
    const blockHashes = new BigUint64Array(4097);
    expect(the.source.grantFetch({ key: 'k', from: 0, blockHashes, deadlineMs: 1 }, 0)).toEqual({
      error: 'too_many',
    });
  });
});
