// What a reader of the Mooncake table must know: how it was measured, and which aims were met.
import type { EngineHashes, MooncakeOptions } from '../../scripts/mooncake-options.mjs';
import { PAUSE_PASSES, type Pauses } from './pauses.ts';
import { whole } from './rows.ts';

interface Aims {
  /** Times as fast as the tree that events are to be taken in, at least. */
  readonly speed: number;
  /** Bytes per distinct resident block, at most. */
  readonly bytes: number;
}

const AIMS: Readonly<Record<EngineHashes, Aims>> = {
  own: { speed: 5, bytes: 52 },
  router: { speed: 10, bytes: 32 },
};
/** Of the JavaScript heap, per block; below. */
const AIM_HEAP_BYTES = 1;
/** Longest call, at most. */
const AIM_PAUSE_MS = 5;

const unless = (met: boolean): string => (met ? '' : ', which this run missed');

/** Events beside the tree's. */
export function speedInWords(label: string, ratio: number, hashes: EngineHashes): string {
  const aim = AIMS[hashes].speed;
  return `${label}: events ${ratio.toFixed(2)}x as fast as the tree; aim at least ${aim}x${unless(ratio >= aim)}.`;
}

/** Bytes per block, of the index and on the heap. */
export function memoryInWords(
  label: string,
  { bytes, heap }: { readonly bytes: number; readonly heap: number },
  hashes: EngineHashes,
): string {
  const aim = AIMS[hashes].bytes;
  const met = bytes <= aim && heap < AIM_HEAP_BYTES;
  return `${label}: ${bytes.toFixed(1)} bytes per block and ${heap.toFixed(2)} on the JavaScript heap; aim at most ${aim} and below ${AIM_HEAP_BYTES}${unless(met)}.`;
}

/** The longest call of all. */
export function pausesInWords(pauses: readonly Pauses[]): string {
  const longest = Math.max(
    ...pauses.flatMap(({ find, piece, remove, store }) => [find, piece, remove, store]),
  );
  return `Longest call of all: ${longest.toFixed(2)} ms; aim at most ${AIM_PAUSE_MS} ms${unless(longest <= AIM_PAUSE_MS)}.`;
}

/** What is in the figures and what is not. */
export function settingsInWords(options: MooncakeOptions, trace: string): string[] {
  const { blockSize, capacity, duplicates, lengthFactor, rounds, seed, traceCopies } = options;
  const grown = [
    ...(lengthFactor > 1 ? [`each id made ${lengthFactor}`] : []),
    ...(traceCopies > 1 ? [`each request made ${traceCopies}, with ids of their own`] : []),
    ...(duplicates > 1 ? [`each worker made ${duplicates} that get the same requests`] : []),
  ];
  const closed = [
    `Closed loop: processor time, garbage collection included; both sides in turn, each from empty, medians of ${rounds} after 2 rounds that are dropped, half as many for all but the first number of workers. Events and look-ups: all in their order; stores (and removes): without the look-ups; look-ups: once more when all events are in. Blocks: those of the requests and of the events.`,
    'The tree of Maps has its bigints made for it, and needs no chained hash; a store of the index includes that.',
    `Longest calls: processor time, collections of V8 that fall into them included, of ${PAUSE_PASSES} passes the least.`,
  ];
  const open = [
    'Open loop: operations fall due in the proportions of the trace, in which many requests share a millisecond, and are done in order by one thread; medians of 3 passes from empty. Wall time: what else the machine does is in it. No ratio where a side fell behind by more than 10 %. The rates of a sweep double, and so does the highest that a side keeps up with.',
  ];
  return [
    `Trace: ${trace}${grown.length > 0 ? `; ${grown.join(', ')}` : ''}.`,
    `Each request is looked up, then goes to a worker drawn at random (seed ${seed}), whose least-recently-used cache of ${whole(capacity)} blocks evicts tails of prompts first. Its blocks, of ${blockSize} tokens, are told in events of at most 8,192 tokens, what it evicts in one. Generated tokens make no blocks.`,
    'Without engine hashes: the engines announce the hashes the router has anyway.',
    ...(options.loops.includes('closed') ? closed : []),
    ...(options.loops.includes('open') ? open : []),
  ];
}
