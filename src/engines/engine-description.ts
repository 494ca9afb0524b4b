// What a stock engine says of itself when it is asked outside of any request: each dialect knows where its engine says it.
import type { KvEventEndpoints } from '../fleet/index.ts';

/** One question to an engine. */
export interface EngineQuestion {
  readonly method: 'GET' | 'POST';
  /** Path below the worker's url. */
  readonly path: string;
  /** Sent as JSON; absent = no body. */
  readonly body?: unknown;
}

/** What came back. */
export interface EngineAnswer {
  readonly status: number;
  /** Body as text, at most 1 MiB. */
  readonly text: string;
}

/** Asks the engine. @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers, or more than a MiB. */
export type AskEngine = (question: EngineQuestion) => Promise<EngineAnswer>;

/** An engine by its own account. Null members are not said. */
export interface EngineDescription {
  readonly version: string | null;
  /** Names under which it serves. */
  readonly models: readonly string[] | null;
  /** Tokens per block of its prefix cache. */
  readonly blockSize: number | null;
  /** Of one rank. */
  readonly totalKvBlocks: number | null;
  readonly maxNumBatchedTokens: number | null;
  /** Tokens of prompt and output together. */
  readonly maxModelLength: number | null;
  readonly ranks: number | null;
  readonly prefixCaching: boolean | null;
  /** Where it publishes KV events, by rank; empty = it publishes none. */
  readonly kvEvents: ReadonlyMap<number, KvEventEndpoints> | null;
  readonly chatTemplate: string | null;
}
