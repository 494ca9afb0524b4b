// Takes a payload out of a policy's hands: checks that it is JSON plus exact integers and copies it, so that nothing the policy does
// later changes what is sent.
import type { HintJson } from '../plugin/index.ts';
import { type KeepHashes, keepTogether } from './kept-hashes.ts';

/** A payload may nest this deep, itself included. */
export const MAX_PAYLOAD_DEPTH = 16;

/** A payload may have this many bytes as JSON, counted as the most its numbers can need. */
export const MAX_PAYLOAD_BYTES = 1024 * 1024;

/** All payloads of an envelope together, counted the same way: engines refuse bodies that are too large, and the request with them. */
export const MAX_ENVELOPE_BYTES = 4 * MAX_PAYLOAD_BYTES;

const U64_MAX = 2n ** 64n - 1n;
const I64_MIN = -(2n ** 63n);
/** Digits of the largest u64 and a comma. */
const BYTES_PER_U64 = 21;
/** The longest a double gets as JSON, and a comma. */
const BYTES_PER_NUMBER = 26;

const BYTE_LENGTH = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(BigUint64Array.prototype),
  'byteLength',
)?.get;

/** A JSON object as hints carry it. */
export type HintPayload = { readonly [key: string]: HintJson };

/** Thrown inside a copy; what was wrong stands in the message and goes no further than the log. */
export class PayloadFault extends Error {}

/** What a copy has cost so far, and where its hash lists go. */
export interface PayloadBudget {
  bytes: number;
  readonly keep: KeepHashes;
}

/**
 * A frozen deep copy of a payload.
 * @param budget fresh; holds the payload's bytes afterwards.
 * @throws PayloadFault when it is not one.
 */
export function copyPayload(
  payload: unknown,
  budget: PayloadBudget = { bytes: 0, keep: keepTogether },
): HintPayload {
  if (!isPlainObject(payload)) throw new PayloadFault('the payload is not an object');
  return copyObject(payload, 1, budget);
}

function spend(budget: PayloadBudget, bytes: number): void {
  budget.bytes += bytes;
  if (budget.bytes > MAX_PAYLOAD_BYTES) {
    throw new PayloadFault(`the payload is larger than ${MAX_PAYLOAD_BYTES} bytes`);
  }
}

function copyValue(value: unknown, depth: number, budget: PayloadBudget): HintJson {
  switch (typeof value) {
    case 'string':
      spend(budget, Buffer.byteLength(value) + 3);
      return value;
    case 'boolean':
      spend(budget, 6);
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new PayloadFault(`${value} is not a JSON number`);
      spend(budget, BYTES_PER_NUMBER);
      return value;
    case 'bigint':
      if (value > U64_MAX || value < I64_MIN) throw new PayloadFault('an integer does not fit 64 bits');
      spend(budget, BYTES_PER_U64);
      return value;
    case 'object':
      return copyReference(value, depth, budget);
    default:
      throw new PayloadFault(`a ${typeof value} is not JSON`);
  }
}

function copyReference(value: object | null, depth: number, budget: PayloadBudget): HintJson {
  if (value === null) {
    spend(budget, 5);
    return value;
  }
  if (value instanceof BigUint64Array) {
    // Before the copy, and by the bytes there really are: a subclass may say anything of its length.
    const count = byteLengthOf(value) / 8;
    spend(budget, count * BYTES_PER_U64 + 3);
    return budget.keep(value, count);
  }
  if (depth >= MAX_PAYLOAD_DEPTH)
    throw new PayloadFault(`the payload nests deeper than ${MAX_PAYLOAD_DEPTH}`);
  if (Array.isArray(value)) return copyList(value, depth + 1, budget);
  if (isPlainObject(value)) return copyObject(value, depth + 1, budget);
  throw new PayloadFault('an object of a class is not JSON');
}

/** Bytes of a typed array; throws for an object that only poses as one. */
function byteLengthOf(array: BigUint64Array): number {
  return Number(BYTE_LENGTH?.call(array));
}

function copyList(list: readonly unknown[], depth: number, budget: PayloadBudget): readonly HintJson[] {
  // Each entry needs two bytes at least: a sparse list of a billion entries must not be walked.
  spend(budget, list.length * 2 + 2);
  const copy: HintJson[] = [];
  for (let at = 0; at < list.length; at += 1) copy.push(copyValue(list[at], depth, budget));
  return Object.freeze(copy);
}

function copyObject(
  source: Readonly<Record<string, unknown>>,
  depth: number,
  budget: PayloadBudget,
): { readonly [key: string]: HintJson } {
  const copy: { [key: string]: HintJson } = {};
  for (const key of Object.keys(source)) {
    spend(budget, Buffer.byteLength(key) + 4);
    const value = copyValue(source[key], depth, budget);
    // Set, this one would not become an own member.
    if (key === '__proto__') Object.defineProperty(copy, key, { value, enumerable: true });
    else copy[key] = value;
  }
  return Object.freeze(copy);
}

/** Plain objects of any realm: what JSON.parse and object literals make. */
function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return (
    prototype === Object.prototype ||
    prototype === null ||
    (typeof prototype === 'object' && Object.getPrototypeOf(prototype ?? {}) === null)
  );
}
