// Reads JSON without rounding 64-bit integers. JSON.parse does the work unless the text really holds a long integer outside
// its strings; only then is the slower lossless-json loaded and used. The writer is exactJsonStringify of the plugin room.
import { createRequire } from 'node:module';

// Loaded on first need and synchronously, so that no reader has to become asynchronous for a rare case.
const requireLazily = createRequire(import.meta.url);

/**
 * Parses JSON; an integer beyond ±(2⁵³ − 1) comes back as an exact `bigint`, every other number as a `number`.
 * Of duplicate keys the last one counts, as in `JSON.parse`.
 * @throws SyntaxError on malformed text. Its message may quote the text: do not pass it on where that can be a prompt.
 */
export function parseExactJson(text: string): unknown {
  if (!holdsLongInteger(text)) return JSON.parse(text);
  const { parse } = requireLazily('lossless-json') as typeof import('lossless-json');
  try {
    return parse(text, null, { parseNumber, onDuplicateKey: ({ newValue }) => newValue });
  } catch (thrown) {
    // lossless-json recurses: nesting that JSON.parse survives can overflow its stack.
    if (thrown instanceof RangeError) throw new SyntaxError('JSON nests too deep');
    throw thrown;
  }
}

const INTEGER = /^-?\d+$/;

function parseNumber(digits: string): number | bigint {
  const value = Number(digits);
  return Number.isSafeInteger(value) || !INTEGER.test(digits) ? value : BigInt(digits);
}

// 16 digits is the shortest an unsafe integer can be; digits after a point only make a fraction longer.
const LONG_INTEGER = /(?<![.\d])\d{16}/;

/** Whether 16 digits in a row stand outside the strings. Jumps from quote to quote, so prose costs one native search. */
function holdsLongInteger(text: string): boolean {
  if (!LONG_INTEGER.test(text)) return false;
  let from = 0;
  while (from < text.length) {
    const quote = text.indexOf('"', from);
    if (LONG_INTEGER.test(quote < 0 ? text.slice(from) : text.slice(from, quote))) return true;
    if (quote < 0) return false;
    from = endOfString(text, quote);
  }
  return false;
}

/** Index just after the string that opens at `quote`; the end of the text when it never closes. */
function endOfString(text: string, quote: number): number {
  let close = text.indexOf('"', quote + 1);
  while (close >= 0) {
    let backslashes = 0;
    while (text[close - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return close + 1;
    close = text.indexOf('"', close + 1);
  }
  return text.length;
}
