// The body of an admin request, as JSON. How long it may be, and that its length is stated, the guard has seen to.
import type { IncomingMessage } from 'node:http';
import { nestsDeeperThan } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** No change nests deeper. */
const MAX_DEPTH = 16;

/** Reads it. @throws PointsmanError PM_ADMIN_REQUEST */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(Buffer.from(part));
  const text = Buffer.concat(parts).toString('utf8');
  if (text === '') throw badRequest('the body is empty; it must be a JSON object');
  if (nestsDeeperThan(text, MAX_DEPTH)) throw badRequest(`the body nests deeper than ${MAX_DEPTH} levels`);
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest('the body is not valid JSON');
  }
}

/** A body that is not what it must be. */
export function badRequest(sentence: string): PointsmanError {
  return new PointsmanError('PM_ADMIN_REQUEST', sentence);
}
