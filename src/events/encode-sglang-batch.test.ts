import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { recordedBatches } from '../../tests/support/engine-batches.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { encodeSglangBatch } from './encode-sglang-batch.ts';
import { MsgpackWriter } from './msgpack-writer.ts';
import type { BlockStoredEvent } from './types.ts';

describe('encodeSglangBatch', () => {
  it("writes the bytes of SGLang's own classes and encoder", () => {
    const batches = recordedBatches('sglang');
    expect(batches.length).toBeGreaterThan(5);
    for (const bytes of batches) {
      expect(Buffer.from(encodeSglangBatch(decodeEventBatch(bytes))).toString('hex')).toBe(
        Buffer.from(bytes).toString('hex'),
      );
    }
  });

  it('writes one store for each page, chained, and the salt where there is one', () => {
    const stored: BlockStoredEvent = {
      kind: 'stored',
      external: Uint32Array.of(1, 0, 2, 0x80000000),
      parent: { lo: 9, hi: 0 },
      tokenIds: Uint32Array.of(5, 6, 7, 8),
      blockSize: 2,
      tier: 'host',
      loraName: null,
      cacheSalt: 'salt',
      sessionId: 's',
    };
    const read = decodeEventBatch(encodeSglangBatch({ timestamp: 1, rank: 2, events: [stored] }));
    const page = { ...stored, sessionId: null };
    expect(read).toEqual({
      timestamp: 1,
      rank: 2,
      events: [
        { ...page, external: Uint32Array.of(1, 0), tokenIds: Uint32Array.of(5, 6) },
        {
          ...page,
          external: Uint32Array.of(2, 0x80000000),
          parent: { lo: 1, hi: 0 },
          tokenIds: Uint32Array.of(7, 8),
        },
      ],
    });
  });

  it('refuses what it does not play', () => {
    const event = decodeEventBatch(recordedBatches('sglang')[1] ?? new Uint8Array()).events[0];
    if (event?.kind !== 'stored') throw new Error('no store');
    expect(() =>
      encodeSglangBatch({ timestamp: 0, rank: null, events: [{ ...event, loraName: 'a' }] }),
    ).toThrow('SGLang events are written without images, adapters and bigrams');
  });
});

it('writes every 64-bit number in the narrowest signed form, and it is read as the same bits', () => {
  const written = (value: bigint) => {
    const writer = new MsgpackWriter(16);
    const bits = BigInt.asUintN(64, value);
    writer.signed64(Number(bits & 0xffffffffn), Number(bits >> 32n));
    return Buffer.from(writer.take()).toString('hex');
  };
  expect([-1n, -32n, -33n, -128n, -129n, -32768n, -32769n, -2147483648n, -2147483649n].map(written)).toEqual([
    'ff',
    'e0',
    'd0df',
    'd080',
    'd1ff7f',
    'd18000',
    'd2ffff7fff',
    'd280000000',
    'd3ffffffff7fffffff',
  ]);
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      const bytes = encodeSglangBatch({
        timestamp: 0,
        rank: null,
        events: [
          {
            kind: 'removed',
            external: new Uint32Array(BigUint64Array.of(BigInt.asUintN(64, value)).buffer),
            tier: 'device',
          },
        ],
      });
      const [event] = decodeEventBatch(bytes).events;
      if (event?.kind !== 'removed') throw new Error('no removal');
      const [lo = 0, hi = 0] = event.external;
      expect(BigInt.asIntN(64, (BigInt(hi) << 32n) | BigInt(lo))).toBe(value);
    }),
  );
});
