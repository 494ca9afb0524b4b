// Requests that their callers carry to the workers themselves: the road classifies, chooses, books and hints as for any other, and
// hands over instead of dispatching. What an engine would tell of its answer, the caller tells of the request.
import type { EngineExchange, EngineReport, EngineRequest, EngineSink } from '../engines/index.ts';
import type { PromptHashes } from '../kv/index.ts';
import type { CostOverride, Placement, PlacementTable, PlacementTarget } from '../scheduling/index.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import type { RoadRequest } from './types.ts';

/** A prompt known by the hashes of its blocks. */
export interface GivenPrompt {
  /** Its length, ≥ 1. */
  readonly promptTokens: number;
  /** Local hashes may be missing (an empty list): then nothing is looked up. */
  readonly hashes: PromptHashes;
}

/** What the caller of a booked request tells of it. */
export interface CallerSink extends EngineSink {
  /** The first token is out; repeating changes nothing. */
  prefillCompleted(): void;
  /** The output grew into one more block. @param weight as of `Scheduler.toldOutputBlock`. */
  outputBlock(weight: number | null): void;
}

/** Takes a booked request over. */
export interface CallerTransport {
  /** Never throws and never calls the sink before it returned. */
  dispatch(request: EngineRequest, sink: CallerSink): EngineExchange;
}

/** A caller says that its request is over, not how it went. */
export const NO_REPORT: EngineReport = {
  promptTokens: null,
  cachedTokens: null,
  outputTokens: null,
  finishReason: null,
  source: 'none',
};

/** What such a request has beyond others. */
export interface CallerPart {
  /** `RoadRequest.tokens` is empty. */
  readonly prompt: GivenPrompt;
  /** Where it goes, chosen before; its constraints pin it there. Null = it is chosen here. */
  readonly target: PlacementTarget | null;
  /** Whether the index is asked, for selection or for copies that hints may name. */
  readonly looksUp: boolean;
  /** Whether blocks that other active requests hold count once. */
  readonly sharesBlocks: boolean;
  /** Whether its prompt counts as load; null = by its role. */
  readonly tracksPrefill: boolean | null;
  readonly costOverride: CostOverride | null;
  /** Where it had better go; a classifier's word counts more. */
  readonly affinityTarget: { readonly workerId: bigint; readonly rank: number | null } | null;
  /** Told where it is booked, before it is hinted, or chosen for; both are reused, so they are to be read at once. */
  placed(lookup: PromptLookup, placement: Placement): void;
  /**
   * Null = it is only chosen for: it is not classified, waits for its turn as any other, and finishes once `placed` has the choice.
   * Nothing is booked.
   */
  readonly transport: CallerTransport | null;
}

/** A choice without a booking; reused objects, to be read at once. */
export interface Choice {
  readonly lookup: PromptLookup;
  readonly placement: Placement;
}

/** All candidates for a prompt; reused objects, to be read at once. */
export interface Projection {
  readonly lookup: PromptLookup;
  readonly table: PlacementTable;
}

/** Requests that wait for their turn. */
export interface Waits {
  readonly requests: number;
  /** Of their prompts. */
  readonly promptTokens: number;
}

/** Whether a request is only chosen for, and never booked. */
export function isChoiceOnly({ caller = null }: Pick<RoadRequest, 'caller'>): boolean {
  return caller !== null && caller.transport === null;
}

/** Length of a request's prompt in tokens. */
export function promptTokensOf({ caller, tokens }: RoadRequest): number {
  return caller?.prompt.promptTokens ?? tokens.length;
}
