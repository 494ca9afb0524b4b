// Building blocks of the schema: each names the expected form in its error, takes null as absent, and leaves unknown keys to
// one text with the nearest valid name.
import { isIP } from 'node:net';
import { z } from 'zod';
import { didYouMean } from './nearest.ts';
import { DURATION_FORM, formatDuration, formatSize, parseDuration, parseSize, SIZE_FORM } from './units.ts';

const U64_MAX = 18446744073709551615n;

/** How a value that was found is named in an error; never more than 40 characters of it. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  return String(value);
}

/** What JSON Schema can say of a value: keywords, or schemas of which one fits. */
export type Shape = Readonly<Record<string, unknown>> | readonly z.ZodType[];

/** Shapes of the values that only a function can read; for the JSON Schema of the file. */
export const SHAPES = new WeakMap<object, Shape>();

/** Notes the shape of a schema. */
export function shaped<T extends z.ZodType>(shape: Shape, schema: T): T {
  SHAPES.set(schema, shape);
  return schema;
}

/** A value read by `read`, which answers undefined for what it cannot take; `shape` says the same in JSON Schema. */
export function form<T>(
  expected: string,
  read: (value: unknown) => T | undefined,
  shape: Readonly<Record<string, unknown>> = { type: 'string' },
) {
  return shaped({ ...shape, description: expected }, reader(expected, read));
}

function reader<T>(expected: string, read: (value: unknown) => T | undefined) {
  return z.unknown().transform((value, context): T => {
    const result = value === undefined || value === null ? undefined : read(value);
    if (result !== undefined) return result;
    const missing = value === undefined || value === null;
    context.addIssue({
      code: 'custom',
      message: missing ? `is required: ${expected}` : `expected ${expected}, found ${describeValue(value)}`,
      params: { missing },
    });
    return z.NEVER;
  });
}

/** Non-empty text. */
export const text = (expected = 'a non-empty string') =>
  form(expected, (value) => (typeof value === 'string' && value !== '' ? value : undefined), {
    type: 'string',
    minLength: 1,
  });

/** Text that may be empty. */
export const anyText = () => form('a string', (value) => (typeof value === 'string' ? value : undefined));

/** `true` or `false`. */
export const flag = () =>
  form('true or false', (value) => (typeof value === 'boolean' ? value : undefined), { type: 'boolean' });

/** A whole number within a closed range. */
export const whole = (min: number, max: number = Number.MAX_SAFE_INTEGER) => {
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return form(
    `a whole number ${range}`,
    (value) =>
      typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
        ? value
        : undefined,
    { type: 'integer', minimum: min, maximum: max },
  );
};

/** A finite number within a closed range. */
export const decimal = (min: number, max: number = Number.POSITIVE_INFINITY) => {
  const range = max === Number.POSITIVE_INFINITY ? `of at least ${min}` : `from ${min} to ${max}`;
  return form(
    `a number ${range}`,
    (value) =>
      typeof value === 'number' && Number.isFinite(value) && value >= min && value <= max ? value : undefined,
    { type: 'number', minimum: min, ...(Number.isFinite(max) ? { maximum: max } : {}) },
  );
};

/** A finite number above zero. */
export const positive = () =>
  form(
    'a number above 0',
    (value) => (typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : undefined),
    { type: 'number', exclusiveMinimum: 0 },
  );

/** An id of 64 bits, as a bare integer. */
export const u64 = () =>
  form(
    `a bare integer from 0 to ${U64_MAX}`,
    (value) => {
      if (typeof value === 'number')
        return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
      return typeof value === 'bigint' && value >= 0n && value <= U64_MAX ? value : undefined;
    },
    { type: 'integer', minimum: 0 },
  );

/** One of a few words; `remedy` is said of one that resembles none. */
export const word = <const W extends string>(words: readonly W[], remedy = '') =>
  shaped({ enum: words }, wordOf(words, remedy));

const wordOf = <const W extends string>(words: readonly W[], remedy: string) =>
  z.unknown().transform((value, context): W => {
    const found = words.find((candidate) => candidate === value);
    if (found !== undefined) return found;
    const near = (typeof value === 'string' ? didYouMean(value, words) : '') || remedy;
    const missing = value === undefined || value === null;
    const expected = words.length === 1 ? words[0] : `one of ${words.join(', ')}`;
    context.addIssue({
      code: 'custom',
      message: missing
        ? `is required: ${expected}`
        : `expected ${expected}, found ${describeValue(value)}${near}`,
      params: { missing },
    });
    return z.NEVER;
  });

/** Milliseconds within a closed range, written as a duration. */
export const duration = (minMs: number, maxMs: number) => {
  const range = `from ${formatDuration(minMs)} to ${formatDuration(maxMs)}`;
  return form(
    `${DURATION_FORM}, ${range}`,
    (value) => {
      const ms = typeof value === 'string' ? parseDuration(value) : null;
      return ms !== null && ms >= minMs && ms <= maxMs ? ms : undefined;
    },
    { type: 'string', pattern: '^[0-9.]+ ?(ms|s|m|h)$' },
  );
};

