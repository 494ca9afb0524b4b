// What a trusted caller may ask of routing, read from its headers and body.
import type { RoutingConstraints } from '../road/index.ts';
import type { AgentHints } from './agent-hints.ts';
import { invalidField, type JsonObject, objectField, textField, u64 } from './request-fields.ts';
import type { TrustedFields } from './router-only-fields.ts';

const MAX_U32 = 0xffffffff;
const MAX_LIST = 4096;
const MAX_TAINT = 256;
const MAX_CLASS = 128;
const CLASS_HEADER = 'x-dynamo-meta-policy-class';
const TENANT_HEADER = 'x-tenant-id';

/**
 * Constraints from trusted fields; headers win over the body, and the body's own fields over `nvext`.
 * @throws PointsmanError PM_REQUEST_INVALID for a malformed one: a pin that cannot be read must not become a free choice.
 */
export function readConstraints(
  trusted: TrustedFields,
  hints: Pick<AgentHints, 'priority' | 'strictPriority'>,
): RoutingConstraints {
  const constraints = objectField(trusted.body, 'routing_constraints') ?? {};
  const at = 'routing_constraints';
  return {
    pinnedWorker: pinFromHeaders(trusted.headers) ?? pinFromBody(trusted.body) ?? pinFromNvext(trusted.nvext),
    pinnedPrefill: prefillFromHeaders(trusted.headers) ?? prefillFromNvext(trusted.nvext),
    allowedWorkers: workerList(trusted.body.allowed_worker_ids),
    requiredTaints: taintList(constraints.required_taints, `${at}.required_taints`),
    preferredTaints: taintWeights(objectField(constraints, 'preferred_taints', `${at}.preferred_taints`)),
    temperature: temperatureOf(objectField(trusted.body, 'router_config_override')),
    // Less than none is for engines: nobody is put behind those that came later.
    priority: Math.max(0, hints.priority ?? 0),
    strictPriority: hints.strictPriority,
  };
}

/**
 * The policy class a trusted caller asks for; a header wins over the body. Null = none.
 * @throws PointsmanError PM_REQUEST_INVALID
 */
export function readPolicyClass(trusted: TrustedFields): string | null {
  const header = trusted.headers[CLASS_HEADER];
  return header === undefined
    ? textField(trusted.body, 'policy_class', MAX_CLASS)
    : textField({ [CLASS_HEADER]: header }, CLASS_HEADER, MAX_CLASS);
}

/** Whose request a trusted caller says it is; null = it does not say. @throws PointsmanError PM_REQUEST_INVALID */
export function readTenant({ headers }: Pick<TrustedFields, 'headers'>): string | null {
  const tenant = headers[TENANT_HEADER];
  if (tenant === undefined) return null;
  if (/^[\x20-\x7e]{1,256}$/.test(tenant)) return tenant;
  throw invalidField(TENANT_HEADER, 'must be 1 to 256 printable ASCII characters');
}

type Pin = NonNullable<RoutingConstraints['pinnedWorker']>;

function pinFromHeaders(headers: TrustedFields['headers']): Pin | null {
  const name =
    headers['x-dynamo-worker-instance-id'] === undefined
      ? 'x-worker-instance-id'
      : 'x-dynamo-worker-instance-id';
  const id = headers[name];
  if (id === undefined) return null;
  const rankName = ['x-dynamo-dp-rank', 'x-dp-rank', 'x-data-parallel-rank'].find(
    (key) => headers[key] !== undefined,
  );
  return {
    workerId: u64(decimal(id), name),
    rank: rankName === undefined ? null : rank(decimal(headers[rankName] ?? ''), rankName),
  };
}

function pinFromBody(body: JsonObject): Pin | null {
  const pin = objectField(body, 'pinned_worker');
  if (pin === null) return null;
  return {
    workerId: u64(pin.worker_id, 'pinned_worker.worker_id'),
    rank:
      pin.dp_rank === undefined || pin.dp_rank === null ? null : rank(pin.dp_rank, 'pinned_worker.dp_rank'),
  };
}

