// Messages of the control channel for `kv.fetch` (docs/simulated-engine.md): one msgpack map each. Everything received is
// checked here; nothing else of a message is trusted or kept.
import { decode, encode } from '@msgpack/msgpack';
import { PointsmanError } from '../../plugin/index.ts';

/** Most block hashes in one reservation. */
export const MAX_RESERVE_HASHES = 4096;

/** Largest message, bytes: 4,096 hashes of 9 bytes with much room. */
export const MAX_CONTROL_BYTES = 256 * 1024;

const MAX_EPOCH = 256;
const MAX_HANDOFF_KEY = 1024 + 16;
const U32 = 0xffffffff;
const U64 = (1n << 64n) - 1n;

/** Target to source. `epoch` is the source's, empty when the target has not heard it yet. */
export type ControlRequest =
  | {
      readonly op: 'reserve';
      readonly id: bigint;
      readonly epoch: string;
      /** Blocks [from, …) are wanted. */
      readonly from: number;
      /** Root-aligned. */
      readonly blockHashes: BigUint64Array;
      readonly deadlineMs: number;
    }
  | {
      readonly op: 'claim';
      readonly id: bigint;
      /** Key of the handoff. */
      readonly handoff: string;
      /** Which run of the source is meant; empty = any. */
      readonly engineId: string;
      /** Blocks before it are not needed. */
      readonly from: number;
      /** Whether to wait for a handoff that is not known. */
      readonly early: boolean;
      readonly deadlineMs: number;
    }
  /** Nobody will claim the handoff. */
  | { readonly op: 'drop'; readonly id: bigint; readonly handoff: string }
  | { readonly op: 'done'; readonly id: bigint }
  | { readonly op: 'cancel'; readonly id: bigint }
  /** Decodes, but asks for nothing that can be done; answered with an error. */
  | {
      readonly op: 'invalid';
      readonly id: bigint;
      readonly code: 'unknown_op' | 'malformed' | 'too_many';
    };

/** Source to target. `epoch` is the source's own; `gbps` the share of its link at this moment. */
export type ControlReply =
  | {
      readonly op: 'reserved';
      readonly id: bigint;
      /** Exclusive end of the blocks held, pinned until done, cancel or deadline. */
      readonly held: number;
      readonly bytes: bigint;
      readonly gbps: number;
      readonly epoch: string;
      /** Of a claim: tokens that were cached where the prompt was computed; absent = not told. */
      readonly cached?: number;
    }
  | { readonly op: 'error'; readonly id: bigint; readonly code: string; readonly epoch: string }
  | { readonly op: 'rate'; readonly id: bigint; readonly gbps: number };

/** Bytes of a reservation. */
export function encodeReserve(request: {
  readonly id: number;
  readonly epoch: string;
  readonly from: number;
  readonly blockHashes: BigUint64Array;
  readonly deadlineMs: number;
}): Uint8Array {
  const { id, epoch, from, blockHashes, deadlineMs } = request;
  return pack({
    op: 'reserve',
    id,
    epoch,
    from,
    block_hashes: Array.from(blockHashes),
    deadline_ms: Math.min(U32, Math.ceil(deadlineMs)),
  });
}

/** Bytes of a claim to a computed prompt. */
export function encodeClaim(claim: {
  readonly id: number;
  readonly handoff: string;
  readonly engineId: string | null;
  readonly from: number;
  readonly early: boolean;
  readonly deadlineMs: number;
}): Uint8Array {
  const { deadlineMs, early, engineId, from, handoff, id } = claim;
  const deadline = Math.min(U32, Math.ceil(deadlineMs));
  return pack({ op: 'claim', id, handoff, engine_id: engineId ?? '', from, early, deadline_ms: deadline });
}

/** Bytes that tell that nobody will claim a handoff. */
export function encodeDrop(handoff: string): Uint8Array {
  return pack({ op: 'drop', id: 0, handoff });
}

/** Bytes that end a reservation or a claim. */
export function encodeRelease(op: 'done' | 'cancel', id: number): Uint8Array {
  return pack({ op, id });
}

/** Bytes of a source's answer. */
export function encodeReply(reply: ControlReply): Uint8Array {
  return pack(reply);
}

/**
 * Reads what a target sent.
 * @throws PointsmanError PM_SIM_CONTROL when it is no msgpack map with an id, so that nothing can be answered.
 */
