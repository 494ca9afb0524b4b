// Gives a request without any session id the name of its conversation, where the router tells conversations apart by their prompts.
import type { KeylessSessions } from '../kv/index.ts';
import type { Clock } from '../plugin/index.ts';
import { agentHeadersOf } from './agent-headers.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import { sessionWithin } from './session-namespace.ts';
import type { Walk } from './staged-booking.ts';
import type { RoadRequest } from './types.ts';

/** Who knows conversations. */
export type KeylessNames = Pick<KeylessSessions, 'nameOf'>;

const NO_HEADERS = agentHeadersOf({});

/** What names are given by; without `keyless` none are. */
interface Naming {
  readonly keyless?: KeylessNames | null;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * The walk of a request with its conversation for a session; the same walk where it has a session, where its prompt has no exact hashes,
 * or where its caller carries it.
 */
export function withConversation(
  { keyless: names = null, clock }: Naming,
  walk: Walk,
  { hashes }: Pick<PromptLookup, 'hashes'>,
): Walk {
  const { exchange, request } = walk;
  if (names === null || hashes === null || request.session !== null || (request.caller ?? null) !== null)
    return walk;
  const sessionId = names.nameOf(scopeOf(request), hashes.sequence, clock.now());
  if (sessionId === null) return walk;
  const session = sessionWithin({ sessionId, agentHeaders: NO_HEADERS }, request);
  const named: RoadRequest = { ...request, session };
  exchange.goesOnAs(named);
  return { ...walk, request: named };
}

/** Adapters and cache salts are in the hashes already. */
function scopeOf({ partition, tenant = null }: RoadRequest): string {
  const { model, routingGroup } = partition;
  return `${model}\n${routingGroup}\n${tenant === null ? '' : `=${tenant}`}`;
}
