import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactJson } from '../../config/index.ts';
import { EventLists } from './event-lists.ts';

const LIMITS = { levels: 32, characters: 100_000 };

function readIn(pieces: readonly string[], limits = LIMITS) {
  const lists = new EventLists(
    limits,
    (value) => [value],
    (problem) => new Error(problem),
  );
  for (const piece of pieces) lists.feed(piece);
  const said = lists.end();
  if (typeof said !== 'object' || said === null) return said;
  return Object.fromEntries(
    Object.entries(said).map(([key, partition]: [string, unknown]) => {
      if (typeof partition !== 'object' || partition === null || !('events' in partition))
        return [key, partition];
      const { events } = partition;
      return [key, { ...partition, events: Array.isArray(events) ? lists.list(events[0]) : events }];
    }),
  );
}

const read = (text: string, limits = LIMITS) => readIn([text], limits);

/** Texts that look like the marks that are looked for. */
const words = fc.constantFrom('events', '"events":[', '\\', '\\"', ']', '[', '{}', ',', '', 'ü€😀');
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    words,
    fc.bigInt(0n, 2n ** 64n - 1n).map((id) => parseExactJson(String(id))),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(words, tie('value'), { maxKeys: 3 }),
  ),
})).value;
const dumps = fc.dictionary(
  words,
  fc.record({ block_size: values, events: fc.array(values, { maxLength: 4 }), watermarks: fc.array(values) }),
  { maxKeys: 3 },
);
const write = (value: unknown, indent: number): string =>
  JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? `<${one}>` : one), indent).replace(
    /"<(\d+)>"/g,
    '$1',
  );

describe('EventLists', () => {
  it('reads what a parser reads, however the text is cut', () => {
    fc.assert(
      fc.property(
        dumps,
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        fc.nat(2),
        (dump, cuts, indent) => {
          const text = write(dump, indent);
          const pieces: string[] = [];
          for (let at = 0, nth = 0; at < text.length; nth += 1) {
            const length = cuts[nth % cuts.length] ?? 1;
            pieces.push(text.slice(at, at + length));
            at += length;
          }
          const expected = parseExactJson(text);
          expect(readIn(pieces)).toEqual(expected);
          expect(read(text)).toEqual(expected);
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    '{"a:b":{"events":[{},]}}',
    '{"a:b":{"events":[,]}}',
    '{"a:b":{"events":[,{}]}}',
    '{"a:b":{"events":[{} {}]}}',
    '{"a:b":{"events":[{]}]}}',
    '{"a:b":{"events":[{}}}}',
    '{"a:b":{"events":[{}',
    '{"a:b":{"events":[{}]',
    '{"a:b":{"events":[{}]}} x',
    '{"a:b":{"events":["]}}',
    '',
  ])('refuses %s', (text) => {
    expect(() => read(text)).toThrow(SyntaxError);
  });

  it('holds one event at a time, and refuses what is too long or too deep', () => {
    const event = JSON.stringify({ text: 'x'.repeat(80) });
    const text = `{"a:b":{"events":[${Array.from({ length: 100 }, () => event).join()}]}}`;
    const limits = { levels: 5, characters: 100 };
    expect(read(text, limits)).toEqual(JSON.parse(text));
    const tooLong = 'it has a part of more than 100 characters';
    expect(() => read(text.replace('xx', 'x'.repeat(20)), limits)).toThrow(tooLong);
    expect(() => read(`{"${'x'.repeat(100)}":{}}`, limits)).toThrow(tooLong);
    expect(() => read('{"a:b":{"events":[[[1]]]}}', limits)).not.toThrow();
    expect(() => read('{"a:b":{"events":[[[[', limits)).toThrow('it nests deeper than 5 levels');
  });
});
