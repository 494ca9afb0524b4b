// Which of an engine's response headers the client gets to see.
import type { IncomingHttpHeaders } from 'node:http';

/** Meant for one connection (RFC 9110 section 7.6.1), or set by the router's own server. */
const NOT_RELAYED: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'date',
  'server',
  'x-request-id',
  'set-cookie',
]);

/** Header values as text; repeated headers joined with a comma. */
export function flattenHeaders(incoming: IncomingHttpHeaders): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(incoming)) {
    if (value !== undefined) headers[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value;
  }
  return headers;
}

/**
 * The headers to pass on: without hop-by-hop ones, those that `Connection` names, and the dialect's private ones. A stream's
 * length is dropped, whoever asked for it: events may be withheld from it, and an error event may end it early.
 * @param anyLength the answer may become shorter than it says.
 */
export function relayedHeaders(
  headers: Readonly<Record<string, string>>,
  privateHeaders: ReadonlySet<string>,
  anyLength: boolean,
): Record<string, string> {
  const named = new Set((headers.connection ?? '').toLowerCase().split(/\s*,\s*/));
  const events = anyLength || (headers['content-type'] ?? '').startsWith('text/event-stream');
  const relayed: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (NOT_RELAYED.has(name) || privateHeaders.has(name) || named.has(name)) continue;
    if (events && name === 'content-length') continue;
    relayed[name] = value;
  }
  return relayed;
}