function pinFromNvext(nvext: JsonObject): Pin | null {
  const name = nvext.backend_instance_id === undefined ? 'decode_worker_id' : 'backend_instance_id';
  const id = nvext[name] ?? null;
  if (id === null) return null;
  return {
    workerId: u64(id, `nvext.${name}`),
    rank: (nvext.dp_rank ?? null) === null ? null : rank(nvext.dp_rank, 'nvext.dp_rank'),
  };
}

/** Who computes the prompt where another worker decodes. */
function prefillFromHeaders(headers: TrustedFields['headers']): Pin | null {
  const name = ['x-dynamo-prefill-instance-id', 'x-prefill-instance-id'].find(
    (key) => headers[key] !== undefined,
  );
  if (name === undefined) return null;
  const rankName = ['x-dynamo-prefill-dp-rank', 'x-prefill-dp-rank'].find(
    (key) => headers[key] !== undefined,
  );
  return {
    workerId: u64(decimal(headers[name] ?? ''), name),
    rank: rankName === undefined ? null : rank(decimal(headers[rankName] ?? ''), rankName),
  };
}

function prefillFromNvext(nvext: JsonObject): Pin | null {
  const id = nvext.prefill_worker_id ?? null;
  if (id === null) return null;
  const at = nvext.prefill_dp_rank ?? null;
  return {
    workerId: u64(id, 'nvext.prefill_worker_id'),
    rank: at === null ? null : rank(at, 'nvext.prefill_dp_rank'),
  };
}

/** A header's integer; anything else stays a text, which the checks refuse. */
function decimal(text: string): unknown {
  return /^\d{1,20}$/.test(text) ? BigInt(text) : text;
}

function rank(value: unknown, path: string): number {
  const exact = u64(value, path);
  if (exact > BigInt(MAX_U32)) throw invalidField(path, `must be an integer from 0 to ${MAX_U32}`);
  return Number(exact);
}

function workerList(value: unknown): readonly bigint[] | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value) || value.length > MAX_LIST) {
    throw invalidField('allowed_worker_ids', `must be a list of at most ${MAX_LIST} worker ids`);
  }
  return value.map((id, index) => u64(id, `allowed_worker_ids[${index}]`));
}

function taintList(value: unknown, path: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isTaint = (taint: unknown): taint is string =>
    typeof taint === 'string' && taint !== '' && taint.length <= MAX_TAINT;
  if (!Array.isArray(value) || value.length > MAX_LIST || !value.every(isTaint)) {
    throw invalidField(path, `must be a list of at most ${MAX_LIST} texts`);
  }
  return value;
}

function taintWeights(value: JsonObject | null): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const [taint, weight] of Object.entries(value ?? {})) {
    if (typeof weight !== 'number' || !Number.isFinite(weight) || weight < 0 || weights.size >= MAX_LIST) {
      throw invalidField('routing_constraints.preferred_taints', 'must map taints to weights of 0 or more');
    }
    weights.set(taint, weight);
  }
  return weights;
}

function temperatureOf(override: JsonObject | null): number | null {
  if (override === null) return null;
  for (const name of Object.keys(override)) {
    if (name !== 'router_temperature') {
      throw invalidField(
        `router_config_override.${name}`,
        'cannot be set per request; only router_temperature can',
      );
    }
  }
  const value = override.router_temperature ?? null;
  if (value === null) return null;
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
    throw invalidField('router_config_override.router_temperature', 'must be a number of 0 or more');
  }
  return value;
}

/** Whether a trusted caller asked to be told the decision's id. */
export function asksToExplain(headers: TrustedFields['headers']): boolean {
  const value = headers['x-pointsman-explain']?.toLowerCase();
  return value === '1' || value === 'true';
}
