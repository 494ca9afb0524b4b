import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkerCapabilities, WorkerState } from '../fleet/index.ts';
import { BookingCopyLocations, type HintFleet } from './copy-locations.ts';
import type { HintBooking } from './types.ts';

interface Peer {
  readonly workerId: bigint;
  readonly rank: number;
  readonly device: number;
  readonly host: number;
  /** Blocks whose hash the index can still name; default: all. */
  readonly known?: number;
  readonly state?: WorkerState;
  readonly endpoint?: string | null;
  readonly capabilities?: Partial<WorkerCapabilities> | null;
}

/** Slot = position; slot 0 is the booked rank. */
function locations(peers: readonly Peer[], blocks = 64, over: Partial<HintBooking> = {}) {
  const fleet: HintFleet = {
    slotRank: (slot) => peers[slot]?.rank ?? -1,
    workerOfSlot(slot) {
      const peer = peers[slot];
      if (peer === undefined) return null;
      const endpoint = peer.endpoint === undefined ? `tcp://w${peer.workerId}:${peer.rank}` : peer.endpoint;
      const rank = { routerHint: true, actions: null, sourceControlEndpoint: endpoint };
      const base = {
        epoch: `${slot}`,
        model: 'tiny',
        workerType: 'aggregated',
        blockSize: 16,
        hashScheme: 'sim',
        reportsOutcomes: true,
        ranks: new Map([[peer.rank, rank]]),
      };
      const capabilities = peer.capabilities === null ? null : { ...base, ...peer.capabilities };
      return { spec: { id: peer.workerId }, state: peer.state ?? 'ready', capabilities };
    },
  };
  const rows = peers.flatMap((peer, slot) => (peer.device + peer.host > 0 ? [{ ...peer, slot }] : []));
  const none = new Int32Array(rows.length);
  return new BookingCopyLocations(fleet, {
    requestId: 'r',
    slot: 0,
    workerId: peers[0]?.workerId ?? 0n,
    rank: peers[0]?.rank ?? 0,
    role: 'aggregated',
    partition: { model: 'tiny', routingGroup: 'default' },
    promptTokens: blocks * 16,
    blockSize: 16,
    session: null,
    incomingHint: null,
    hashes: { blocks, local: new Uint32Array(blocks * 2), sequence: new Uint32Array(blocks * 2) },
    match: {
      count: rows.length,
      owners: Int32Array.from(rows, (row) => row.slot),
      depthPerTier: [
        Int32Array.from(rows, (row) => row.device),
        Int32Array.from(rows, (row) => row.host),
        none,
        none,
      ],
      version: 1,
    },
    index: {
      externalHashes(owner, _sequence, from, to, out) {
        const peer = peers[owner]!;
        const end = Math.min(to, peer.known ?? peer.device + peer.host);
        for (let at = from; at < end; at += 1) out[at - from] = hashOf(owner, at);
        return Math.max(0, end - from);
      },
    },
    ...over,
  });
}

/** Each owner hashes differently, and beyond 2^63. */
const hashOf = (slot: number, block: number): bigint => 2n ** 64n - 1n - BigInt(slot * 1000 + block);
const peer = (workerId: bigint, device: number, more: Partial<Peer> = {}): Peer => ({
  workerId,
  rank: 0,
  device,
  host: 0,
  ...more,
});

