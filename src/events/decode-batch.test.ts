import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { BATCHES } from './codec.fixtures.ts';
import { decodeEventBatch, MAX_BATCH_EVENTS } from './decode-batch.ts';
import type { KvEvent } from './types.ts';

const pack = (value: unknown): Uint8Array => encode(value, { useBigInt64: true });
const only = (bytes: Uint8Array): KvEvent => {
  const { events } = decodeEventBatch(bytes);
  expect(events).toHaveLength(1);
  return events[0]!;
};
const message = (bytes: Uint8Array): string => {
  try {
    decodeEventBatch(bytes);
  } catch (error) {
    expect(error).toBeInstanceOf(PointsmanError);
    expect((error as PointsmanError).code).toBe('PM_EVENT_DECODE');
    return (error as PointsmanError).message;
  }
  throw new Error('the bytes were decoded');
};

describe('decodeEventBatch on the engines’ bytes', () => {
  it('has fixtures of the published lengths', () => {
    for (const { bytes, length } of Object.values(BATCHES)) expect(bytes.length).toBe(length);
  });

  it('reads a store in an array batch with map events', () => {
    expect(decodeEventBatch(BATCHES.mapStore.bytes)).toEqual({
      timestamp: 1700000000.5,
      rank: 0,
      events: [
        {
          kind: 'stored',
          external: Uint32Array.of(0x55667788, 0x11223344),
          parent: null,
          tokenIds: Uint32Array.of(1, 2, 3, 4),
          blockSize: 4,
          tier: 'device',
          loraName: null,
          cacheSalt: null,
          sessionId: null,
          scope: { groupIndex: 0, attentionKind: 'full_attention', locality: null, unsupported: null },
        },
      ],
    });
  });

  it('reads a removal and a clear in map events', () => {
    expect(only(BATCHES.mapRemoval.bytes)).toEqual({
      kind: 'removed',
      external: Uint32Array.of(0x55667788, 0x11223344),
      tier: 'device',
      scope: { groupIndex: 0, attentionKind: null, locality: null, unsupported: null },
    });
    expect(decodeEventBatch(BATCHES.mapClear.bytes)).toEqual({
      timestamp: 1700000000.5,
      rank: 0,
      events: [{ kind: 'cleared' }],
    });
  });

  it('reads a store in array events, signed and unsigned hashes giving the same bits', () => {
    expect(decodeEventBatch(BATCHES.arrayStore.bytes)).toEqual({
      timestamp: 1700000000.5,
      rank: 1,
      events: [
        {
          kind: 'stored',
          external: Uint32Array.of(0xfffffffe, 0xffffffff, 0xfffffffe, 0xffffffff),
          parent: { lo: 0x05060708, hi: 0x01020304 },
          tokenIds: Uint32Array.of(1, 2, 300, 70000),
          blockSize: 2,
          tier: 'device',
          loraName: null,
          cacheSalt: null,
          sessionId: null,
        },
      ],
    });
  });

  it('reads a removal in array events from pinned host memory, without a rank', () => {
    expect(decodeEventBatch(BATCHES.arrayRemoval.bytes)).toEqual({
      timestamp: 1700000000.5,
      rank: null,
      events: [{ kind: 'removed', external: Uint32Array.of(0x55667788, 0x11223344), tier: 'host' }],
    });
  });

  it('reads a clear in array events', () => {
    expect(only(BATCHES.arrayClear.bytes)).toEqual({ kind: 'cleared' });
  });

  it('takes the last 8 bytes of a 32-byte digest, so both hash forms of vLLM agree', () => {
    expect(only(BATCHES.digestRemoval.bytes)).toMatchObject({
      external: Uint32Array.of(0x55667788, 0x11223344),
    });
  });

  it('reads a batch that is a map', () => {
    expect(decodeEventBatch(BATCHES.mapBatchClear.bytes)).toEqual({
      timestamp: 1,
      rank: 0,
      events: [{ kind: 'cleared' }],
    });
  });

  it('refuses every truncation and every byte too many', () => {
    for (const { bytes } of Object.values(BATCHES)) {
      for (let length = 0; length < bytes.length; length += 1) message(bytes.subarray(0, length));
      expect(message(Uint8Array.of(...bytes, 0xc0))).toMatch(/bytes follow behind the batch$/);
    }
  });

  it('reads bytes that lie anywhere in a larger buffer', () => {
    const { bytes } = BATCHES.arrayStore;
    const larger = new Uint8Array(bytes.length + 10).fill(0xc1);
    larger.set(bytes, 3);
    expect(decodeEventBatch(larger.subarray(3, 3 + bytes.length))).toEqual(decodeEventBatch(bytes));
  });
});

