// Bytes of a request body to a JSON object, with every integer exact and without ever quoting the body in an error.
import { nestsDeeperThan, parseExactJson } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { isObject, type JsonObject } from './request-fields.ts';

/** Deeper bodies are refused, and not parsed: no API needs it, everything behind the gateway recurses, and parsing takes long. */
const MAX_DEPTH = 128;

/** Parses a body. @throws PointsmanError PM_REQUEST_INVALID */
export function parseBody(bytes: Buffer): JsonObject {
  if (bytes.length === 0) throw invalid('the body is empty; it must be a JSON object');
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalid('the body is not valid UTF-8');
  }
  if (nestsDeeperThan(text, MAX_DEPTH)) throw invalid(`the body nests deeper than ${MAX_DEPTH} levels`);
  let parsed: unknown;
  try {
    parsed = parseExactJson(text);
  } catch (thrown) {
    const position = thrown instanceof SyntaxError ? /position (\d+)/.exec(thrown.message)?.[1] : undefined;
    throw invalid(`the body is not valid JSON${position === undefined ? '' : ` (at character ${position})`}`);
  }
  if (!isObject(parsed)) throw invalid('the body must be a JSON object');
  return parsed;
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_REQUEST_INVALID', sentence);
}
