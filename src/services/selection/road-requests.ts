// What clients ask, as requests of the road.
import type { Partition } from '../../plugin/index.ts';
import { NO_CONSTRAINTS, type RoadRequest, type RoutingConstraints } from '../../road/index.ts';
import type { ChoiceRequest } from './choice.ts';
import type { HeldSelection } from './held-selection.ts';
import type { ReadPrompt } from './prompt-fields.ts';
import type { Overrides, Place } from './request-fields.ts';
import type { ReservationRequest } from './reservation.ts';

/** A request to choose a worker. */
export interface Asked {
  readonly id: string;
  readonly partition: Partition;
  readonly prompt: ReadPrompt;
  readonly overrides: Overrides;
  readonly constraints: RoutingConstraints;
  readonly affinityTarget: Place | null;
  readonly session: RoadRequest['session'];
  readonly policyClass: string | null;
  readonly expectedOutputTokens: number | null;
}

/** A request to book a worker that the caller chose. */
export interface AskedPlace extends Asked {
  readonly workerId: bigint;
  readonly rank: number;
  /** Null = its whole prompt. */
  readonly prefillTokens: number | null;
}

type CallerFacts = ReservationRequest['caller'];
type RequestFacts = Pick<
  RoadRequest,
  'partition' | 'session' | 'constraints' | 'policyClass' | 'expectedOutputTokens'
>;

const NO_TOKENS = new Uint32Array(0);

/** One that the road chooses a worker for. */
export function freeRequest(asked: Asked): ReservationRequest {
  const { affinityTarget, id, overrides, prompt } = asked;
  return requestOf(id, asked, prompt, {
    target: null,
    looksUp: true,
    sharesBlocks: overrides.sharesBlocks ?? true,
    tracksPrefill: overrides.tracksPrefill,
    costOverride: overrides.cost,
    affinityTarget,
  });
}

/** The same, for a choice without a booking. */
export function choiceRequest(asked: Asked): ChoiceRequest {
  const request = freeRequest(asked);
  return { ...request, caller: { ...request.caller, transport: null } };
}

/** The same, for looks at the state of the moment: nobody is told of anything. */
export function probeRequest(asked: Asked): RoadRequest {
  const request = choiceRequest(asked);
  return { ...request, caller: { ...request.caller, placed: () => undefined } };
}

/** One that was chosen before; copies that it may name are looked up again. */
export function replayRequest(partition: Partition, id: string, held: HeldSelection): ReservationRequest {
  const { commitsCopy, prefillTokens, priority, strictPriority } = held;
  const constraints = { ...pinnedAt(held.workerId, held.rank), priority, strictPriority };
  return requestOf(id, { ...held, partition, constraints }, held.prompt, {
    target: { prefillTokens, commitsCopy },
    looksUp: true,
    sharesBlocks: held.sharesBlocks,
    tracksPrefill: held.tracksPrefill,
    costOverride: null,
    affinityTarget: null,
  });
}

/** One whose worker the caller chose: nothing is looked up, so hints name no copies. */
export function placeRequest(asked: AskedPlace): ReservationRequest {
  const { id, overrides, prefillTokens, prompt, rank, workerId } = asked;
  const { priority, strictPriority } = asked.constraints;
  const constraints = { ...pinnedAt(workerId, rank), priority, strictPriority };
  return requestOf(id, { ...asked, constraints }, prompt, {
    target: { prefillTokens: prefillTokens ?? prompt.promptTokens, commitsCopy: false },
    looksUp: false,
    sharesBlocks: overrides.sharesBlocks ?? true,
    tracksPrefill: prefillTokens === null ? overrides.tracksPrefill : (overrides.tracksPrefill ?? true),
    costOverride: null,
    affinityTarget: null,
  });
}

function pinnedAt(workerId: bigint, rank: number): RoutingConstraints {
  return { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank } };
}

function requestOf(
  requestId: string,
  { constraints, expectedOutputTokens, partition, policyClass, session }: RequestFacts,
  prompt: ReadPrompt,
  caller: Omit<CallerFacts, 'prompt'>,
): ReservationRequest {
  return {
    requestId,
    door: 'selection',
    partition,
    role: 'aggregated',
    servedAs: partition.model,
    api: 'completions',
    body: null,
    stream: false,
    tokens: NO_TOKENS,
    tokensSource: 'given',
    maxOutputTokens: expectedOutputTokens ?? 0,
    expectedOutputTokens,
    // Its hashes are made, and which adapters workers hold their records do not say.
    loraName: null,
    cacheSalt: null,
    session,
    constraints,
    policyClass: policyClass ?? null,
    incomingHint: null,
    tokenizeMicros: 0,
    // A place that is chosen is not waited for.
    queueing: caller.target === null ? 'wait' : 'bypass',
    caller: { ...caller, prompt },
  };
}
