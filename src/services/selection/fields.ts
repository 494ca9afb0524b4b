// Fields of the selection service's requests. Null counts as absent, as for clients of the Rust service.
import { fieldReaders } from '../json-fields.ts';

export const { badField, decimalOf, flagOf, hashOf, listOf, nameOf, objectOf, u64Of, wholeOf } =
  fieldReaders('PM_SELECTOR_REQUEST');

export const MAX_U32 = 0xffffffff;

/** Reads a field unless it is absent or null. */
export function given<T>(value: unknown, name: string, read: (value: unknown, name: string) => T): T | null {
  return value === undefined || value === null ? null : read(value, name);
}

/** A text of at most `most` characters, which may be empty. */
export function textOf(value: unknown, name: string, most: number): string {
  if (typeof value === 'string' && value.length <= most) return value;
  throw badField(name, `a text of at most ${most} characters`);
}

/** A list of at most `most` entries, each read by itself. */
export function entriesOf<T>(
  value: unknown,
  name: string,
  most: number,
  read: (entry: unknown, name: string) => T,
): readonly T[] {
  const list = listOf(value, name);
  if (list.length > most) throw badField(name, `a list of at most ${most} entries`);
  return list.map((entry, index) => read(entry, `${name}[${index}]`));
}

/** An object's members as a map, at most `most` of them. */
export function membersOf<T>(
  value: unknown,
  name: string,
  most: number,
  read: (entry: unknown, name: string) => T,
): ReadonlyMap<string, T> {
  const members = Object.entries(objectOf(value, name));
  if (members.length > most) throw badField(name, `an object of at most ${most} members`);
  return new Map(members.map(([key, entry]) => [key, read(entry, `${name}.${key.slice(0, 64)}`)]));
}
