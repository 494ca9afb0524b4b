// Reads a hint envelope of protocol 0.1 as it was received. What cannot be understood becomes an outcome; the request goes on
// without it.
import type { SimulatedHintOutcome } from '../types.ts';

/** Actions this engine can execute. */
export const EXECUTED_ACTIONS: readonly string[] = ['kv.fetch@1.0', 'kv.retain@1.0'];
/** Hashes of one fetch that are looked at; the rest is left out, and the outcome says so. */
export const MAX_FETCH_HASHES = 4096;
const MAX_RETAIN_HASHES = 65_536;
const MAX_ACTIONS = 32;
const MAX_TTL_MS = 86_400_000;

/** A fetch to try at admission. */
export interface FetchPlan {
  readonly actionId: string;
  /** Place of its outcome. */
  readonly position: number;
  readonly endpoint: string;
  readonly blockHashes: BigUint64Array;
}

/** Blocks to retain at admission. */
export interface RetainPlan {
  readonly actionId: string;
  readonly position: number;
  readonly blockHashes: BigUint64Array;
  readonly priority: number;
  readonly ttlMs: number;
}

/** An envelope as this engine will act on it. `outcomes` has one entry per action; those of planned ones are overwritten. */
export interface HintPlan {
  readonly messageId: string;
  readonly fetch: FetchPlan | null;
  readonly retains: readonly RetainPlan[];
  readonly outcomes: readonly SimulatedHintOutcome[];
}

const NO_HINTS: HintPlan = { messageId: '', fetch: null, retains: [], outcomes: [] };

/**
 * Plans an envelope's actions.
 * @param hint the parsed JSON; u64 values as bigint, or in bulk as BigUint64Array.
 * @param advertised `type@version`s the engine admits to; null = not said, then everything it can.
 * @param accepted further ones that are answered `accepted` and come to nothing.
 */
export function planHints(
  hint: unknown,
  advertised: readonly string[] | null,
  accepted: readonly string[] = [],
): HintPlan {
  if (hint === null || hint === undefined) return NO_HINTS;
  const envelope = recordOf(hint);
  const actions = envelope?.actions;
  if (
    envelope === null ||
    envelope.protocol_version !== '0.1' ||
    typeof envelope.message_id !== 'string' ||
    !Array.isArray(actions) ||
    actions.length > MAX_ACTIONS
  ) {
    return { ...NO_HINTS, outcomes: [{ action_id: '', outcome: 'rejected', reason: 'malformed' }] };
  }
  let fetch: FetchPlan | null = null;
  const retains: RetainPlan[] = [];
  const outcomes: SimulatedHintOutcome[] = [];
  for (const action of actions as readonly unknown[]) {
    const planned = planAction(action, outcomes.length, advertised, accepted);
    outcomes.push(planned.outcome);
    if (planned.retain) retains.push(planned.retain);
    if (!planned.fetch) continue;
    // Consumers act on the first fetch of an envelope only.
    if (fetch === null) fetch = planned.fetch;
    else outcomes[outcomes.length - 1] = { ...planned.outcome, reason: 'policy' };
  }
  return { messageId: envelope.message_id, fetch, retains, outcomes };
}

interface PlannedAction {
  readonly outcome: SimulatedHintOutcome;
  readonly fetch?: FetchPlan;
  readonly retain?: RetainPlan;
}

function planAction(
  value: unknown,
  position: number,
  advertised: readonly string[] | null,
  accepted: readonly string[],
): PlannedAction {
  const action = recordOf(value);
  const actionId = typeof action?.action_id === 'string' ? action.action_id : '';
  const rejected = (reason: string): SimulatedHintOutcome => ({
    action_id: actionId,
    outcome: 'rejected',
    reason,
  });
  const payload = recordOf(action?.payload);
  if (
    !actionId ||
    typeof action?.action_type !== 'string' ||
    typeof action.action_version !== 'string' ||
    !payload
  ) {
    return { outcome: rejected('malformed') };
  }
  const name = `${action.action_type}@${action.action_version}`;
  if (!EXECUTED_ACTIONS.includes(name) && accepted.includes(name)) {
    return { outcome: { action_id: actionId, outcome: 'accepted', reason: 'no_effect' } };
  }
  if (!EXECUTED_ACTIONS.includes(name) || (advertised !== null && !advertised.includes(name))) {
    return { outcome: rejected('unsupported') };
  }
  const blockHashes = hashesOf(payload.block_hashes);
  if (blockHashes === null) return { outcome: rejected('malformed') };
  // Until it has been executed, an action counts as refused.
  const outcome = rejected('no_room');
  if (name === 'kv.fetch@1.0') {
    const endpoint = payload.source_control_endpoint;
    if (typeof endpoint !== 'string' || endpoint === '' || endpoint.length > 512) {
      return { outcome: rejected('malformed') };
    }
    return { outcome, fetch: { actionId, position, endpoint, blockHashes } };
  }
  const priority = integerOf(payload.priority, 0, 100);
  const ttlMs = integerOf(payload.ttl_ms, 1, MAX_TTL_MS);
  if (priority === null || ttlMs === null || blockHashes.length > MAX_RETAIN_HASHES) {
    return { outcome: rejected('malformed') };
  }
  return { outcome, retain: { actionId, position, blockHashes, priority, ttlMs } };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : null;
}

/** Block hashes in any lossless form; null when one is not a u64. */
function hashesOf(value: unknown): BigUint64Array | null {
  if (value instanceof BigUint64Array) return value;
  if (!Array.isArray(value)) return null;
  const hashes = new BigUint64Array(value.length);
  for (const [index, entry] of (value as readonly unknown[]).entries()) {
    if (typeof entry === 'bigint' && entry >= 0n && entry < 1n << 64n) hashes[index] = entry;
    else if (typeof entry === 'number' && Number.isSafeInteger(entry) && entry >= 0)
      hashes[index] = BigInt(entry);
    else return null;
  }
  return hashes;
}

function integerOf(value: unknown, least: number, most: number): number | null {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most
    ? number
    : null;
}
