import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import {
  type ControlReply,
  decodeControlReply,
  decodeControlRequest,
  encodeRelease,
  encodeReply,
  encodeReserve,
  MAX_CONTROL_BYTES,
  MAX_RESERVE_HASHES,
} from './control-messages.ts';

const pack = (value: unknown): Uint8Array => encode(value, { useBigInt64: true });
const u32 = fc.integer({ min: 0, max: 0xffffffff });
const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
const reserve = {
  op: 'reserve',
  id: 7,
  epoch: 'e',
  from: 1,
  block_hashes: [5, 1n << 63n],
  deadline_ms: 100,
};

describe('control messages', () => {
  it('are maps with the documented keys', () => {
    const blockHashes = BigUint64Array.of(5n, 1n << 63n);
    const bytes = encodeReserve({ id: 7, epoch: 'e', from: 1, blockHashes, deadlineMs: 99.5 });
    expect(decode(bytes, { useBigInt64: true })).toEqual({ ...reserve, block_hashes: [5n, 1n << 63n] });
    expect(decode(encodeRelease('done', 7))).toEqual({ op: 'done', id: 7 });
  });

  it('bring reservations of any hashes back', () => {
    const requests = fc.record({
      id: fc.nat(Number.MAX_SAFE_INTEGER),
      epoch: fc.string({ maxLength: 20 }),
      from: u32,
      blockHashes: fc.array(u64, { maxLength: 50 }).map((list) => BigUint64Array.from(list)),
      deadlineMs: u32,
    });
    fc.assert(
      fc.property(requests, (request) => {
        expect(decodeControlRequest(encodeReserve(request))).toEqual({
          op: 'reserve',
          ...request,
          id: BigInt(request.id),
        });
      }),
    );
  });

  it('bring replies back', () => {
    const gbps = fc.double({ min: 0, max: 1e6, noNaN: true }).map((value) => value + 0);
    const epoch = fc.string({ maxLength: 20 });
    const replies: fc.Arbitrary<ControlReply> = fc.oneof(
      fc.record({ op: fc.constant('reserved' as const), id: u64, held: u32, bytes: u64, gbps, epoch }),
      fc.record({ op: fc.constant('error' as const), id: u64, code: fc.string({ maxLength: 20 }), epoch }),
      fc.record({ op: fc.constant('rate' as const), id: u64, gbps }),
    );
    fc.assert(
      fc.property(replies, (reply) => {
        expect(decodeControlReply(encodeReply(reply))).toEqual(reply);
      }),
    );
  });

  it('take a reply without link share and epoch, as the protocol allows', () => {
    expect(decodeControlReply(pack({ op: 'reserved', id: 1, held: 3, bytes: 10 }))).toEqual({
      op: 'reserved',
      id: 1n,
      held: 3,
      bytes: 10n,
      gbps: Number.POSITIVE_INFINITY,
      epoch: '',
    });
  });

  it('that ask for nothing possible are told apart', () => {
    const read = (change: object): unknown => decodeControlRequest(pack({ ...reserve, ...change }));
    const invalid = (code: string) => ({ op: 'invalid', id: 7n, code });
    expect(read({ op: 'explode' })).toEqual(invalid('unknown_op'));
    expect(read({ op: null })).toEqual(invalid('unknown_op'));
    expect(read({ from: -1 })).toEqual(invalid('malformed'));
    expect(read({ deadline_ms: 1n << 40n })).toEqual(invalid('malformed'));
    expect(read({ epoch: 5 })).toEqual(invalid('malformed'));
    expect(read({ block_hashes: [1, -1] })).toEqual(invalid('malformed'));
    expect(read({ block_hashes: [1.5] })).toEqual(invalid('malformed'));
    expect(read({ block_hashes: Array.from({ length: MAX_RESERVE_HASHES }, () => 1) })).toMatchObject({
      op: 'reserve',
    });
    expect(read({ block_hashes: Array.from({ length: MAX_RESERVE_HASHES + 1 }, () => 1) })).toEqual(
      invalid('too_many'),
    );
    expect(read({ op: 'cancel' })).toEqual({ op: 'cancel', id: 7n });
  });

  it('that cannot be answered are refused in a sentence', () => {
    const sentence = (bytes: Uint8Array): string => {
      try {
        decodeControlRequest(bytes);
      } catch (error) {
        if (error instanceof PointsmanError) return `${error.code} ${error.message}`;
      }
      return 'no PointsmanError';
    };
    const start = 'PM_SIM_CONTROL a control message is malformed:';
    expect(sentence(Uint8Array.of(0xc1))).toBe(`${start} it is not msgpack`);
    expect(sentence(new Uint8Array(0))).toBe(`${start} it is not msgpack`);
    expect(sentence(pack([1]))).toBe(`${start} it must be a map`);
    expect(sentence(pack({ op: 'done' }))).toBe(`${start} id must be an unsigned 64-bit integer`);
    expect(sentence(pack({ op: 'done', id: -1 }))).toBe(`${start} id must be an unsigned 64-bit integer`);
    expect(sentence(new Uint8Array(MAX_CONTROL_BYTES + 1))).toBe(`${start} it is longer than 262144 bytes`);
    expect(sentence(new Uint8Array(100_000).fill(0x91))).toBe(`${start} it is not msgpack`);
  });

  it('of random and mutated bytes are read or refused, never anything else', () => {
    const attempt = (bytes: Uint8Array): void => {
      for (const read of [decodeControlRequest, decodeControlReply]) {
        try {
          read(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(PointsmanError);
        }
      }
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), attempt), { numRuns: 1000 });
    const valid = fc.constantFrom(
      pack(reserve),
      encodeRelease('cancel', 1),
      encodeReply({ op: 'reserved', id: 1n, held: 1, bytes: 1n, gbps: 1, epoch: '' }),
    );
    fc.assert(
      fc.property(valid, fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 5 }), (bytes, changes) => {
        const mutated = Uint8Array.from(bytes);
        for (const [at, value] of changes) mutated[at % mutated.length] = value;
        attempt(mutated);
      }),
      { numRuns: 2000 },
    );
    for (let length = 0; length < 60; length += 1) attempt(pack(reserve).subarray(0, length));
  });
});
