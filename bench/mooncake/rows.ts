// The loops' figures as rows of the benchmark's table: the index with its ratio to the tree of Maps, and the tree below.
import type { BenchRow } from '../bench-result.ts';
import { memoryRows } from '../index-memory.ts';
import { type ClosedFigure, closedLoop } from './closed-loop.ts';
import { behind, medianPass, type OpenPass, openPass, sweepRates } from './open-loop.ts';
import type { Operations } from './operations.ts';
import type { Pauses } from './pauses.ts';
import { IndexSide, SIDES, type Side, TreeSide, treeOperations } from './sides.ts';

const TREE = 'map tree';
/** Passes of the open loop at each rate and side. */
const OPEN_PASSES = 3;

/** A whole number with separators. */
export const whole = (value: number): string => Math.round(value).toLocaleString('en-US');

type Both<T> = Readonly<Record<'index' | 'tree', T>>;

function both(name: string, unit: string, { index, tree }: Both<number>, ratio: number | null): BenchRow[] {
  return [
    { case: name, unit, value: index, ratio, against: ratio === null ? null : TREE },
    { case: `${name}, ${TREE}`, unit, value: tree, ratio: null, against: null },
  ];
}

/**
 * Rows of the closed loop.
 * @returns also how many times as fast as the tree the index takes events in.
 */
export function closedRows(
  label: string,
  work: Operations,
  rounds: number,
): { rows: BenchRow[]; events: number } {
  const { all, events, finds } = closedLoop(work, rounds);
  const { blocksLookedUp, blocksTold, list, removes } = work;
  const perSecond = (count: number, { index, tree }: ClosedFigure): Both<number> => ({
    index: (count / index) * 1000,
    tree: (count / tree) * 1000,
  });
  const everything = `${label}: events and look-ups`;
  const told = `${label}: ${removes ? 'stores and removes' : 'stores'}`;
  return {
    events: events.ratio,
    rows: [
      ...both(everything, 'operations/s', perSecond(list.length, all), all.ratio),
      ...both(everything, 'blocks/s', perSecond(blocksLookedUp + blocksTold, all), null),
      ...both(told, 'blocks/s', perSecond(blocksTold, events), events.ratio),
      ...both(`${label}: look-ups`, 'blocks/s', perSecond(blocksLookedUp, finds), finds.ratio),
    ],
  };
}

/**
 * Rows of the open loop at these rates, or of a sweep, in which each side goes on until it falls behind.
 * @param warn hears at once who falls behind.
 */
export function openRows(
  label: string,
  work: Operations,
  rates: readonly number[] | null,
  warn: (text: string) => void,
): BenchRow[] {
  // Compiled before the clock runs, also where no closed loop came before.
  for (const make of Object.values(SIDES)) {
    const side = make(work.list)();
    work.list.forEach((_, at) => void side.apply(at));
  }
  const kept = { index: 0, tree: 0 };
  let running: readonly ('index' | 'tree')[] = ['index', 'tree'];
  const rows: BenchRow[] = [];
  for (const rate of rates ?? sweepRates(work.list.length)) {
    const at = `${label}, ${whole(rate)} operations/s`;
    const passes: Both<OpenPass[]> = { index: [], tree: [] };
    for (let pass = 0; pass < OPEN_PASSES; pass += 1) {
      for (const name of running) passes[name].push(freshPass(name, work, rate));
    }
    const figures = { index: medianPass(passes.index), tree: medianPass(passes.tree) };
    const keepUp = running.filter((name) => !behind(rate, figures[name]));
    for (const name of keepUp) kept[name] = Math.max(kept[name], rate);
    for (const name of running.filter((late) => !keepUp.includes(late))) {
      const words = name === 'tree' ? 'the tree of Maps' : 'the index';
      warn(`${at}: ${words} fell behind by more than 10 %, ${whole(figures[name].achieved)} were done`);
    }
    rows.push(...rowsOfRate(at, figures, running, keepUp.length === 2));
    if (rates === null) running = keepUp;
    if (running.length === 0) break;
  }
  if (rates !== null) return rows;
  const ratio = kept.tree > 0 ? kept.index / kept.tree : null;
  return [...rows, ...both(`${label}: highest rate kept up with`, 'operations/s', kept, ratio)];
}

function freshPass(name: 'index' | 'tree', work: Operations, rate: number): OpenPass {
  const side = SIDES[name](work.list)();
  globalThis.gc?.();
  return openPass(side, work, rate, () => performance.now());
}

/** Who falls behind waits ever longer: only where both keep up is there a ratio. */
function rowsOfRate(
  at: string,
  figures: Both<OpenPass>,
  running: readonly ('index' | 'tree')[],
  comparable: boolean,
): BenchRow[] {
  const fields = [
    ['achieved', 'operations/s', 'done'],
    ['p50', 'µs', 'look-up p50 from when due'],
    ['p99', 'µs', 'look-up p99 from when due'],
    ['callP99', 'µs', 'look-up p99 of the call'],
  ] as const;
  return fields.flatMap(([field, unit, words]) => {
    const [index, tree] = [figures.index[field], figures.tree[field]];
    const ratio = comparable && field !== 'achieved' ? tree / index : null;
    const rows = both(`${at}: ${words}`, unit, { index, tree }, ratio);
    return rows.filter((_, row) => running.includes(row === 0 ? 'index' : 'tree'));
  });
}

/**
 * Rows for what blocks that are resident at the end cost in memory.
 * @returns also bytes per block, of the index and on the heap beside it.
 */
export function residentRows(
  label: string,
  { list }: Operations,
): { rows: BenchRow[]; bytes: number; heap: number } {
  const events = list.filter(({ kind }) => kind !== 'find');
  const fill = (side: Side): void => events.forEach((_, at) => void side.apply(at));
  const rows = memoryRows(label, {
    index: (index) => fill(new IndexSide(events, index)),
    prepare: () => treeOperations(events),
    tree: (tree, prepared) => fill(new TreeSide(prepared, tree)),
  });
  const [bytes, , heap] = rows.map(({ value }) => value);
  return { rows, bytes: bytes!, heap: heap! };
}

/** Rows for the longest calls of all traces of a run. */
export function pauseRows(pauses: readonly Pauses[]): BenchRow[] {
  const kinds = [
    ['store', 'store'],
    ['remove', 'remove'],
    ['find', 'look-up'],
    ['piece', 'piece of clearing all away'],
  ] as const;
  return kinds.flatMap(([kind, words]) => {
    const value = Math.max(0, ...pauses.map((of) => of[kind]));
    if (value === 0) return [];
    return [
      { case: `longest ${words}, of any number of workers`, unit: 'ms', value, ratio: null, against: null },
    ];
  });
}
