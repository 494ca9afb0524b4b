// The two requests that one becomes, and the one it stays where its decode worker computes the prompt itself.
import type { EngineHandoff } from '../../engines/index.ts';
import type { Worker } from '../../fleet/index.ts';
import type { Classification } from '../../host/index.ts';
import type { HandoffRecord } from '../../observe/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { PlacementOverrides } from '../../scheduling/index.ts';
import type { RequestLeg } from '../request-leg.ts';
import type { RoadRequest, RoutingConstraints } from '../types.ts';

/** What a record says of a leg; filled in as the legs go on. */
export type MutableHandoffRecord = { -readonly [K in keyof HandoffRecord]: HandoffRecord[K] };

/** A prompt that is computed for another worker is load of prefill, and holds no blocks of decode. */
const PREFILL: PlacementOverrides = { trackActiveBlocks: false };

/** The decode worker gets its blocks anew: what it has cached is worth nothing, and it computes no prompt. */
const DECODE: PlacementOverrides = { assumeKvReuse: false, trackPrefillTokens: false, overlapCredit: false };

/** The same where cached blocks may lead to a bypass, so that they draw requests. */
const DECODE_CREDITED: PlacementOverrides = { assumeKvReuse: false, trackPrefillTokens: false };

/** The decode worker computes the prompt as well. */
const LOCAL: PlacementOverrides = { trackPrefillTokens: true };

/** Overrides of the leg that decodes. @param conditional whether bypasses are possible at all. */
export function decodeOverrides(conditional: boolean): PlacementOverrides {
  return conditional ? DECODE_CREDITED : DECODE;
}

/**
 * The leg that computes the prompt: one token, in one piece.
 * @throws PointsmanError PM_DISAGG_REQUEST when the request wants more than one answer.
 */
export function prefillRequest(
  request: RoadRequest,
  classification: Classification | null,
  record: HandoffRecord,
  handoff: (worker: Worker, rank: number) => EngineHandoff,
): RoadRequest {
  const { body, constraints } = request;
  return {
    ...request,
    role: 'prefill',
    body: body && prefillBody(body),
    stream: false,
    maxOutputTokens: 1,
    expectedOutputTokens: null,
    constraints: { ...constraints, pinnedWorker: constraints.pinnedPrefill ?? null },
    leg: {
      overrides: PREFILL,
      handoff,
      prefilledCachedTokens: null,
      classification,
      record,
      aside: true,
    },
  };
}

/** The leg that decodes. */
export function decodeRequest(
  request: RoadRequest,
  constraints: RoutingConstraints,
  leg: Pick<RequestLeg, 'handoff' | 'overrides' | 'prefilledCachedTokens' | 'record'>,
): RoadRequest {
  return {
    ...request,
    role: 'decode',
    // The prompt's blocks come from the other worker: nothing that a caller's envelope says of them is of use here.
    incomingHint: null,
    constraints,
    leg: { ...leg, classification: null, aside: false },
  };
}

/** The request as its decode worker serves it alone. */
export function localRequest(
  request: RoadRequest,
  constraints: RoutingConstraints,
  record: HandoffRecord,
): RoadRequest {
  return {
    ...request,
    role: 'decode',
    constraints,
    leg: {
      overrides: LOCAL,
      handoff: () => null,
      prefilledCachedTokens: null,
      classification: null,
      record,
      aside: false,
    },
  };
}

function prefillBody(body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { n } = body;
  if (typeof n === 'number' && n > 1) {
    throw new PointsmanError(
      'PM_DISAGG_REQUEST',
      `n is ${n}, and this model is served by separate prefill and decode workers, which answer a prompt once; send n requests`,
    );
  }
  const { min_tokens: _least, stream_options: _options, max_completion_tokens: most, ...rest } = body;
  return { ...rest, max_tokens: 1, ...(most === undefined ? null : { max_completion_tokens: 1 }) };
}
