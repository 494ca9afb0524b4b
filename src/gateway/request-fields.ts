// Reading fields of a client's JSON body: unknown until checked, and every complaint names the field and what would be right.
import { PointsmanError } from '../plugin/index.ts';

/** A JSON object, members unknown. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object (no list, not null). */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The 400 for one field; `param` is its path. */
export function invalidField(param: string, problem: string): PointsmanError {
  return new PointsmanError('PM_REQUEST_INVALID', `${param} ${problem}`, { details: { param } });
}

/** An optional boolean; null counts as absent. */
export function booleanField(body: JsonObject, name: string, path = name): boolean | null {
  const value = body[name] ?? null;
  if (value === null || typeof value === 'boolean') return value;
  throw invalidField(path, 'must be true or false');
}

/** An optional integer within bounds; null counts as absent. */
export function integerField(
  body: JsonObject,
  name: string,
  min: number,
  max: number,
  path = name,
): number | null {
  const value = body[name] ?? null;
  if (value === null) return null;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalidField(path, `must be an integer from ${min} to ${max}`);
}

/** An optional object; null counts as absent. */
export function objectField(body: JsonObject, name: string, path = name): JsonObject | null {
  const value = body[name] ?? null;
  if (value === null || isObject(value)) return value;
  throw invalidField(path, 'must be an object');
}

/** An optional text of 1 to `max` characters; null counts as absent. */
export function textField(body: JsonObject, name: string, max: number, path = name): string | null {
  const value = body[name] ?? null;
  if (value === null) return null;
  if (typeof value === 'string' && value !== '' && value.length <= max) return value;
  throw invalidField(path, `must be a text of 1 to ${max} characters`);
}

/** A u64 as JSON integer: exact, because long integers are read as bigint. */
export function u64(value: unknown, path: string): bigint {
  const exact = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof exact === 'bigint' && exact >= 0n && exact <= 0xffffffffffffffffn) return exact;
  throw invalidField(path, 'must be an integer from 0 to 18446744073709551615');
}
