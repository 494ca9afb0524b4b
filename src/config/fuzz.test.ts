// Any text ends in a configuration or in a ConfigError whose every problem can be rendered.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';
import { fileSchema } from './schema.ts';

const SURROUNDINGS = {
  env: { A: 'x' },
  readFile: () => {
    throw new Error('nothing to read');
  },
};

function outcome(text: string): 'parsed' | 'refused' {
  try {
    const { source, warnings } = parseConfig(text, 'fuzz.yaml', SURROUNDINGS);
    for (const warning of warnings) expect(source.render(warning, { excerpt: true })).toContain('fuzz.yaml:');
    return 'parsed';
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    expect(thrown.problems.length).toBeGreaterThan(0);
    expect(thrown.problems.length).toBeLessThanOrEqual(100);
    expect(thrown.report({ excerpt: true })).toMatch(/^fuzz\.yaml/);
    return 'refused';
  }
}

const piece = fc.constantFrom(
  ...[
    'router',
    'mode',
    'kv',
    'workers',
    'worker_selection',
    'decode',
    'hints',
    'type',
    'parameters',
    'models',
    'a',
  ],
  ...[
    ': ',
    ':',
    '\n',
    '\n  ',
    '\n    ',
    '- ',
    '[',
    ']',
    '{',
    '}',
    ', ',
    '? ',
    '|\n',
    '>',
    '&x ',
    '*x',
    '<<',
    '!',
    '!!str ',
  ],
  ...[
    '"',
    "'",
    '#',
    '%',
    '@',
    '`',
    '\t',
    '\r\n',
    '---\n',
    '...\n',
    '~',
    'null',
    'true',
    '18446744073709551616',
    '.nan',
    '0x1f',
  ],
  ...['1e999', '\u0000', '\u2028', '\ud800', '__proto__', 'constructor'],
);

test('texts made of YAML pieces', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
      outcome(pieces.join(''));
    }),
    { numRuns: 1500 },
  );
});

test('arbitrary text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      outcome(text);
    }),
    { numRuns: 500 },
  );
});

const key = fc.constantFrom(
  ...Object.keys(fileSchema.shape),
  'type',
  'aggregated',
  'instances',
  'api_keys',
  'zebra',
);
const value = fc.letrec((tie) => ({
  node: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(null, true, 0, -1, 1.5, 'kv', '1s', '64KiB', '127.0.0.1', ''),
    fc.array(tie('node'), { maxLength: 3 }),
    fc.dictionary(key, tie('node'), { maxKeys: 5 }),
  ),
})).node;

test('well-formed documents with any value under any key', () => {
  const document = fc.dictionary(key, value, { maxKeys: 6 });
  fc.assert(
    fc.property(document, (content) => {
      outcome(JSON.stringify(content));
    }),
    { numRuns: 1500 },
  );
});

test('deep nesting and many anchors end in a refusal, not in a crash', () => {
  const texts = [
    '['.repeat(3000),
    '{a: '.repeat(3000),
    '- '.repeat(5000),
    '? '.repeat(500),
    'a: '.repeat(3000),
  ];
  expect(texts.map(outcome)).toEqual(new Array(texts.length).fill('refused'));
});
