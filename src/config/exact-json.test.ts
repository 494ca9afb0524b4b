import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exactJsonStringify } from '../plugin/index.ts';
import { parseExactJson } from './exact-json.ts';

test('integers beyond 2^53 - 1 come back as exact bigint, all other numbers as number', () => {
  expect(
    parseExactJson(
      '[18446744073709551615, 9007199254740991, 9007199254740992, -9007199254740993, 1.5, 1e300]',
    ),
  ).toEqual([18446744073709551615n, 9007199254740991, 9007199254740992n, -9007199254740993n, 1.5, 1e300]);
});

test('long digits inside strings and fractions stay what they are', () => {
  const text = '{"a":"id-1234567890123456789 \\" 1234567890123456789","b":0.12345678901234567,"c":"\\\\"}';
  expect(parseExactJson(text)).toEqual(JSON.parse(text));
});

test('a string that ends in an escaped backslash does not hide the integer after it', () => {
  expect(parseExactJson('["\\\\",1234567890123456789,"x"]')).toEqual(['\\', 1234567890123456789n, 'x']);
});

test('what the exact writer writes is read back unchanged', () => {
  const value = fc.letrec((tie) => ({
    node: fc.oneof(
      { depthSize: 'small' },
      fc.string(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.bigInt({ min: 9007199254740992n, max: 18446744073709551615n }),
      fc.array(tie('node'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('node'), { maxKeys: 4, noNullPrototype: true }),
    ),
  })).node;
  fc.assert(
    fc.property(value, fc.constantFrom(0, 2), (original, indent) => {
      expect(parseExactJson(exactJsonStringify(original, indent))).toEqual(original);
    }),
  );
});

test('on any text it agrees with JSON.parse about what is JSON', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    '12345678901234567',
    '0',
    '-',
    '.',
    'e',
    '1',
    ' ',
    'true',
    '"a"',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join('');
      expect(outcome(() => parseExactJson(text))).toBe(outcome(() => JSON.parse(text)));
    }),
    { numRuns: 2000 },
  );
});

test('of duplicate keys the last one counts, and __proto__ is an ordinary key', () => {
  const parsed = parseExactJson('{"a":1,"a":1234567890123456789,"__proto__":{"b":1}}');
  expect(parsed).toHaveProperty('a', 1234567890123456789n);
  expect(Object.keys(Object(parsed))).toEqual(['a', '__proto__']);
});

test('nesting that would overflow a recursive reader is read as JSON.parse reads it', () => {
  let inner = parseExactJson(`${'['.repeat(200_000)}1234567890123456789${']'.repeat(200_000)}`);
  while (Array.isArray(inner)) [inner] = inner;
  expect(inner).toBe(1234567890123456789n);
});

test('an integer of more than 40 digits is a number: converting it exactly would take as long as its sender likes', () => {
  expect(parseExactJson(`[${'9'.repeat(40)},${'9'.repeat(41)},${'9'.repeat(1_000_000)}]`)).toEqual([
    BigInt('9'.repeat(40)),
    1e41,
    Number.POSITIVE_INFINITY,
  ]);
});

test('an error names the place in the text that was handed in', () => {
  const text = '[1234567890123456789, 1234567890123456789, oops]';
  const message = (parse: () => unknown): string => {
    try {
      return String(parse());
    } catch (thrown) {
      return String(thrown);
    }
  };
  expect(message(() => parseExactJson(text))).toBe(message(() => JSON.parse(text)));
});

function outcome(parse: () => unknown): string {
  try {
    parse();
    return 'parsed';
  } catch (thrown) {
    return thrown instanceof SyntaxError ? 'syntax error' : `threw ${String(thrown)}`;
  }
}
