// How a stock engine is asked what it is: each dialect knows where its engine says it.
export type { EngineDescription } from '../fleet/index.ts';

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

/** A description that says nothing: what a dialect fills in. */
export const NOTHING_SAID = {
  version: null,
  models: null,
  blockSize: null,
  totalKvBlocks: null,
  maxNumBatchedTokens: null,
  maxModelLength: null,
  ranks: null,
  prefixCaching: null,
  kvEvents: null,
  chatTemplate: null,
} as const;
