// At a rate: operations fall due as the trace has them, but faster, whether or not those before are done, as in a router. One thread
// does them in order, so what a look-up waits for is what is late before it.
import { median } from '../processor-time.ts';
import type { Operations } from './operations.ts';
import type { Side } from './sides.ts';

/** ms of a clock that moves on while it is read. */
export type Clock = () => number;

/** One pass of one side. */
export interface OpenPass {
  /** Operations per second until the last was done. */
  readonly achieved: number;
  /** µs from when look-ups were due until they were answered. */
  readonly p50: number;
  readonly p99: number;
  /** µs of the calls alone, without waiting. */
  readonly callP99: number;
}

/** Elapsed time over that in which operations fell due, from which on a side has fallen behind. */
const LATE = 1.1;

/** Whether less was done than 1 / 1.1 of what was offered. */
export const behind = (offered: number, { achieved }: Pick<OpenPass, 'achieved'>): boolean =>
  achieved * LATE < offered;

/** When operations fall due at a mean rate per second, in ms: in the proportions of `times`, or evenly where all are at once. */
export function dueTimes(times: readonly number[], rate: number): Float64Array {
  const duration = (times.length / rate) * 1000;
  const span = times.at(-1)! - times[0]!;
  return Float64Array.from(times, (time, at) =>
    span > 0 ? ((time - times[0]!) / span) * duration : (at / times.length) * duration,
  );
}

/** Does all operations, each as soon as it is due and those before are done. */
export function openPass(side: Side, { list, times }: Operations, rate: number, clock: Clock): OpenPass {
  const due = dueTimes(times, rate);
  const finds = list.reduce((count, { kind }) => count + (kind === 'find' ? 1 : 0), 0);
  const fromDue = new Float64Array(finds);
  const calls = new Float64Array(finds);
  let find = 0;
  const start = clock();
  let now = 0;
  for (let at = 0; at < list.length; at += 1) {
    const dueAt = due[at]!;
    while (now < dueAt) now = clock() - start;
    const isFind = list[at]!.kind === 'find';
    const called = isFind ? clock() - start : now;
    side.apply(at);
    now = clock() - start;
    if (!isFind) continue;
    fromDue[find] = now - dueAt;
    calls[find] = now - called;
    find += 1;
  }
  const quantile = (of: Float64Array, share: number): number =>
    1000 * of[Math.min(of.length - 1, Math.floor(of.length * share))]!;
  fromDue.sort();
  calls.sort();
  return {
    achieved: (list.length / now) * 1000,
    p50: quantile(fromDue, 0.5),
    p99: quantile(fromDue, 0.99),
    callP99: quantile(calls, 0.99),
  };
}

/** Each figure's median over passes. */
export function medianPass(passes: readonly OpenPass[]): OpenPass {
  const of = (field: keyof OpenPass): number => median(passes.map((pass) => pass[field]));
  return { achieved: of('achieved'), p50: of('p50'), p99: of('p99'), callP99: of('callP99') };
}

/** First rate of a sweep, operations per second, and how long its slowest pass may last at most. */
const FIRST_RATE = 10_000;
const LONGEST_PASS = 5;
const SWEEP_STEPS = 12;

/** Rates of a sweep: each twice the one before. */
export function sweepRates(operations: number): number[] {
  let first = FIRST_RATE;
  while (operations / first > LONGEST_PASS) first *= 2;
  return Array.from({ length: SWEEP_STEPS }, (_, step) => first * 2 ** step);
}
