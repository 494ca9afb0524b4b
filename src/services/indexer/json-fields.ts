// Fields of JSON values, read with errors that name them. 64-bit integers come as numbers or bigints and leave as bigints.
import { PointsmanError } from '../../plugin/index.ts';

const MAX_U64 = 0xffffffffffffffffn;
const MIN_I64 = -(1n << 63n);
const MAX_NAME = 512;

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** A request whose field is wrong. */
export function badField(field: string, expected: string): PointsmanError {
  return new PointsmanError('PM_INDEXER_REQUEST', `${field} must be ${expected}`, { details: { field } });
}

/** The value as an object. @throws PM_INDEXER_REQUEST, as all of these */
export function objectOf(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badField(name, 'a JSON object');
  return Object.fromEntries(Object.entries(value));
}

/** An id or hash of 64 bits. */
export function u64Of(value: unknown, name: string): bigint {
  const found = integerOf(value);
  if (found === null || found < 0n || found > MAX_U64) throw badField(name, 'an integer from 0 to 2^64 - 1');
  return found;
}

/** A hash as clients send it: signed, or unsigned for those that can. The result is unsigned. */
export function hashOf(value: unknown, name: string): bigint {
  const found = integerOf(value);
  if (found === null || found < MIN_I64 || found > MAX_U64) throw badField(name, 'an integer of 64 bits');
  return BigInt.asUintN(64, found);
}

/** A whole number in a range; `fallback` where it is absent. */
export function wholeOf(value: unknown, name: string, min: number, max: number, fallback?: number): number {
  if (value === undefined && fallback !== undefined) return fallback;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw badField(name, `a whole number from ${min} to ${max}`);
}

/** A text that is not empty and not long. */
export function nameOf(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= MAX_NAME) return value;
  throw badField(name, `a text of 1 to ${MAX_NAME} characters`);
}

/** As {@link nameOf}; null where it is absent or null. */
export function optionalNameOf(value: unknown, name: string): string | null {
  return value === undefined || value === null ? null : nameOf(value, name);
}

/** A yes or no; no where it is absent. */
export function flagOf(value: unknown, name: string): boolean {
  if (value === undefined) return false;
  if (typeof value === 'boolean') return value;
  throw badField(name, 'true or false');
}

/** Seconds of some clock; null where it is absent or null. */
export function optionalTimeOf(value: unknown, name: string): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw badField(name, 'a number of seconds');
}

/** A list. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw badField(name, 'a list');
}

function integerOf(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : null;
}
