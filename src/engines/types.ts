// The port between the road and an engine, the same for HTTP workers and for simulated ones in this process.

import type { Worker } from '../fleet/index.ts';
import type { HintOutcome } from '../observe/index.ts';
import type { KvHint, Partition, PointsmanError, Role, SessionContext } from '../plugin/index.ts';

/** Which API the client speaks; the dialect builds the engine's body from `body`. */
export type RequestApi = 'chat' | 'completions';

/** One leg's part in handing the KV of a prompt from the engine that computes it to the one that decodes. */
export type EngineHandoff =
  | {
      readonly shape: 'vllm';
      /** `kv_transfer_params`, as the connector wants them or as the other engine answered them. */
      readonly params: Readonly<Record<string, unknown>>;
    }
  | {
      readonly shape: 'sglang';
      /** Where the prefill engine waits for the other. */
      readonly host: string;
      readonly port: number;
      /** In which both meet; 0 to 2^63 − 1. */
      readonly room: bigint;
      /** Rank that computes the prompt, for the leg that decodes; null = it is not said. */
      readonly prefillRank: number | null;
    };

/** What a door asks an engine to do, once the road has chosen where. */
export interface EngineRequest {
  readonly requestId: string;
  readonly partition: Partition;
  readonly role: Role;
  readonly worker: Worker;
  readonly rank: number;
  /** Model name the engine knows. */
  readonly servedAs: string;
  readonly api: RequestApi;
  /** Client's parsed body, already stripped of router-only fields; null where no HTTP is spoken (replay). */
  readonly body: Readonly<Record<string, unknown>> | null;
  readonly stream: boolean;
  /** Exact prompt tokens; null when they are an estimate. */
  readonly tokens: Uint32Array | null;
  readonly maxOutputTokens: number;
  readonly session: SessionContext | null;
  readonly hint: KvHint | null;
  /** How important it is, an i32, higher is more; each dialect has its own way round. Null or absent = not said. */
  readonly priority?: number | null;
  /** Asks the engine for the prompt token ids that it sees, which the client gets to see only if it asked itself; absent = no. */
  readonly asksPromptTokenIds?: boolean;
  /** Null or absent = the engine serves the request alone. */
  readonly handoff?: EngineHandoff | null;
  /**
   * Cached tokens as reported by the engine that computed the prompt, in place of what this one says; null = not known. Absent =
   * this engine computes it.
   */
  readonly prefilledCachedTokens?: () => number | null;
}

/** One action's outcome as the engine reported it with the response head. */
export interface ReportedHintOutcome {
  readonly actionId: string;
  readonly outcome: Exclude<HintOutcome, 'unreported'>;
  readonly reason: string | null;
  readonly blocksAsked: number | null;
  readonly blocksDone: number | null;
  readonly bytes: number | null;
  /** How long it took; null or absent = not reported. */
  readonly ms?: number | null;
}

/** What the engine said it did, at the end; null fields were not reported. */
export interface EngineReport {
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
  readonly finishReason: string | null;
  /** Where the numbers come from. */
  readonly source: 'usage' | 'none';
  /** Prompt token ids as the engine saw them, where they were asked for; null or absent = not said. */
  readonly promptTokenIds?: Uint32Array | null;
  /** What the engine says of the blocks it holds for another; null or absent = nothing. */
  readonly handoff?: Readonly<Record<string, unknown>> | null;
}

/** Receives an engine's answer. Calls come in order: head, then data and tokens, then exactly one of finished and failed. */
export interface EngineSink {
  /** Status and headers to relay, hop-by-hop and outcome headers removed. */
  head(
    status: number,
    headers: Readonly<Record<string, string>>,
    outcomes: readonly ReportedHintOutcome[],
  ): void;
  /** Raw body bytes to relay; never called by the virtual transport. */
  data(bytes: Uint8Array): void;
  /**
   * `count` more output tokens were generated (at least 1) now; the first call is the first token. An answer that comes as a
   * whole has no such calls: when its tokens came out cannot be seen from outside.
   */
  tokens(count: number): void;
  finished(report: EngineReport): void;
  /** The engine could not be reached, or died; after `head` the answer is cut short. */
  failed(error: PointsmanError): void;
}

/** A dispatched request. */
export interface EngineExchange {
  /** Ends it at once; no sink call follows. Idempotent. */
  abort(): void;
  /** Flow control for the relayed body. */
  pause(): void;
  resume(): void;
}

/** Carries requests to one kind of engine. */
export interface EngineTransport {
  /** Never throws and never calls the sink before it returned. */
  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange;
  /** Closes connections; running exchanges fail. */
  close(): void;
}
