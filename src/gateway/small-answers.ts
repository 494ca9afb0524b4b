// Answers that need no road: JSON, errors, models.
import type { ServerResponse } from 'node:http';
import type { PointsmanError } from '../plugin/index.ts';
import type { ApiClient } from './api-keys.ts';
import { type CallerRules, mayUse, usableModel } from './callers.ts';
import { errorAnswer } from './openai-error.ts';

/** Sends JSON. */
export function sendJson(res: ServerResponse, status: number, value: unknown): void {
  const body = `${JSON.stringify(value)}\n`;
  res.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  });
  res.end(body);
}

/** Sends an error in the API's shape. */
export function sendError(res: ServerResponse, error: PointsmanError, overloadStatus: number): void {
  const answer = errorAnswer(error, overloadStatus);
  res.writeHead(answer.status, { ...answer.headers, 'content-length': Buffer.byteLength(answer.body) });
  res.end(answer.body);
}

/** `GET /v1/models`: names and aliases the client may use. `created` in seconds since the epoch. */
export function listModels(rules: CallerRules, client: ApiClient | null, created: number): object {
  const data = [...rules.models]
    .filter(([, model]) => mayUse(client, model))
    .map(([id]) => modelEntry(id, created))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return { object: 'list', data };
}

/** `GET /v1/models/{id}`. @throws PointsmanError PM_MODEL_NOT_FOUND */
export function describeModel(
  rules: CallerRules,
  client: ApiClient | null,
  created: number,
  id: string,
): object {
  usableModel(rules, client, id);
  return modelEntry(id, created);
}

function modelEntry(
  id: string,
  created: number,
): { id: string; object: 'model'; created: number; owned_by: string } {
  return { id, object: 'model', created: Math.floor(created), owned_by: 'pointsman' };
}
