// A request as scheduling takes it.
import type { Classification } from '../host/index.ts';
import type { PlacementRequest } from '../scheduling/index.ts';
import { promptTokensOf } from './caller-part.ts';
import { softTargetOf } from './classify.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import type { SessionPorts } from './session-ports.ts';
import type { RoadRequest } from './types.ts';

/**
 * @param copyCredit false = no copy is counted on.
 * @param sessions null = nothing is kept of them.
 */
export function placementRequest(
  request: RoadRequest,
  classification: Classification | null,
  lookup: PromptLookup,
  copyCredit: boolean,
  sessions: SessionPorts | null,
): PlacementRequest {
  const { caller = null } = request;
  return {
    requestId: request.requestId,
    partition: request.partition,
    role: request.role,
    runtime: lookup.runtime,
    promptTokens: promptTokensOf(request),
    blockSize: lookup.blockSize,
    hashes: lookup.booked,
    match: lookup.match,
    session: request.session,
    constraints: request.constraints,
    loraName: request.loraName,
    expectedOutputTokens: request.expectedOutputTokens,
    lineage: sessions !== null && lookup.runtime.needs.lineage ? sessions.lineageFor(request, null) : null,
    copyCredit: copyCredit && lookup.runtime.commits?.senderIsSkipped() !== true,
    affinityTarget: softTargetOf(classification) ?? caller?.affinityTarget ?? null,
    tracksPrefill: caller?.tracksPrefill ?? null,
    withRegistered: caller !== null,
    target: caller?.target ?? null,
    overrides: request.leg?.overrides,
    costOverride: caller?.costOverride ?? null,
  };
}