/** Bytes within a closed range, written as a size or a plain number. */
export const size = (minBytes: number, maxBytes: number) => {
  const range = `from ${formatSize(minBytes)} to ${formatSize(maxBytes)}`;
  return form(
    `${SIZE_FORM}, ${range}`,
    (value) => {
      const bytes = typeof value === 'string' || typeof value === 'number' ? parseSize(value) : null;
      return bytes !== null && bytes >= minBytes && bytes <= maxBytes ? bytes : undefined;
    },
    { type: ['string', 'integer'] },
  );
};

/** An IP network such as `10.0.0.0/8`, or one address. */
export const network = () =>
  form('a network such as 10.0.0.0/8, or an address', (value) => {
    if (typeof value !== 'string') return undefined;
    const [address = '', prefix, ...rest] = value.split('/');
    const family = isIP(address);
    if (family === 0 || rest.length > 0) return undefined;
    if (prefix === undefined) return value;
    const longest = family === 4 ? 32 : 128;
    return /^\d{1,3}$/.test(prefix) && Number(prefix) <= longest ? value : undefined;
  });

/** Where a secret stands. A plain value is refused and not repeated in the error. */
export const secret = () =>
  shaped([z.strictObject({ env: z.string() }), z.strictObject({ file: z.string() })], secretPlace());

const secretPlace = () =>
  z.unknown().transform((value, context): SecretPlace => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const entries = Object.entries(value);
      const [place, name] = entries[0] ?? [];
      if (entries.length === 1 && typeof name === 'string' && name !== '') {
        if (place === 'env') return { env: name };
        if (place === 'file') return { file: name };
      }
    }
    const found = typeof value === 'object' ? describeValue(value) : 'a plain value';
    const message = `expected { env: NAME } or { file: PATH }, found ${found}; the secret itself never stands in the file`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });

/** A parsed {@link secret}. */
export type SecretPlace = { readonly env: string } | { readonly file: string };

/** A mapping kept as it was written, for keys whose content others check; null is empty. */
export const raw = () => shaped({ type: 'object' }, rawMapping());

const rawMapping = () =>
  z.unknown().transform((value, context): Readonly<Record<string, unknown>> => {
    if (value === null || value === undefined) return {};
    if (isRecord(value)) return value;
    context.addIssue({ code: 'custom', message: `expected a mapping, found ${describeValue(value)}` });
    return z.NEVER;
  });

/** A key that another schema checks. */
export const unread = () => z.unknown().optional();

/** Whether a value is a YAML mapping. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Keys named where something else than a mapping was found. */
const KEYS_SHOWN = 5;

/** What a {@link mapping} says beyond its keys. */
export interface MappingTexts {
  /** Behind the complaint about what is no mapping: how to write what stands in its place. */
  readonly remedy?: (found: unknown) => string;
  /** Keys that someone may expect here, and why they do not exist. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** A mapping with exactly these keys. Unknown ones are reported one line per key, in the order of the issue's `keys`. */
export const mapping = <S extends z.ZodRawShape>(
  shape: S,
  { remedy = () => '', refused = {} }: MappingTexts = {},
) =>
  z.strictObject(shape, {
    error: (issue) => {
      const known = Object.keys(shape);
      if (issue.code !== 'unrecognized_keys') {
        const more = known.length > KEYS_SHOWN ? ', …' : '';
        const keys = `${known.slice(0, KEYS_SHOWN).join(', ')}${more}`;
        return `expected a mapping (keys: ${keys}), found ${describeValue(issue.input)}${remedy(issue.input)}`;
      }
      return issue.keys
        .map((key) =>
          Object.hasOwn(refused, key)
            ? refused[key]
            : `unknown key${didYouMean(key, known) || `; known: ${known.join(', ')}`}`,
        )
        .join('\n');
    },
  });

/** A mapping that may be left out: then every key has its default. */
export const section = <S extends z.ZodRawShape>(shape: S) =>
  z.preprocess((value) => value ?? {}, mapping(shape));

/** A list; left out it is empty. */
export const list = <T extends z.ZodType>(item: T, of: string) =>
  z.preprocess(
    (value) => value ?? [],
    z.array(item, { error: (issue) => `expected a list of ${of}, found ${describeValue(issue.input)}` }),
  );

/** A mapping from names to values of one kind; left out it is empty. */
export const table = <T extends z.ZodType>(item: T, of: string) =>
  z.preprocess(
    (value) => value ?? {},
    z.record(z.string(), item, {
      error: (issue) => `expected a mapping of ${of}, found ${describeValue(issue.input)}`,
    }),
  );

/** The value, or a default when it is left out. */
export const or = <T extends z.ZodType, const D>(schema: T, fallback: D) =>
  schema.nullish().transform((value) => value ?? fallback);

/** The value, or null when it is left out. */
export const orNull = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? null);
