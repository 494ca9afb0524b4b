// Bytes of a request body to a JSON object, with every integer exact and without ever quoting the body in an error.
import { parseExactJson } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { isObject, type JsonObject } from './request-fields.ts';

/** Deeper bodies are refused: no API needs it, and everything behind the gateway recurses. */
const MAX_DEPTH = 128;

/** Parses a body. @throws PointsmanError PM_REQUEST_INVALID */
export function parseBody(bytes: Buffer): JsonObject {
  if (bytes.length === 0) throw invalid('the body is empty; it must be a JSON object');
  let parsed: unknown;
  try {
    parsed = parseExactJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (thrown) {
    if (thrown instanceof TypeError) throw invalid('the body is not valid UTF-8');
    const position = thrown instanceof SyntaxError ? /position (\d+)/.exec(thrown.message)?.[1] : undefined;
    throw invalid(`the body is not valid JSON${position === undefined ? '' : ` (at character ${position})`}`);
  }
  if (!isObject(parsed)) throw invalid('the body must be a JSON object');
  if (!fitsDepth(parsed, MAX_DEPTH)) throw invalid(`the body nests deeper than ${MAX_DEPTH} levels`);
  return parsed;
}

function fitsDepth(value: object, left: number): boolean {
  if (left === 0) return false;
  const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  // Lists of token ids are long and flat: numbers cost one comparison each.
  return members.every(
    (member) => typeof member !== 'object' || member === null || fitsDepth(member, left - 1),
  );
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_REQUEST_INVALID', sentence);
}
