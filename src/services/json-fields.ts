// Fields of JSON values, read with errors that name them. 64-bit integers come as numbers or bigints and leave as bigints.
import { type ErrorCode, PointsmanError } from '../plugin/index.ts';

const MAX_U64 = 0xffffffffffffffffn;
const MIN_I64 = -(1n << 63n);
const MAX_NAME = 512;

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Readers of fields; each throws the door's own error for a value that is not as it says. */
export interface FieldReaders {
  /** A request whose field is wrong. */
  badField(field: string, expected: string): PointsmanError;
  /** The value as an object. */
  objectOf(value: unknown, name: string): Fields;
  /** An id or hash of 64 bits. */
  u64Of(value: unknown, name: string): bigint;
  /** A hash as clients send it: signed, or unsigned for those that can. The result is unsigned. */
  hashOf(value: unknown, name: string): bigint;
  /** A whole number in a range; `fallback` where it is absent. */
  wholeOf(value: unknown, name: string, min: number, max: number, fallback?: number): number;
  /** A finite number in a range. */
  decimalOf(value: unknown, name: string, min: number, max: number): number;
  /** A text that is not empty and not long. */
  nameOf(value: unknown, name: string): string;
  /** As `nameOf`; null where it is absent or null. */
  optionalNameOf(value: unknown, name: string): string | null;
  /** A yes or no; no where it is absent. */
  flagOf(value: unknown, name: string): boolean;
  /** Seconds of some clock; null where it is absent or null. */
  optionalTimeOf(value: unknown, name: string): number | null;
  /** A list. */
  listOf(value: unknown, name: string): readonly unknown[];
}

/** Readers that throw errors of a code. */
export function fieldReaders(code: ErrorCode): FieldReaders {
  const badField = (field: string, expected: string): PointsmanError =>
    new PointsmanError(code, `${field} must be ${expected}`, { details: { field } });
  const nameOf = (value: unknown, name: string): string => {
    if (typeof value === 'string' && value !== '' && value.length <= MAX_NAME) return value;
    throw badField(name, `a text of 1 to ${MAX_NAME} characters`);
  };
  return {
    badField,
    objectOf(value, name) {
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw badField(name, 'a JSON object');
      return Object.fromEntries(Object.entries(value));
    },
    u64Of(value, name) {
      const found = integerOf(value);
      if (found !== null && found >= 0n && found <= MAX_U64) return found;
      throw badField(name, 'an integer from 0 to 2^64 - 1');
    },
    hashOf(value, name) {
      const found = integerOf(value);
      if (found === null || found < MIN_I64 || found > MAX_U64) throw badField(name, 'an integer of 64 bits');
      return BigInt.asUintN(64, found);
    },
    wholeOf(value, name, min, max, fallback) {
      if (value === undefined && fallback !== undefined) return fallback;
      if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max)
        return value;
      throw badField(name, `a whole number from ${min} to ${max}`);
    },
    decimalOf(value, name, min, max) {
      if (typeof value === 'number' && Number.isFinite(value) && value >= min && value <= max) return value;
      throw badField(name, `a number from ${min} to ${max}`);
    },
    nameOf,
    optionalNameOf: (value, name) => (value === undefined || value === null ? null : nameOf(value, name)),
    flagOf(value, name) {
      if (value === undefined) return false;
      if (typeof value === 'boolean') return value;
      throw badField(name, 'true or false');
    },
    optionalTimeOf(value, name) {
      if (value === undefined || value === null) return null;
      if (typeof value === 'number' && Number.isFinite(value)) return value;
      throw badField(name, 'a number of seconds');
    },
    listOf(value, name) {
      if (Array.isArray(value)) return value;
      throw badField(name, 'a list');
    },
  };
}

function integerOf(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : null;
}
