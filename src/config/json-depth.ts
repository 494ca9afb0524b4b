// How deep a JSON text nests, told before it is parsed: a parser makes an object per level, and a body of brackets alone keeps it
// busy for seconds.
import { endOfString } from './json-strings.ts';

const QUOTE = 34;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Whether lists and objects of a JSON text lie in each other more than `levels` deep. Brackets in strings do not count; of a text
 * that is no JSON the answer is the one its beginning deserves.
 */
export function nestsDeeperThan(text: string, levels: number): boolean {
  if (brackets(text, levels) <= levels) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at) - 1;
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth += 1;
        if (depth > levels) return true;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth -= 1;
        break;
      default:
    }
  }
  return false;
}

/** Opening brackets, those in strings included, counted until there are more than `most`: most texts have few and need no second look. */
function brackets(text: string, most: number): number {
  let count = 0;
  for (const bracket of ['[', '{']) {
    for (let at = text.indexOf(bracket); at >= 0 && count <= most; at = text.indexOf(bracket, at + 1)) {
      count += 1;
    }
  }
  return count;
}