describe('decodeEventBatch on single fields', () => {
  it('takes a hash of every integer width', () => {
    const values: [Uint8Array, number, number][] = [
      [Uint8Array.of(0x05), 5, 0],
      [Uint8Array.of(0xe0), 0xffffffe0, 0xffffffff],
      [Uint8Array.of(0xcc, 0xfe), 0xfe, 0],
      [Uint8Array.of(0xcd, 0x12, 0x34), 0x1234, 0],
      [Uint8Array.of(0xce, 0x89, 0xab, 0xcd, 0xef), 0x89abcdef, 0],
      [Uint8Array.of(0xcf, 1, 2, 3, 4, 0xff, 6, 7, 8), 0xff060708, 0x01020304],
      [Uint8Array.of(0xd0, 0x80), 0xffffff80, 0xffffffff],
      [Uint8Array.of(0xd1, 0x80, 0), 0xffff8000, 0xffffffff],
      [Uint8Array.of(0xd2, 0x80, 0, 0, 0), 0x80000000, 0xffffffff],
      [Uint8Array.of(0xd3, 0x80, 0, 0, 0, 0, 0, 0, 1), 1, 0x80000000],
      [Uint8Array.of(0xc4, 8, 1, 2, 3, 4, 5, 6, 7, 8), 0x05060708, 0x01020304],
    ];
    const head = BATCHES.arrayRemoval.bytes.subarray(0, 26);
    for (const [hash, lo, hi] of values) {
      expect(only(Uint8Array.of(...head, ...hash, 0xc0, 0xc0, 0xc0))).toEqual({
        kind: 'removed',
        external: Uint32Array.of(lo, hi),
        tier: 'device',
      });
    }
  });

  it('finds the type wherever it stands and takes absent optional keys as nil', () => {
    const event = { token_ids: [1, 2], block_size: 2, type: 'BlockStored', block_hashes: [7] };
    expect(only(pack([1, [event], null]))).toMatchObject({ parent: null, sessionId: null, tier: 'device' });
  });

  it('maps every medium to its tier and an unknown one to device, counted', () => {
    const tiers: Record<string, string> = {
      GPU: 'device',
      DEVICE: 'device',
      CPU: 'host',
      CPU_PINNED: 'host',
      CPU_TIER1: 'host',
      CPU_TIER2: 'disk',
      DISK: 'disk',
      NVME: 'disk',
      STORAGE: 'disk',
      EXTERNAL: 'external',
      NETWORK: 'external',
      REMOTE: 'external',
      SHARED: 'external',
    };
    for (const [medium, tier] of Object.entries(tiers)) {
      expect(only(pack([1, [['BlockRemoved', [1], medium]]]))).toMatchObject({ tier });
    }
    const batch = decodeEventBatch(pack([1, [['BlockRemoved', [1], 'TAPE']]]));
    expect(batch.events[0]).toMatchObject({ tier: 'device' });
    expect(batch.skipped).toEqual({ events: 0, fields: 1 });
  });

  it('reads the late outcome of a hint as an event of its own', () => {
    const event = { type: 'KvHintOutcome', message_id: 'm', action_id: 'a1', outcome: 'missing', blocks: 3 };
    expect(only(pack([1, [event], 0]))).toEqual({
      kind: 'hint-outcome',
      messageId: 'm',
      actionId: 'a1',
      outcome: 'missing',
      reason: null,
      blocks: 3,
    });
  });

  it('skips and counts unknown tags, unknown outcomes, unknown keys and slots, and keeps the rest', () => {
    const batch = decodeEventBatch(
      pack([
        1,
        [
          ['BlockTransferred', [1], { deep: [[[[1n << 40n]]]] }],
          { type: 'Marvel', x: new Uint8Array(300) },
          { type: 'KvHintOutcome', message_id: 'm', action_id: 'a1', outcome: 'exploded' },
          { type: 'BlockRemoved', block_hashes: [1], colour: 'red' },
          { type: 'AllBlocksCleared', medium: 'GPU' },
        ],
        0,
        'a fourth slot',
      ]),
    );
    expect(batch.events.map((event) => event.kind)).toEqual(['removed', 'cleared']);
    expect(batch.skipped).toEqual({ events: 3, fields: 2 });
  });

  it('reads the tail of array events by type', () => {
    const stored = ['BlockStored', [1], null, [1, 2], 2, null, 'GPU', null, null];
    expect(only(pack([1, [[...stored, 3, 'sliding_window', 4096]]]))).toMatchObject({
      scope: { groupIndex: 3, attentionKind: 'sliding_window', unsupported: null },
    });
    expect(only(pack([1, [[...stored, [{ mm_objects: [{ mm_hash: 42, offsets: [] }] }]]]]))).toMatchObject({
      multimodal: [Uint32Array.of(42, 0)],
    });
    expect(only(pack([1, [['BlockRemoved', [1], 'GPU', null, 2]]]))).toMatchObject({
      scope: { groupIndex: 2 },
    });
  });

  it('says when a block’s identity holds more than the router can hash', () => {
    const stored = { type: 'BlockStored', block_hashes: [1], token_ids: [1, 2], block_size: 2 };
    const scopeOf = (extra: object): unknown => {
      const event = only(pack([1, [{ ...stored, ...extra }]]));
      return event.kind === 'stored' ? (event.scope?.unsupported ?? null) : 'not stored';
    };
    expect(scopeOf({ extra_keys: [null] })).toBe(null);
    expect(scopeOf({ extra_keys: [['adapter', 'salt']], lora_name: 'adapter', cache_salt: 'salt' })).toBe(
      null,
    );
    expect(scopeOf({ extra_keys: [[new Uint8Array(32)]] })).toBe('extra_keys');
    expect(scopeOf({ extra_keys: [[7]] })).toBe('extra_keys');
    expect(scopeOf({ extra_keys: [['adapter', 'salt', 'what?']], lora_name: 'adapter' })).toBe('extra_keys');
    expect(scopeOf({ block_mm_infos: [null] })).toBe(null);
  });

  it('takes cache salt and session from the map SGLang puts in the place of the LoRA name', () => {
    const event = (metadata: object) => ['BlockStored', [1], null, [1, 2], 2, null, 'GPU', metadata];
    const salted = only(pack([1, [event({ cache_salt: 's', other: 1 })]]));
    expect(salted).toMatchObject({ loraName: null, cacheSalt: 's', sessionId: null });
    const labelled = only(pack([1, [event({ session_id: 'a', cache_salt: null })]]));
    expect(labelled).toMatchObject({ loraName: null, cacheSalt: null, sessionId: 'a' });
  });
});

