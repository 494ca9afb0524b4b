// What a stock engine says of itself when it is asked outside of any request, and what follows from it where neither configuration
// nor an advertisement says more.
import type { KvEventEndpoints, Worker } from './types.ts';

/** An engine by its own account. Null members are not said. */
export interface EngineDescription {
  readonly version: string | null;
  /** Names under which it serves. */
  readonly models: readonly string[] | null;
  /** Those of them that are LoRA adapters of another; absent = not said. */
  readonly adapters?: readonly string[];
  /** Tokens per block of its prefix cache. */
  readonly blockSize: number | null;
  /** Of one rank, in its own blocks. */
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

/** An engine that was asked what it is. */
export interface RecognizedEngine {
  /** Dialect that it speaks. */
  readonly dialect: string;
  readonly description: EngineDescription;
}

/** Whether two accounts say the same. */
export function sameEngine(a: RecognizedEngine | null, b: RecognizedEngine | null): boolean {
  return a === b || canonical(a) === canonical(b);
}

function canonical(engine: RecognizedEngine | null): string {
  if (engine === null) return 'null';
  const { dialect, description } = engine;
  return JSON.stringify({
    ...description,
    dialect,
    kvEvents: description.kvEvents && [...description.kvEvents],
  });
}

/** What a fact is looked up in. */
type KnownWorker = Pick<Worker, 'spec' | 'capabilities' | 'engine'>;

/** Tokens per block by the worker's own account: as registered, advertised or described; null = it does not say. */
export function saidBlockSize({ spec, capabilities, engine }: KnownWorker): number | null {
  return spec.blockSize ?? capabilities?.blockSize ?? engine?.description.blockSize ?? null;
}

/** Tokens per pass: as configured, else as the engine says; null = not known. */
export function maxNumBatchedTokensOf({ spec, capabilities, engine }: KnownWorker): number | null {
  return (
    spec.maxNumBatchedTokens ??
    capabilities?.maxNumBatchedTokens ??
    engine?.description.maxNumBatchedTokens ??
    null
  );
}

/** KV pool per rank in blocks: as configured, else as the engine counts its own; null = not known. */
export function totalKvBlocksOf({ spec, capabilities, engine }: KnownWorker): number | null {
  return spec.totalKvBlocks ?? capabilities?.totalKvBlocks ?? engine?.description.totalKvBlocks ?? null;
}

/** Where a rank publishes KV events: as configured, else as the engine says; null = nobody says. */
export function kvEventsOf(
  { spec, capabilities, engine }: KnownWorker,
  rank: number,
): KvEventEndpoints | null {
  return (
    spec.kvEvents.get(rank) ??
    capabilities?.ranks.get(rank)?.kvEvents ??
    reachable(engine?.description.kvEvents?.get(rank), spec.url)
  );
}

/**
 * An engine tells the addresses of its own flags: any of its addresses stands for the machine that it is served on. One that it connects
 * to by name is somebody's, but whose it does not say.
 */
function reachable(said: KvEventEndpoints | undefined, url: string): KvEventEndpoints | null {
  if (said === undefined || said.binds) return null;
  const { hostname } = new URL(url);
  const onHost = (address: string): string => address.replace(ANY_ADDRESS, `tcp://${hostname}:`);
  return {
    ...said,
    address: onHost(said.address),
    replay: said.replay === null ? null : onHost(said.replay),
  };
}

const ANY_ADDRESS = /^tcp:\/\/(?:\*|0\.0\.0\.0|\[?::\]?):/;
