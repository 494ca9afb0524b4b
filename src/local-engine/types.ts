// What an engine in this process is made of, and what it needs of llama.cpp.
import type { KvEvent } from '../events/index.ts';

/** Settings of one engine, which is one rank. */
export interface LocalEngineSettings {
  /** Name of the model for messages and its advertisement. */
  readonly model: string;
  /** Tokens per KV block. */
  readonly blockSize: number;
  /** Requests that run at the same time, each in a sequence of its own. */
  readonly sequences: number;
  /** KV memory in tokens, divided evenly among the sequences. */
  readonly contextTokens: number;
  /** Requests that may wait for a sequence. */
  readonly maxWaiting: number;
  /** Prompt tokens computed between two looks at whether the request still matters. */
  readonly batchTokens: number;
}

/** How the next token is drawn. */
export interface Sampling {
  /** 0 = the likeliest. */
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly seed: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
}

/** One sequence of a context: tokens in order whose keys and values are kept. */
export interface KvSequence {
  /** Tokens whose KV it has. */
  readonly length: number;
  /** Gives up everything behind the first `tokens`. */
  keep(tokens: number): Promise<void>;
  /** Computes the KV of further tokens. */
  extend(tokens: Uint32Array): Promise<void>;
  /**
   * Computes the KV of `token`, yields the token drawn behind it, computes that one's when it is asked for the next, and so on. The one
   * that was yielded last has no KV.
   */
  generate(token: number, sampling: Sampling): AsyncGenerator<number, void, undefined>;
  /** Replaces what it has by a copy of what another sequence has at this moment. */
  copyFrom(other: KvSequence): Promise<void>;
}

/** A model with the memory of one engine. */
export interface KvContext {
  readonly sequences: readonly KvSequence[];
  /** Whether the model ends its text with this token. */
  endsText(token: number): boolean;
  /** Text of tokens, special ones left out; `before` are those in front of them. */
  textOf(tokens: readonly number[], before: readonly number[]): string;
  /** Whether a token id is one of the model's. */
  knows(token: number): boolean;
  close(): Promise<void>;
}

/** Receives what an engine publishes: the events of one step, in order. */
export type PublishEvents = (events: readonly KvEvent[]) => void;
