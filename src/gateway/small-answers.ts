// Answers that need no road: JSON, errors, models.
import type { ServerResponse } from 'node:http';
import type { PointsmanError } from '../plugin/index.ts';
import type { ApiClient } from './api-keys.ts';
import { adapterOwners, type CallerRules, mayUse, namedModel } from './callers.ts';
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

type Adapters = ReadonlyMap<string, readonly string[]>;

/** `GET /v1/models`: names, aliases and LoRA adapters the client may use. `created` in seconds since the epoch. */
export function listModels(
  rules: CallerRules,
  adapters: Adapters,
  client: ApiClient | null,
  created: number,
): object {
  const named = [...rules.models]
    .filter(([, model]) => mayUse(client, model))
    .map(([id]) => modelEntry(id, null, created));
  const held = [...adapters].flatMap(([id, names]) => {
    const [model, other] = rules.models.has(id) ? [] : adapterOwners(rules, client, names);
    return model === undefined || other !== undefined ? [] : [modelEntry(id, model.name, created)];
  });
  return { object: 'list', data: [...named, ...held].sort((a, b) => (a.id < b.id ? -1 : 1)) };
}

/** `GET /v1/models/{id}`. @throws PointsmanError PM_MODEL_NOT_FOUND */
export function describeModel(
  rules: CallerRules,
  adapters: Adapters,
  client: ApiClient | null,
  created: number,
  id: string,
): object {
  const { model, adapter } = namedModel(rules, adapters, client, id);
  return modelEntry(id, adapter === null ? null : model.name, created);
}

interface ModelEntry {
  readonly id: string;
  readonly object: 'model';
  readonly created: number;
  readonly owned_by: string;
  /** Of an adapter: its model. */
  readonly parent?: string;
}

function modelEntry(id: string, parent: string | null, created: number): ModelEntry {
  return {
    id,
    object: 'model',
    created: Math.floor(created),
    owned_by: 'pointsman',
    ...(parent === null ? {} : { parent }),
  };
}
