import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SseSplitter, sseData } from './sse-splitter.ts';

function split(chunks: readonly Uint8Array[], maxBytes?: number): { text: string; whole: boolean }[] {
  const events: { text: string; whole: boolean }[] = [];
  const splitter = new SseSplitter(
    { event: (bytes, whole) => events.push({ text: Buffer.from(bytes).toString('latin1'), whole }) },
    maxBytes,
  );
  for (const chunk of chunks) splitter.push(chunk);
  splitter.end();
  return events;
}

describe('SseSplitter', () => {
  const stream =
    'data: {"a":1}\n\n: ping\r\n\r\nevent: x\r\ndata: one\r\ndata: two\r\n\r\ndata: é\n\ndata: [DONE]\n\ndata: cut';

  it('cuts events at blank lines whatever the line ends', () => {
    expect(split([Buffer.from(stream)]).map((event) => event.text)).toEqual([
      'data: {"a":1}\n\n',
      ': ping\r\n\r\n',
      'event: x\r\ndata: one\r\ndata: two\r\n\r\n',
      Buffer.from('data: é\n\n').toString('latin1'),
      'data: [DONE]\n\n',
      'data: cut',
    ]);
  });

  it('marks what the end of the stream cut short', () => {
    expect(split([Buffer.from('data: 1\n\ndata: 2\n')])).toEqual([
      { text: 'data: 1\n\n', whole: true },
      { text: 'data: 2\n', whole: false },
    ]);
    expect(split([Buffer.from('data: 1\r\r')])).toEqual([{ text: 'data: 1\r\r', whole: true }]);
  });

  it('finds the same events on every split into two and when every byte comes alone', () => {
    const bytes = Buffer.from(stream);
    const expected = split([bytes]);
    for (let at = 0; at <= bytes.length; at += 1) {
      expect(split([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(expected);
    }
    expect(split([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
  });

  it('loses no byte and finds the same events for any mix of line ends and any split', () => {
    const piece = fc.constantFrom('\n', '\r', '\r\n', 'data: x', ': c', 'é');
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 30 }),
        fc.array(fc.nat(40), { maxLength: 8 }),
        (pieces, cuts) => {
          const bytes = Buffer.from(pieces.join(''));
          const ends = [...cuts.filter((cut) => cut < bytes.length), bytes.length].sort((a, b) => a - b);
          const chunks = ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end));
          const events = split(chunks);
          expect(events.map((event) => event.text).join('')).toBe(bytes.toString('latin1'));
          expect(events).toEqual(split([bytes]));
        },
      ),
    );
  });

  it('gives back exactly the events that were put together', () => {
    const event = fc.tuple(
      fc.constantFrom('data: x', ': c', 'event: e\ndata: y'),
      fc.constantFrom('\n\n', '\r\n\r\n', '\n\r\n'),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), (events) => {
        const texts = events.map(([content, end]) => content + end);
        expect(split([Buffer.from(texts.join(''))]).map((found) => found.text)).toEqual(texts);
      }),
    );
  });

  it('passes an event that is too long through in pieces and reads the next one again', () => {
    const long = `data: ${'x'.repeat(64)}\n\n`;
    const bytes = Buffer.from(`${long}data: y\n\n`);
    const events = split([bytes.subarray(0, 20), bytes.subarray(20, 50), bytes.subarray(50)], 32);
    expect(events.map((event) => event.text).join('')).toBe(bytes.toString());
    expect(events.at(-1)).toEqual({ text: 'data: y\n\n', whole: true });
    expect(events.slice(0, -1).every((event) => !event.whole)).toBe(true);
  });
});

describe('sseData', () => {
  it('joins data lines and drops one leading space of each', () => {
    expect(sseData(Buffer.from('data: one\r\ndata:two\r\nid: 3\r\n\r\n'))).toBe('one\ntwo');
  });

  it('is null for comments and for fields that only look alike', () => {
    expect(sseData(Buffer.from(': data: x\n\n'))).toBeNull();
    expect(sseData(Buffer.from('event: ping\n\n'))).toBeNull();
  });
});