describe('the best source', () => {
  it('is the longest prefix, with the source’s own hashes from the root', () => {
    const copy = locations([peer(1n, 2, { host: 1 }), peer(2n, 5), peer(3n, 7)]).bestSource(1);
    expect(copy).toEqual({
      source: { workerId: 3n, rank: 0 },
      link: null,
      prefixBlocks: 7,
      additionalBlocks: 4,
      controlEndpoint: 'tcp://w3:0',
      blockHashes: BigUint64Array.from({ length: 7 }, (_, block) => hashOf(2, block)),
    });
  });

  it('among equals is the smallest worker id, then the smallest rank, whatever the slots', () => {
    const peers = [
      peer(9n, 0),
      peer(2n ** 64n - 1n, 4),
      peer(5n, 4, { rank: 2 }),
      peer(5n, 4, { rank: 1 }),
      peer(6n, 4),
    ];
    expect(locations(peers).bestSource(1)?.source).toEqual({ workerId: 5n, rank: 1 });
  });

  it('counts device and host blocks of the booked rank as its own, and only device blocks of a source', () => {
    const both = locations([peer(1n, 2, { host: 3 }), peer(2n, 5, { host: 9 })]);
    expect(both.localPrefixBlocks).toBe(5);
    expect(both.bestSource(1)).toBeNull();
    expect(locations([peer(1n, 2, { host: 2 }), peer(2n, 5)]).bestSource(1)?.additionalBlocks).toBe(1);
  });

  it('may be another rank of the booked worker', () => {
    expect(locations([peer(1n, 0), peer(1n, 3, { rank: 1 })]).bestSource(1)?.source).toEqual({
      workerId: 1n,
      rank: 1,
    });
  });

  it.each<[string, Partial<Peer>]>([
    ['serves another model', { capabilities: { model: 'other' } }],
    ['has another block size', { capabilities: { blockSize: 32 } }],
    ['hashes otherwise', { capabilities: { hashScheme: 'other' } }],
    ['is of another worker type', { capabilities: { workerType: 'prefill' } }],
    ['advertises nothing', { capabilities: null }],
    ['names no endpoint', { endpoint: null }],
    ['names an empty endpoint', { endpoint: '' }],
    ['is gone', { state: 'gone' }],
    ['is suspect', { state: 'suspect' }],
  ])('is never one that %s', (_, more) => {
    const given = locations([peer(1n, 0), peer(2n, 9, more), peer(3n, 1)]);
    expect(given.bestSource(1)?.source.workerId).toBe(3n);
    expect(given.owners.map((owner) => owner.source.workerId)).toEqual([3n]);
  });

  it('may be draining: it still has what it has', () => {
    expect(locations([peer(1n, 0), peer(2n, 9, { state: 'draining' })]).bestSource(1)?.prefixBlocks).toBe(9);
  });

  it('ends where the source’s hashes are unknown, and is dropped when too little is left', () => {
    const short = locations([peer(1n, 1), peer(2n, 9, { known: 4 })]);
    expect(short.bestSource(3)).toMatchObject({ prefixBlocks: 4, additionalBlocks: 3 });
    expect(short.bestSource(3)?.blockHashes).toHaveLength(4);
    expect(short.bestSource(4)).toBeNull();
  });

  it('is refused a minimum that is no number from 0, as a misspelt parameter is', () => {
    const given = locations([peer(1n, 0), peer(2n, 9)]);
    const ask = (minimum: unknown) => () => Reflect.apply(given.bestSource, given, [minimum]);
    for (const [minimum, got] of [
      [Number.NaN, 'NaN'],
      [-1, '-1'],
      [undefined, 'undefined'],
      [null, 'null'],
      ['4', 'a string'],
      [4n, '4'],
    ]) {
      const message = `copyLocations.bestSource: minAdditional must be a number of blocks from 0, got ${got}`;
      expect(ask(minimum)).toThrow(expect.objectContaining({ code: 'PM_PLUGIN_INVALID', message }));
    }
    expect(given.bestSource(0)?.prefixBlocks).toBe(9);
    expect(given.bestSource(Number.POSITIVE_INFINITY)).toBeNull();
  });

  it('gives way to the next when its hashes are unknown or its match is not of this prompt', () => {
    const peers = [peer(1n, 1), peer(2n, 9, { known: 0 }), peer(3n, 7), peer(4n, 70)];
    expect(locations(peers).bestSource(1)?.source.workerId).toBe(3n);
    expect(locations(peers).bestSource(7)).toBeNull();
  });

  it('is nobody when the match is longer than the prompt, or there is no match, index or hashes', () => {
    const peers = [peer(1n, 0), peer(2n, 9)];
    expect(locations(peers, 8).bestSource(1)).toBeNull();
    for (const missing of [{ match: null }, { index: null }, { hashes: null }]) {
      expect(locations(peers, 64, missing).bestSource(1)).toBeNull();
    }
    const nothing = locations(peers, 64, { match: null });
    expect([nothing.owners, nothing.localPrefixBlocks]).toEqual([[], 0]);
  });

  describe('among near-tied ones', () => {
    /** Slot 0 is the booked rank; loads by slot. */
    const chosen = (peers: readonly Peer[], loads: readonly number[], minimum = 1, over = {}) =>
      locations(peers, 128, { loadOf: (slot) => loads[slot] ?? 0, ...over }).bestSource(minimum)?.source
        .workerId;

    it('is the least loaded within a sixteenth of the longest, equals the longest, then the smallest id', () => {
      const peers = [peer(1n, 0), peer(2n, 64), peer(3n, 60), peer(4n, 59), peer(5n, 64)];
      expect(chosen(peers, [0, 7, 6, 0, 7])).toBe(3n);
      expect(chosen(peers, [0, 7, 7, 0, 7])).toBe(2n);
      expect(chosen(peers, [0, 7, 7, 0, 6])).toBe(5n);
      expect(locations(peers, 128).bestSource(1)?.source.workerId).toBe(2n);
    });

    it('adds the blocks asked for, whatever the load', () => {
      expect(chosen([peer(1n, 0), peer(2n, 64), peer(3n, 60)], [0, 9, 0], 61)).toBe(2n);
    });

    it('gives way to the next of them when its hashes are unknown, and then to the next shorter ones', () => {
      const peers = [peer(1n, 0), peer(2n, 64), peer(3n, 62, { known: 0 }), peer(4n, 40), peer(5n, 39)];
      expect(chosen(peers, [0, 9, 1, 5, 4])).toBe(2n);
      const unknown = peers.map((one, slot) => (slot === 1 ? { ...one, known: 0 } : one));
      expect(chosen(unknown, [0, 9, 1, 5, 4])).toBe(5n);
    });

    it('leaves a committed copy with the source that selection chose, and moves on by the same rule', () => {
      const peers = [peer(1n, 0), peer(2n, 64), peer(3n, 64), peer(4n, 64)];
      const commit = { sourceSlot: 1, prefixBlocks: 64, additionalBlocks: 64 };
      const loadOf = (slot: number) => [0, 9, 5, 2][slot] ?? 0;
      expect(locations(peers, 128, { loadOf }).committed(commit)?.source.workerId).toBe(2n);
      const gone = peers.map((one, slot): Peer => (slot === 1 ? { ...one, state: 'gone' } : one));
      expect(locations(gone, 128, { loadOf }).committed(commit)?.source.workerId).toBe(4n);
    });
  });

  it('equals what a plain search finds', () => {
    const any = fc.record({
      workerId: fc.bigInt({ min: 1n, max: 4n }),
      rank: fc.nat(2),
      device: fc.nat(6),
      host: fc.nat(2),
      state: fc.constantFrom<WorkerState[]>('ready', 'ready', 'draining', 'gone'),
    });
    const unique = fc.uniqueArray(any, {
      minLength: 1,
      maxLength: 8,
      selector: ({ workerId, rank }) => `${workerId}/${rank}`,
    });
    fc.assert(
      fc.property(unique, fc.integer({ min: 0, max: 4 }), (peers, minimum) => {
        const given = locations(peers);
        const local = peers[0]!.device + peers[0]!.host;
        const sources = peers
          .slice(1)
          .filter((one) => one.state !== 'gone' && one.device > 0)
          .sort((a, b) => b.device - a.device || Number(a.workerId - b.workerId) || a.rank - b.rank);
        const best = sources.find((one) => one.device - local >= Math.max(1, minimum));
        expect(given.bestSource(minimum)?.source).toEqual(
          best && { workerId: best.workerId, rank: best.rank },
        );
        expect(given.owners.map(({ source, prefixBlocks }) => ({ ...source, prefixBlocks }))).toEqual(
          sources.map(({ workerId, rank, device }) => ({ workerId, rank, prefixBlocks: device })),
        );
      }),
    );
  });
});

it('cannot be read after buildHints', () => {
  const given = locations([peer(1n, 0), peer(2n, 9)]);
  given.close();
  const text = 'copyLocations may be read only while buildHints runs; take what you need from it there';
  expect(() => given.owners).toThrow(text);
  expect(() => given.localPrefixBlocks).toThrow(text);
  expect(() => given.bestSource(1)).toThrow(text);
});
