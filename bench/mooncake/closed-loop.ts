// As fast as possible: all operations of a trace in their order, its events alone, and its look-ups alone once all events are in.
import { median, processorTime } from '../processor-time.ts';
import type { Operations } from './operations.ts';
import { type MakeSide, SIDES, type Side } from './sides.ts';

/** Milliseconds of processor time, by round. */
interface Times {
  readonly all: number[];
  readonly events: number[];
  readonly finds: number[];
}

/** What one part of the closed loop came to. */
export interface ClosedFigure {
  /** ms of the index and of the tree, medians of the rounds. */
  readonly index: number;
  readonly tree: number;
  /** The tree's time over the index's of the same round, median. */
  readonly ratio: number;
}

/** All operations, events only, look-ups only. */
export type ClosedLoop = Readonly<Record<keyof Times, ClosedFigure>>;

/** Rounds after which V8 has compiled both sides; they are dropped. */
const WARM_UPS = 2;

/**
 * Runs both sides in turn, so many rounds.
 * @throws Error when they disagree about what look-ups find.
 */
export function closedLoop({ list }: Operations, rounds: number): ClosedLoop {
  const places = Array.from(list.keys());
  const order = {
    all: Int32Array.from(places),
    events: Int32Array.from(places.filter((at) => list[at]!.kind !== 'find')),
    finds: Int32Array.from(places.filter((at) => list[at]!.kind === 'find')),
  };
  const run = (make: MakeSide, times: Times): number => {
    const side = make(list);
    let depths = 0;
    const timed = (target: Side, part: keyof Times): void => {
      const work = (): void => {
        depths += applied(target, order[part]);
      };
      times[part].push(processorTime(work));
    };
    timed(side(), 'all');
    const filled = side();
    timed(filled, 'events');
    timed(filled, 'finds');
    return depths;
  };
  const index: Times = { all: [], events: [], finds: [] };
  const tree: Times = { all: [], events: [], finds: [] };
  for (let round = -WARM_UPS; round < rounds; round += 1) {
    const found = run(SIDES.index, index);
    if (found !== run(SIDES.tree, tree)) throw new Error('the index and the tree of Maps disagree');
  }
  const figure = (part: keyof Times): ClosedFigure => {
    const ours = index[part].slice(WARM_UPS);
    const theirs = tree[part].slice(WARM_UPS);
    const ratios = ours.map((time, round) => theirs[round]! / time);
    return { index: median(ours), tree: median(theirs), ratio: median(ratios) };
  };
  return { all: figure('all'), events: figure('events'), finds: figure('finds') };
}

function applied(side: Side, order: Int32Array): number {
  let depths = 0;
  for (const at of order) depths += side.apply(at);
  return depths;
}