export function decodeControlRequest(bytes: Uint8Array): ControlRequest {
  const map = unpack(bytes);
  const id = u64(map.id);
  if (id === null) throw malformed('id must be an unsigned 64-bit integer');
  const { op } = map;
  if (op === 'done' || op === 'cancel') return { op, id };
  if (op === 'claim' || op === 'drop') return handoffRequest(op, id, map);
  if (op !== 'reserve') return { op: 'invalid', id, code: 'unknown_op' };
  const from = u32(map.from);
  const deadlineMs = u32(map.deadline_ms);
  const { epoch, block_hashes: list } = map;
  if (from === null || deadlineMs === null || !isText(epoch, MAX_EPOCH) || !Array.isArray(list)) {
    return { op: 'invalid', id, code: 'malformed' };
  }
  if (list.length > MAX_RESERVE_HASHES) return { op: 'invalid', id, code: 'too_many' };
  const blockHashes = new BigUint64Array(list.length);
  for (const [index, entry] of list.entries()) {
    const hash = u64(entry);
    if (hash === null) return { op: 'invalid', id, code: 'malformed' };
    blockHashes[index] = hash;
  }
  return { op, id, epoch, from, blockHashes, deadlineMs };
}

function handoffRequest(
  op: 'claim' | 'drop',
  id: bigint,
  map: Readonly<Record<string, unknown>>,
): ControlRequest {
  const { early, engine_id: engineId, handoff } = map;
  if (!isText(handoff, MAX_HANDOFF_KEY)) return { op: 'invalid', id, code: 'malformed' };
  if (op === 'drop') return { op, id, handoff };
  const from = u32(map.from);
  const deadlineMs = u32(map.deadline_ms);
  if (from === null || deadlineMs === null || !isText(engineId, MAX_EPOCH) || typeof early !== 'boolean') {
    return { op: 'invalid', id, code: 'malformed' };
  }
  return { op, id, handoff, engineId, from, early, deadlineMs };
}

/**
 * Reads what a source sent.
 * @throws PointsmanError PM_SIM_CONTROL when it is no known, complete reply.
 */
export function decodeControlReply(bytes: Uint8Array): ControlReply {
  const map = unpack(bytes);
  const id = u64(map.id);
  if (id === null) throw malformed('id must be an unsigned 64-bit integer');
  const epoch = isText(map.epoch, MAX_EPOCH) ? map.epoch : '';
  switch (map.op) {
    case 'reserved': {
      const held = u32(map.held);
      const bytesHeld = u64(map.bytes);
      if (held === null || bytesHeld === null) throw malformed('reserved must have held and bytes');
      // A source that does not share its link leaves gbps out.
      const rate = map.gbps === undefined ? Number.POSITIVE_INFINITY : gbps(map.gbps);
      const cached = u32(map.cached);
      return {
        ...{ op: 'reserved', id, held, bytes: bytesHeld, gbps: rate, epoch },
        ...(cached === null ? null : { cached }),
      };
    }
    case 'error':
      if (!isText(map.code, 64)) throw malformed('error must have a code');
      return { op: 'error', id, code: map.code, epoch };
    case 'rate':
      return { op: 'rate', id, gbps: gbps(map.gbps) };
    default:
      throw malformed('op must be reserved, error or rate');
  }
}

function pack(value: object): Uint8Array {
  return encode(value, { useBigInt64: true });
}

function unpack(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  if (bytes.length > MAX_CONTROL_BYTES) throw malformed(`it is longer than ${MAX_CONTROL_BYTES} bytes`);
  let value: unknown;
  try {
    value = decode(bytes, {
      useBigInt64: true,
      maxStrLength: 2048,
      maxBinLength: 1024,
      maxExtLength: 0,
      maxMapLength: 64,
      maxArrayLength: 65_536,
    });
  } catch (cause) {
    throw malformed('it is not msgpack', cause);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed('it must be a map');
  return { ...value };
}

function u32(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= U32 ? value : null;
}

function u64(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value >= 0n && value <= U64 ? value : null;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : null;
}

function gbps(value: unknown): number {
  const rate = typeof value === 'bigint' ? Number(value) : value;
  if (typeof rate !== 'number' || !(rate >= 0)) throw malformed('gbps must be a number from 0');
  return rate;
}

function isText(value: unknown, longest: number): value is string {
  return typeof value === 'string' && value.length <= longest;
}

function malformed(problem: string, cause?: unknown): PointsmanError {
  return new PointsmanError('PM_SIM_CONTROL', `a control message is malformed: ${problem}`, { cause });
}
