/** What the Mooncake benchmark runs; sizes are whole numbers from 1. */
export interface MooncakeOptions {
  readonly trace: {
    /** `conversation`, `synthetic`, `toolagent`, or the name of a file without its folder. */
    readonly name: string;
    /** Absolute path; null = make one of that shape. */
    readonly file: string | null;
    /** Why one is made, in words; null when it is read. */
    readonly reason: string | null;
  };
  /** Requests of the trace that are read or made; null = all, or as many as a made one has. */
  readonly limit: number | null;
  /** Numbers of unique workers: the first with everything, the others in the closed loop only. */
  readonly workers: readonly number[];
  /** Copies of every worker, which get its requests and tell its events too. */
  readonly duplicates: number;
  /** Ids that an id of the trace becomes. */
  readonly lengthFactor: number;
  /** Copies of every request, with ids of their own. */
  readonly traceCopies: number;
  /** Tokens that an id is repeated for, to make its block. */
  readonly blockSize: number;
  /** Blocks of a worker's cache. */
  readonly capacity: number;
  readonly seed: number;
  /** `own` = hashes of the engine's own, `router` = the router's. */
  readonly engineHashes: readonly EngineHashes[];
  readonly loops: readonly ('closed' | 'open')[];
  readonly rounds: number;
  /** Operations per second offered in the open loop; null = a sweep. */
  readonly rates: readonly number[] | null;
}

/** Under which hashes the workers announce blocks. */
export type EngineHashes = 'own' | 'router';

/** Options, or the help that was asked for, or what is wrong with them in words. */
export type MooncakeArguments =
  | { readonly options: MooncakeOptions }
  | { readonly help: string }
  | { readonly problem: string };

/**
 * Reads the options of the Mooncake benchmark.
 * @param data folder with the traces.
 */
export function readMooncakeArguments(args: readonly string[], data: string): MooncakeArguments;
