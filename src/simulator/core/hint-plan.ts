// Reads a hint envelope of protocol 0.1 as it was received. What cannot be understood becomes an outcome; the request goes on
// without it.
import type { SimulatedHintOutcome } from '../types.ts';
import {
  type FetchBlocks,
  type HintPayload,
  MAX_RANGE_ACTIONS,
  MAX_RANGE_DIRECTIVES,
  PAYLOAD_READERS,
  recordOf,
} from './hint-payloads.ts';

/** Actions this engine can execute. */
export const EXECUTED_ACTIONS: readonly string[] = Object.keys(PAYLOAD_READERS);
const MAX_ACTIONS = 32;
/** Ids are repeated in events: in UTF-8 they have to be within what event decoders take. */
const MAX_ID = 256;

interface Planned {
  readonly actionId: string;
  /** Place of its outcome. */
  readonly position: number;
}

/** A fetch to try at admission. */
export type FetchPlan = FetchBlocks & Planned;

/** Anything else, to be done at admission or at the end of the request. */
export type WorkPlan = Exclude<HintPayload, FetchBlocks> & Planned;

/** An envelope as this engine will act on it. `outcomes` has one entry per action; those of planned ones are overwritten. */
export interface HintPlan {
  readonly messageId: string;
  readonly fetch: FetchPlan | null;
  readonly work: readonly WorkPlan[];
  readonly outcomes: readonly SimulatedHintOutcome[];
}

const NO_HINTS: HintPlan = { messageId: '', fetch: null, work: [], outcomes: [] };

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
    !isId(envelope.message_id) ||
    !Array.isArray(actions) ||
    actions.length > MAX_ACTIONS
  ) {
    return { ...NO_HINTS, outcomes: [{ action_id: '', outcome: 'rejected', reason: 'malformed' }] };
  }
  let fetch: FetchPlan | null = null;
  const work: WorkPlan[] = [];
  const outcomes: SimulatedHintOutcome[] = [];
  const ranges = new RangeLimits();
  for (const action of actions as readonly unknown[]) {
    const position = outcomes.length;
    const { actionId, outcome, payload } = planAction(action, advertised, accepted);
    outcomes.push(outcome);
    if (payload === null) continue;
    if (payload.kind === 'fetch') {
      // Consumers act on the first fetch of an envelope only.
      if (fetch === null) fetch = { ...payload, actionId, position };
      else outcomes[position] = { ...outcome, reason: 'policy' };
    } else if (payload.kind === 'retain-ranges' && !ranges.take(payload.scope, payload.directives.length)) {
      outcomes[position] = { ...outcome, reason: 'malformed' };
    } else work.push({ ...payload, actionId, position });
  }
  return { messageId: envelope.message_id, fetch, work, outcomes };
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_ID;
}

interface PlannedAction {
  readonly actionId: string;
  readonly outcome: SimulatedHintOutcome;
  readonly payload: HintPayload | null;
}

/** The token-range retains of one envelope share a scope and have bounds together. */
class RangeLimits {
  #actions = 0;
  #directives = 0;
  #scope: string | null = null;

  take(scope: string | null, directives: number): boolean {
    if (this.#actions > 0 && scope !== this.#scope) return false;
    if (this.#actions === MAX_RANGE_ACTIONS || this.#directives + directives > MAX_RANGE_DIRECTIVES)
      return false;
    this.#scope = scope;
    this.#actions += 1;
    this.#directives += directives;
    return true;
  }
}

function planAction(
  value: unknown,
  advertised: readonly string[] | null,
  accepted: readonly string[],
): PlannedAction {
  const action = recordOf(value);
  const actionId = isId(action?.action_id) ? action.action_id : '';
  const answered = (outcome: 'accepted' | 'rejected', reason: string): PlannedAction => ({
    actionId,
    outcome: { action_id: actionId, outcome, reason },
    payload: null,
  });
  const fields = recordOf(action?.payload);
  if (
    !actionId ||
    typeof action?.action_type !== 'string' ||
    typeof action.action_version !== 'string' ||
    !fields
  ) {
    return answered('rejected', 'malformed');
  }
  const name = `${action.action_type}@${action.action_version}`;
  const read = Object.hasOwn(PAYLOAD_READERS, name) ? PAYLOAD_READERS[name] : undefined;
  if (read === undefined && accepted.includes(name)) return answered('accepted', 'no_effect');
  if (read === undefined || (advertised !== null && !advertised.includes(name))) {
    return answered('rejected', 'unsupported');
  }
  const payload = read(fields);
  if (payload === null) return answered('rejected', 'malformed');
  // Until it has been executed, an action counts as refused.
  return { ...answered('rejected', 'no_room'), payload };
}
