// What a selection or a reservation asks beside its prompt.
import type { IncomingMessage } from 'node:http';
import { MAX_LINEAR_COST_WEIGHT, type SessionContext } from '../../plugin/index.ts';
import { agentHeadersOf, NO_CONSTRAINTS, type RoutingConstraints } from '../../road/index.ts';
import type { CostOverride } from '../../scheduling/index.ts';
import {
  badField,
  decimalOf,
  entriesOf,
  flagOf,
  given,
  listOf,
  membersOf,
  nameOf,
  objectOf,
  u64Of,
  wholeOf,
} from './fields.ts';
import { u32Of } from './worker-fields.ts';

type Fields = Readonly<Record<string, unknown>>;

const MAX_LIST = 4096;
const MAX_I32 = 0x7fffffff;
const MAX_CLASS = 128;
const CLASS_HEADER = 'x-dynamo-meta-policy-class';
const TRIGGERS = ['user_message', 'tool_result', 'other'];

/** What a request asks of scheduling for itself alone. */
export interface Overrides {
  readonly cost: CostOverride | null;
  readonly temperature: number | null;
  /** Whether blocks that others hold count once; null = yes. */
  readonly sharesBlocks: boolean | null;
  /** Null = by role. */
  readonly tracksPrefill: boolean | null;
}

/** A worker, and a rank of it or any. */
export interface Place {
  readonly workerId: bigint;
  readonly rank: number | null;
}

/** `router_config_override`. @throws PM_SELECTOR_REQUEST */
export function readOverrides(value: unknown): Overrides {
  const at = 'router_config_override';
  const fields = given(value, at, objectOf) ?? {};
  const number = (name: string, most: number): number | null =>
    given(fields[name], `${at}.${name}`, (found, where) => decimalOf(found, where, 0, most));
  const yes = (name: string): boolean | null => given(fields[name], `${at}.${name}`, flagOf);
  // The older name of two weights wins where it is given; 0 switches both off.
  const older = number('overlap_score_weight', MAX_LINEAR_COST_WEIGHT);
  const credit = older === 0 ? 0 : number('overlap_score_credit', MAX_LINEAR_COST_WEIGHT);
  const scale = older ?? number('prefill_load_scale', MAX_LINEAR_COST_WEIGHT);
  const shared = number('shared_cache_multiplier', 1);
  const cost = {
    ...(credit === null ? {} : { overlap_score_credit: credit }),
    ...(scale === null ? {} : { prefill_load_scale: scale }),
    ...(shared === null ? {} : { shared_cache_multiplier: shared }),
  };
  return {
    cost: Object.keys(cost).length === 0 ? null : cost,
    temperature: number('router_temperature', MAX_LINEAR_COST_WEIGHT),
    sharesBlocks: yes('assume_kv_reuse'),
    tracksPrefill: yes('track_prefill_tokens'),
  };
}

/** Where a request may go. @throws PM_SELECTOR_REQUEST */
export function readConstraints(fields: Fields, temperature: number | null): RoutingConstraints {
  const routing = given(fields.routing_constraints, 'routing_constraints', objectOf) ?? {};
  const at = 'routing_constraints';
  return {
    ...NO_CONSTRAINTS,
    pinnedWorker: given(fields.pinned_worker, 'pinned_worker', placeOf),
    allowedWorkers: given(fields.allowed_worker_ids, 'allowed_worker_ids', (value, name) =>
      entriesOf(value, name, MAX_LIST, u64Of),
    ),
    requiredTaints:
      given(routing.required_taints, `${at}.required_taints`, (value, name) =>
        entriesOf(value, name, MAX_LIST, nameOf),
      ) ?? [],
    preferredTaints:
      given(routing.preferred_taints, `${at}.preferred_taints`, (value, name) =>
        membersOf(value, name, MAX_LIST, weightOf),
      ) ?? new Map(),
    temperature,
    priority: Math.max(0, given(fields.priority_jump, 'priority_jump', finiteOf) ?? 0),
    strictPriority: given(fields.strict_priority, 'strict_priority', u32Of) ?? 0,
  };
}

/** A worker and perhaps a rank. */
export function placeOf(value: unknown, name: string): Place {
  const fields = objectOf(value, name);
  return {
    workerId: u64Of(fields.worker_id, `${name}.worker_id`),
    rank: given(fields.dp_rank, `${name}.dp_rank`, u32Of),
  };
}

/** Output tokens foreseen. */
export function readExpectedOutput(fields: Fields): number | null {
  return given(fields.expected_output_tokens, 'expected_output_tokens', (value, name) =>
    wholeOf(value, name, 0, MAX_I32),
  );
}

/** The policy class that a header asks for; null = none. @throws PM_SELECTOR_REQUEST */
export function readPolicyClass({ headers }: Pick<IncomingMessage, 'headers'>): string | null {
  const sent = headers[CLASS_HEADER];
  const name = typeof sent === 'string' ? sent.trim() : '';
  if (name === '') return null;
  if (name.length <= MAX_CLASS) return name;
  throw badField(CLASS_HEADER, `a header of at most ${MAX_CLASS} characters`);
}

/**
 * The session of a request, frozen; null = it has none. `session_context` wins over `session_id`.
 * Agent headers: those of `session_context.agent_headers`, else those of the HTTP request.
 * @throws PM_SELECTOR_REQUEST
 */
export function readSession(
  fields: Fields,
  { headersDistinct }: Pick<IncomingMessage, 'headersDistinct'>,
): SessionContext | null {
  const context = given(fields.session_context, 'session_context', objectOf);
  const at = context === null ? '' : 'session_context.';
  const from = context ?? fields;
  const sessionId = given(from.session_id, `${at}session_id`, sessionIdOf);
  if (sessionId === null) {
    if (context === null) return null;
    throw badField('session_context.session_id', 'there');
  }
  const parent = given(context?.parent_session_id, 'session_context.parent_session_id', sessionIdOf);
  const final = given(context?.session_final, 'session_context.session_final', flagOf);
  const trigger = given(context?.input_trigger, 'session_context.input_trigger', triggerOf);
  const sent = given(context?.agent_headers, 'session_context.agent_headers', headersOf);
  return Object.freeze({
    sessionId,
    ...(parent === null || parent === sessionId ? {} : { parentSessionId: parent }),
    ...(final === null ? {} : { sessionFinal: final }),
    ...(trigger === null ? {} : { inputTrigger: trigger }),
    agentHeaders: agentHeadersOf(sent ?? headersDistinct),
  });
}

function sessionIdOf(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[\x20-\x7e]{1,256}$/.test(value)) return value;
  throw badField(name, 'a text of 1 to 256 printable ASCII characters');
}

function triggerOf(value: unknown, name: string): string {
  const found = TRIGGERS.find((trigger) => trigger === value);
  if (found === undefined) throw badField(name, TRIGGERS.join(' or '));
  return found;
}

/** Values by name; one text or a list of them. */
function headersOf(value: unknown, name: string): Record<string, readonly string[]> {
  const found = membersOf(value, name, MAX_LIST, (entry, at) => {
    const values = typeof entry === 'string' ? [entry] : listOf(entry, at);
    if (values.every((one) => typeof one === 'string')) return values;
    throw badField(at, 'a text or a list of texts');
  });
  return Object.fromEntries([...found].map(([header, values]) => [header.toLowerCase(), values]));
}

function weightOf(value: unknown, name: string): number {
  return decimalOf(value, name, -Number.MAX_VALUE, Number.MAX_VALUE);
}

function finiteOf(value: unknown, name: string): number {
  return decimalOf(value, name, -Number.MAX_VALUE, Number.MAX_VALUE);
}
