// Ingress: takes router-only fields and headers out of a request. What a trusted caller sent goes on apart from the body; what
// anyone else sent is dropped and counted.
import type { IncomingHttpHeaders } from 'node:http';
import type { KvHint } from '../plugin/index.ts';
import { readHintEnvelope } from './hint-envelope.ts';
import { isObject, type JsonObject, objectField } from './request-fields.ts';
import {
  bodyFieldLabel,
  bodyFieldTrust,
  EXTENSION_FIELD,
  type FieldTrust,
  isRouterOnlyExtension,
  NESTED_HINT,
  ROUTER_ONLY_HEADERS,
  ROUTER_ONLY_NVEXT,
  type TrustedFields,
} from './router-only-fields.ts';

/** What the caller is trusted for. */
export interface CallerTrust {
  readonly routing: boolean;
  /** Hint envelopes. */
  readonly hints: boolean;
  /** Agent hints. */
  readonly agents: boolean;
}

/** A request after ingress. */
export interface CleanRequest {
  /** Without router-only members and without `nvext`; never the object that was handed in. */
  readonly body: JsonObject;
  /** Members of `nvext` that anyone may send. */
  readonly nvext: JsonObject;
  readonly trusted: TrustedFields;
  readonly incomingHint: KvHint | null;
}

/**
 * Cleans one request.
 * @param removed told each field that was dropped, once, by its name in the table.
 * @throws PointsmanError PM_REQUEST_INVALID when `nvext` is no object.
 */
export function cleanRequest(
  headers: IncomingHttpHeaders,
  body: JsonObject,
  trust: CallerTrust,
  removed: (field: string) => void,
): CleanRequest {
  const allows = (rule: FieldTrust): boolean => rule !== 'nobody' && trust[rule];
  const hint = new HintFinder(trust.hints, removed);
  const trustedBody = emptyObject();
  const clean = emptyObject();
  for (const [name, value] of Object.entries(body)) {
    const rule = bodyFieldTrust(name);
    if (name === 'kv_hints') hint.take(value, name);
    else if (name === 'kv_transfer_params') takeTransferParams(value, hint, removed);
    else if (name === EXTENSION_FIELD) clean[name] = cleanExtension(value, removed);
    else if (rule === null || (rule === 'agents' && trust.agents)) clean[name] = value;
    else if (allows(rule)) trustedBody[name] = value;
    else removed(bodyFieldLabel(name));
  }
  const nvext = emptyObject();
  const trustedNvext = emptyObject();
  for (const [name, value] of Object.entries(objectField(clean, 'nvext') ?? {})) {
    const rule = ROUTER_ONLY_NVEXT.get(name);
    if (rule === undefined) nvext[name] = value;
    else if (allows(rule)) trustedNvext[name] = value;
    else removed(`nvext.${name}`);
  }
  delete clean.nvext;
  return {
    body: clean,
    nvext,
    trusted: { headers: cleanHeaders(headers, allows, removed), body: trustedBody, nvext: trustedNvext },
    incomingHint: hint.found,
  };
}

/** Without a prototype: a client's `__proto__` is a member like any other, and hides no fields in what others inherit. */
function emptyObject(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>;
}

/** Request headers never travel on to an engine, so dropping one means not to act on it. */
function cleanHeaders(
  headers: IncomingHttpHeaders,
  allows: (rule: FieldTrust) => boolean,
  removed: (field: string) => void,
): Record<string, string> {
  const trusted: Record<string, string> = {};
  for (const [name, rule] of ROUTER_ONLY_HEADERS) {
    const value = headers[name];
    if (value === undefined) continue;
    if (allows(rule) && typeof value === 'string') trusted[name] = value.trim();
    else removed(name);
  }
  return trusted;
}

function takeTransferParams(value: unknown, hint: HintFinder, removed: (field: string) => void): void {
  // Anything but an object is not even transfer parameters, and goes as a whole.
  let others = !isObject(value);
  for (const [name, member] of isObject(value) ? Object.entries(value) : []) {
    if (name === NESTED_HINT) hint.take(member, `kv_transfer_params.${NESTED_HINT}`);
    else others = true;
  }
  if (others) removed('kv_transfer_params');
}

function cleanExtension(value: unknown, removed: (field: string) => void): unknown {
  if (!isObject(value)) return value;
  const entries = Object.entries(value);
  const kept = entries.filter(([name]) => !isRouterOnlyExtension(name));
  if (kept.length === entries.length) return value;
  removed(EXTENSION_FIELD);
  return Object.fromEntries(kept);
}

/** Keeps the first well-formed envelope of a trusted caller. */
class HintFinder {
  found: KvHint | null = null;
  readonly #trusted: boolean;
  readonly #removed: (field: string) => void;

  constructor(trusted: boolean, removed: (field: string) => void) {
    this.#trusted = trusted;
    this.#removed = removed;
  }

  take(value: unknown, field: string): void {
    const envelope = this.#trusted ? readHintEnvelope(value) : null;
    if (envelope !== null && this.found === null) this.found = envelope;
    else this.#removed(field);
  }
}
