// Traces in the shape of the public ones, for where these are not: by what share of the requests has which first blocks, and how many
// take an earlier prompt up again.

import { seededRng } from '../../src/plugin/index.ts';
import { type Trace, traceOfRows } from '../../src/replay/index.ts';

/** What requests of a trace begin with. */
interface Shape {
  /** Clusters by first block: their share of the requests, and the blocks that all of a cluster share. */
  readonly clusters: readonly { readonly share: number; readonly blocks: number }[];
  /** Share of requests that go on from an earlier prompt. */
  readonly goingOn: number;
  readonly words: string;
}

/**
 * As published of the traces: of conversation every request has the same first block and 37 % of all blocks were seen before; of
 * toolagent there are three first blocks, one of them with a dozen shared ones, and 59 % were seen before; of synthetic 55 % of the
 * requests have a first block of their own.
 */
const SHAPES: Readonly<Record<string, Shape>> = {
  conversation: {
    clusters: [{ share: 1, blocks: 1 }],
    goingOn: 0.37,
    words: 'one first block that all requests share',
  },
  toolagent: {
    clusters: [
      { share: 0.46, blocks: 12 },
      { share: 0.39, blocks: 1 },
      { share: 0.15, blocks: 1 },
    ],
    goingOn: 0.5,
    words: 'three first blocks, with 46, 39 and 15 % of the requests',
  },
  synthetic: { clusters: [], goingOn: 0.45, words: 'a first block of its own for every conversation' },
};

const REQUESTS = 4000;
const TOKENS = 512;
/** Mean new blocks of a first prompt and of one that goes on; one in 16 is eight times as long. */
const FIRST_BLOCKS = 12;
const FURTHER_BLOCKS = 4;
const LONG_ONE_IN = 16;
const LONGER = 8;
/** ms between two requests, mean: 3.4 a second. */
const GAP = 294;
/** Prompts are taken up again while they are among so many latest. */
const RECENT = 256;

/** In words what a made trace of this name looks like. */
export const shapeInWords = (name: string): string => SHAPES[name]!.words;

/**
 * Makes a trace; equal arguments make equal traces.
 * @param name `conversation`, `toolagent` or `synthetic`.
 * @param limit requests; null = 4,000.
 */
export function madeTrace(name: string, limit: number | null, seed: number): Trace {
  const { clusters, goingOn } = SHAPES[name]!;
  const rng = seededRng(seed);
  let nextId = 0;
  const fresh = (mean: number): number[] => {
    const long = rng.integer(LONG_ONE_IN) === 0 ? LONGER : 1;
    return Array.from({ length: long * (1 + rng.integer(2 * mean - 1)) }, () => nextId++);
  };
  const heads = clusters.map(({ blocks }) => Array.from({ length: blocks }, () => nextId++));
  const headOfCluster = (): readonly number[] => {
    let left = rng.next();
    for (const [at, { share }] of clusters.entries()) {
      left -= share;
      if (left < 0) return heads[at]!;
    }
    return heads.at(-1) ?? [];
  };
  const recent: (readonly number[])[] = [];
  let timestamp = 0;
  const rows = Array.from({ length: limit ?? REQUESTS }, (_, request) => {
    const goesOn = request > 0 && rng.next() < goingOn;
    const ids = goesOn
      ? [...recent[rng.integer(recent.length)]!, ...fresh(FURTHER_BLOCKS)]
      : [...headOfCluster(), ...fresh(FIRST_BLOCKS)];
    recent[request % RECENT] = ids;
    timestamp += rng.integer(2 * GAP);
    return { timestamp, input_length: ids.length * TOKENS, output_length: 1, hash_ids: ids };
  });
  return traceOfRows(`made in the shape of ${name}`, rows);
}
