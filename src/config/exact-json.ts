// Reads JSON without rounding 64-bit integers. JSON.parse does the work, at its speed: where the text holds long integers
// outside its strings, they travel through it as marked strings. The writer is exactJsonStringify of the plugin room.
import { randomUUID } from 'node:crypto';
import { endOfString } from './json-strings.ts';

/**
 * Parses JSON; an integer beyond ±(2⁵³ − 1) comes back as an exact `bigint`, every other number as a `number`, and so does an
 * integer of more than {@link MAX_DIGITS} digits, which is nobody's id and would take long to convert.
 * Of duplicate keys the last one counts, as in `JSON.parse`.
 * @throws SyntaxError on malformed text. Its message may quote the text: do not pass it on where that can be a prompt.
 */
export function parseExactJson(text: string): unknown {
  const marked = markLongIntegers(text);
  if (marked === null) return JSON.parse(text);
  let parsed: unknown;
  try {
    parsed = JSON.parse(marked);
  } catch (thrown) {
    // Marking keeps malformed text malformed, but moves the place that the error names.
    JSON.parse(text);
    throw thrown;
  }
  return unmark(parsed);
}

/** A u64 has 20 digits; twice as many leave room for any sum or product of two. */
const MAX_DIGITS = 40;

/** Begins the strings that stand for integers. Nobody who writes a text can know it, escaped or not. */
const MARK = randomUUID();

/** 16 digits is the shortest an unsafe integer can be. Cheap first look; also matches inside strings and numbers. */
const LONG_RUN = /\d{16}/;
/** A whole integer in the place of a value: not part of another number or word, no leading zero, no key. */
const LONG_INTEGER = new RegExp(`(?<![\\w.+-])-?[1-9]\\d{15,${MAX_DIGITS - 1}}(?![\\d.eE]|\\s*:)`, 'g');

/** The text with its long integers as marked strings; null when there is none. Jumps from quote to quote over strings. */
function markLongIntegers(text: string): string | null {
  if (!LONG_RUN.test(text)) return null;
  const parts: string[] = [];
  let copied = 0;
  let from = 0;
  while (from < text.length) {
    const quote = text.indexOf('"', from);
    const between = quote < 0 ? text.slice(from) : text.slice(from, quote);
    if (between.length >= 16) {
      for (const match of between.matchAll(LONG_INTEGER)) {
        const at = from + match.index;
        parts.push(text.slice(copied, at), `"${MARK}${match[0]}"`);
        copied = at + match[0].length;
      }
    }
    if (quote < 0) break;
    from = endOfString(text, quote);
  }
  if (parts.length === 0) return null;
  parts.push(text.slice(copied));
  return parts.join('');
}

/** Turns marked strings back into integers, in place and without recursion: nesting costs no stack. */
function unmark(parsed: unknown): unknown {
  const root = { value: parsed };
  const open: object[] = [root];
  for (let holder = open.pop(); holder !== undefined; holder = open.pop()) {
    if (Array.isArray(holder)) {
      const list: unknown[] = holder;
      for (let at = 0; at < list.length; at += 1) list[at] = unmarked(list[at], open);
    } else {
      // A parsed JSON object has no other members than these.
      const members = holder as Record<string, unknown>;
      for (const key of Object.keys(members)) members[key] = unmarked(members[key], open);
    }
  }
  return root.value;
}

/** The member itself, or the integer it stands for; an object or a list is left for later. */
function unmarked(member: unknown, later: object[]): unknown {
  if (typeof member === 'string')
    return member.startsWith(MARK) ? integer(member.slice(MARK.length)) : member;
  if (typeof member === 'object' && member !== null) later.push(member);
  return member;
}

function integer(digits: string): number | bigint {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : BigInt(digits);
}
