// Plain answers of the simulated engine's HTTP server: JSON, text, and errors in OpenAI's shape.
import type { ServerResponse } from 'node:http';
import { PointsmanError } from '../../plugin/index.ts';

/** Sends a JSON answer; does nothing when the client is gone. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  send(response, status, 'application/json', JSON.stringify(value), headers);
}

/** Sends an answer of any type; does nothing when the client is gone. */
export function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const bytes = Buffer.from(body);
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers });
  response.end(bytes);
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  413: 'RequestTooLargeError',
  503: 'ServiceUnavailableError',
};

/** Sends an error as `{"error": {message, type, param, code}}`, as vLLM does. What is no PointsmanError says only 500. */
export function sendError(
  response: ServerResponse,
  thrown: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const known = thrown instanceof PointsmanError && thrown.status !== 500;
  const code = known ? thrown.status : 500;
  const message = known ? thrown.message : 'internal error';
  sendJson(
    response,
    code,
    { error: { message, type: TYPES[code] ?? 'InternalServerError', param: null, code } },
    headers,
  );
}
