// What a request may do otherwise than its role says: the router's own overrides for requests that two workers serve
// (`router_config_override` of the Rust router, as far as disaggregation forces them).
import { blocksOf } from './selection-facts.ts';
import type { PlacementRequest } from './types.ts';

/** Departures; absent members are as the role says. */
export interface PlacementOverrides {
  /** False = none of its blocks is shared with another request: all are booked, as under random hashes. */
  readonly assumeKvReuse?: boolean;
  /** False = what a worker has cached earns no credit. */
  readonly overlapCredit?: boolean;
  /** Whether its prompt is booked as load of prefill. */
  readonly trackPrefillTokens?: boolean;
  /** False = its blocks are not booked at all. */
  readonly trackActiveBlocks?: boolean;
}

/** The request as placing sees it; the same object where nothing is overridden. */
export function overridden(request: PlacementRequest): PlacementRequest {
  const { overrides } = request;
  if (overrides === undefined) return request;
  return {
    ...request,
    hashes: overrides.assumeKvReuse === false ? null : request.hashes,
    match: overrides.overlapCredit === false ? null : request.match,
  };
}

/** Whether its prompt counts as load of prefill. */
export function tracksPrefillTokens({ overrides, role, tracksPrefill }: PlacementRequest): boolean {
  return tracksPrefill ?? overrides?.trackPrefillTokens ?? role !== 'decode';
}

/** Full blocks of its prompt that are booked. */
export function bookedBlocks(request: PlacementRequest): number {
  return request.overrides?.trackActiveBlocks === false ? 0 : blocksOf(request);
}