describe('decodeEventBatch on bad input', () => {
  it('says what is wrong and at which byte', () => {
    expect(message(Uint8Array.of())).toBe('KV event batch, byte 0: the bytes end where a value must follow');
    expect(message(pack('x'))).toBe('KV event batch, byte 0: the batch must be an array');
    expect(message(pack([1]))).toBe('KV event batch, byte 0: the batch must hold a timestamp and events');
    expect(message(pack([1, [{}]]))).toBe('KV event batch, byte 3: an event must have a type');
    expect(message(pack([1, [['BlockStored', [1]]]]))).toBe(
      'KV event batch, byte 3: BlockStored must have block_hashes, token_ids and block_size',
    );
    expect(message(pack([1, [['BlockRemoved', [1.5]]]]))).toBe(
      'KV event batch, byte 18: a block hash must be an integer',
    );
    expect(message(pack([1, [['BlockStored', [1], null, [-1], 1]]]))).toMatch(
      /a token id must be an integer from 0 to 4294967295$/,
    );
    expect(message(pack([1, [['BlockStored', [1], null, [1], 0]]]))).toMatch(
      /block_size must be at least 1$/,
    );
    expect(message(Uint8Array.of(0x92, 1, 0x91, 0xc1))).toMatch(/an event must be an array$/);
  });

  it('refuses counts beyond the bytes, too many events, deep nesting and long strings', () => {
    const claims = (...header: number[]): string => message(Uint8Array.of(0x92, 0x01, ...header));
    expect(claims(0xdd, 0xff, 0xff, 0xff, 0xff)).toMatch(/events claims 4294967295 elements/);
    const many = new Uint8Array(7 + MAX_BATCH_EVENTS + 1).fill(0xc0);
    many.set([0x92, 0x01, 0xdd, 0x00, 0x01, 0x00, 0x01]);
    expect(message(many)).toMatch(/a batch holds at most 65536 events, this one claims 65537$/);
    const deep = new Uint8Array(100_000).fill(0x91);
    expect(message(Uint8Array.of(0x92, 0x01, 0x91, 0x92, 0xa1, 0x78, ...deep))).toMatch(
      /values are nested deeper than 8 levels$/,
    );
    expect(
      message(pack([1, [{ type: 'BlockRemoved', block_hashes: [], medium: 'x'.repeat(4097) }]])),
    ).toMatch(/medium is longer than 4096 bytes$/);
  });

  it('answers random and mutated bytes with a batch or a typed error', () => {
    const attempt = (bytes: Uint8Array): void => {
      try {
        decodeEventBatch(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(PointsmanError);
      }
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), attempt), { numRuns: 3000 });
    const valid = fc.constantFrom(...Object.values(BATCHES).map(({ bytes }) => bytes));
    const change = fc.tuple(fc.nat(200), fc.nat(255));
    fc.assert(
      fc.property(valid, fc.array(change, { minLength: 1, maxLength: 6 }), (bytes, changes) => {
        const mutated = Uint8Array.from(bytes);
        for (const [at, value] of changes) mutated[at % mutated.length] = value;
        attempt(mutated);
      }),
      { numRuns: 5000 },
    );
  });
});
