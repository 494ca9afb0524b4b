// A request that two workers serve has two legs, each a request of its own on the road. What a leg is beside its role.
import type { EngineHandoff } from '../engines/index.ts';
import type { Worker } from '../fleet/index.ts';
import type { Classification } from '../host/index.ts';
import type { HandoffRecord } from '../observe/index.ts';
import type { PlacementOverrides } from '../scheduling/index.ts';

/** One leg. */
export interface RequestLeg {
  readonly overrides: PlacementOverrides;
  /**
   * What the engine is told of handing KV over; called when the leg is booked and goes to this rank next. Null = it serves the
   * request alone. What it throws fails the leg before anything is sent.
   */
  readonly handoff: (worker: Worker, rank: number) => EngineHandoff | null;
  /** See `EngineRequest.prefilledCachedTokens`; absent there = null here. */
  readonly prefilledCachedTokens: (() => number | null) | null;
  /** What the request was classified as, for the leg that is not classified itself. */
  readonly classification: Classification | null;
  /** What the record says of it, read whenever that is. */
  readonly record: HandoffRecord;
  /** It helps another one: it is neither refused by number nor counted. */
  readonly aside: boolean;
}

/** Whether a request helps another one, earlier or to come, so that it is not counted itself. */
export function isAside({ door, leg }: { readonly door: string; readonly leg?: RequestLeg }): boolean {
  return leg?.aside === true || door === 'speculative';
}

/** Whether others work for it or with it, so that it cannot be tried again by itself. */
export function isOneOfTwo({ gate, leg }: { readonly gate?: unknown; readonly leg?: unknown }): boolean {
  return gate !== undefined || leg !== undefined;
}

/** Whether its report counts: of two legs that of the one that computed the prompt does. */
export function computesPrompt(leg: RequestLeg | undefined): boolean {
  return leg === undefined || leg.prefilledCachedTokens === null;
}
