// Writes JSON in which 64-bit integers keep every digit: JSON.stringify refuses bigint and would need numbers that round.
// The reader that matches it is parseExactJson of the config room.

/** Nesting beyond this is refused; records, hints and configurations stay far below it. */
const MAX_DEPTH = 256;

/**
 * JSON text of a value, as `JSON.stringify` writes it, except that `bigint` becomes a bare integer and a typed array
 * (`BigUint64Array`, `Uint32Array`, …) a list of bare numbers.
 * @param value anything JSON can hold; `undefined` members are left out, `undefined` itself gives `null`
 * @param indent spaces per level, 0–10; default 0 writes one line
 * @throws RangeError when the value nests deeper than 256 levels or contains itself
 */
export function exactJsonStringify(value: unknown, indent = 0): string {
  // A body of a megabyte is written several times as fast by the engine, and most hold nothing that it cannot write.
  if (indent <= 0 && isPlain(value, 0)) return JSON.stringify(value);
  return write(value, indent > 0 ? ' '.repeat(Math.min(indent, 10)) : '', '\n', 0) ?? 'null';
}

/** The text of one value, or undefined for what JSON leaves out (undefined, functions, symbols). */
function write(value: unknown, step: string, newline: string, depth: number): string | undefined {
  switch (typeof value) {
    case 'bigint':
      return value.toString();
    case 'object':
      break;
    default:
      return JSON.stringify(value);
  }
  if (value === null) return 'null';
  if (depth >= MAX_DEPTH) {
    throw new RangeError(`a JSON value may nest ${MAX_DEPTH} levels; this one is deeper or contains itself`);
  }
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    return write(value.toJSON(), step, newline, depth + 1);
  }
  return Array.isArray(value) || isTypedArray(value)
    ? writeList(value, step, newline, depth)
    : writeMembers(value, step, newline, depth);
}

function writeList(
  list: readonly unknown[] | BulkNumbers,
  step: string,
  newline: string,
  depth: number,
): string {
  const texts: string[] = [];
  // An index loop also visits the holes of a sparse list, which JSON writes as null.
  for (let index = 0; index < list.length; index += 1) {
    texts.push(write(list[index], step, newline + step, depth + 1) ?? 'null');
  }
  return enclose('[', texts, ']', step, newline);
}

/** Whether `JSON.stringify` writes a value just so: no bigint, typed array or object of a class in it, and no deeper than allowed. */
function isPlain(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return isPlainLeaf(value);
  if (depth >= MAX_DEPTH) return false;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const member: unknown = value[index];
      if (typeof member !== 'number' && !isPlain(member, depth + 1)) return false;
    }
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if ((prototype !== Object.prototype && prototype !== null) || 'toJSON' in value) return false;
  for (const member of Object.values(value)) if (!isPlain(member, depth + 1)) return false;
  return true;
}

/** What JSON leaves out is nobody's plain value at the top, where it has no text. */
function isPlainLeaf(value: unknown): boolean {
  return (
    typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null
  );
}

function writeMembers(object: object, step: string, newline: string, depth: number): string {
  const colon = step === '' ? ':' : ': ';
  const texts: string[] = [];
  for (const [key, member] of Object.entries(object)) {
    const text = write(member, step, newline + step, depth + 1);
    if (text !== undefined) texts.push(`${JSON.stringify(key)}${colon}${text}`);
  }
  return enclose('{', texts, '}', step, newline);
}

function enclose(
  open: string,
  parts: readonly string[],
  close: string,
  step: string,
  newline: string,
): string {
  if (step === '' || parts.length === 0) return `${open}${parts.join(',')}${close}`;
  const inner = newline + step;
  return `${open}${inner}${parts.join(`,${inner}`)}${newline}${close}`;
}

type BulkNumbers = { readonly length: number; readonly [index: number]: number | bigint };

function isTypedArray(value: object): value is BulkNumbers {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}
