import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OutputText } from './output-text.ts';

/** Tokens are bytes of UTF-8. */
const textOf = (tokens: readonly number[]): string => Buffer.from(tokens).toString('utf8');

function shown(text: string, stops: readonly string[]): { text: string; stopped: boolean } {
  const output = new OutputText(textOf, stops, new Uint32Array(0));
  let all = '';
  for (const byte of Buffer.from(text)) {
    all += output.push(byte);
    if (output.stopped) break;
  }
  return { text: all + output.end(), stopped: output.stopped };
}

describe('OutputText', () => {
  it('shows whole characters only', () => {
    const output = new OutputText(textOf, [], new Uint32Array(0));
    expect([...Buffer.from('é早')].map((byte) => output.push(byte))).toEqual(['', 'é', '', '', '早']);
    expect(output.end()).toBe('');
  });

  it('shows what is no character in the end', () => {
    const output = new OutputText(textOf, [], new Uint32Array(0));
    expect(output.push(0xc3)).toBe('');
    expect(output.end()).toBe('\ufffd');
  });

  it('holds back what may become a stop', () => {
    const output = new OutputText(textOf, ['END', 'EX'], new Uint32Array(0));
    expect([...'aENEXb'].map((letter) => output.push(letter.charCodeAt(0)))).toEqual([
      'a',
      '',
      '',
      'EN',
      '',
      '',
    ]);
    expect(output.stopped).toBe(true);
  });

  it('shows any text unchanged up to its first stop', () => {
    const texts = fc.string({ unit: 'grapheme', maxLength: 30 });
    fc.assert(
      fc.property(
        texts,
        fc.array(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 3 }),
        (text, stops) => {
          const clean = Buffer.from(text).toString('utf8');
          const first = Math.min(
            ...stops.map((stop) => clean.indexOf(stop)).filter((at) => at >= 0),
            clean.length,
          );
          const answer = shown(clean, stops);
          expect(answer.stopped).toBe(stops.some((stop) => clean.includes(stop)));
          if (!answer.stopped) expect(answer.text).toBe(clean);
          // Of stops that overlap, the one that is complete first ends the text.
          else expect(clean.startsWith(answer.text) && answer.text.length >= first).toBe(true);
        },
      ),
    );
  });
});
