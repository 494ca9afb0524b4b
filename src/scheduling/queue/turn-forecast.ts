// Whose turns come next: the deficit round robin gone through on paper, for `Retry-After`. Bounded, as refusals must be cheap.
import type { ClassQueue } from './class-queue.ts';
import type { QueueSnapshot } from './types.ts';

/** Turns that are gone through; what lies beyond is taken to go on as they do. */
const MOST_TURNS = 64;

/** What is asked. */
export interface ForecastQuestion {
  readonly classIndex: number;
  /** How much of the class is to leave, ≥ 1. */
  readonly amount: number;
  readonly sizeOf: (snapshot: QueueSnapshot) => number;
}

/** The turns until so much has left, the one that gives room the last. */
export interface TurnForecast {
  /** Prompt tokens to compute of each, in order. */
  readonly work: readonly number[];
  /** How often the list has to be gone through: 1 where it reaches the answer, more where it was cut short, Infinity where it never would. */
  readonly times: number;
}

/** Goes through the turns of classes as `PolicyQueue.popNext` would take them. */
export function forecastTurns<T>(
  classes: readonly Pick<ClassQueue<T>, 'queueClass' | 'deficit' | 'first'>[],
  { cursor, carry }: { readonly cursor: number; readonly carry: number },
  { classIndex, amount, sizeOf }: ForecastQuestion,
): TurnForecast {
  const waiting = classes.map((one) => one.first(MOST_TURNS).map(({ snapshot }) => snapshot));
  const heads = classes.map(() => 0);
  const deficits = classes.map(({ deficit }) => deficit);
  const quanta = classes.map(({ queueClass }) => queueClass.quantum);
  const headOf = (at: number): QueueSnapshot | undefined => waiting[at]?.[heads[at]!];
  const canPay = (at: number): boolean => (headOf(at)?.cost ?? Number.POSITIVE_INFINITY) <= deficits[at]!;
  const work: number[] = [];
  let carried = carry;
  let from = cursor;
  let gone = 0;
  while (work.length < MOST_TURNS) {
    const at = carried >= 0 && canPay(carried) ? carried : nextInRing();
    const head = at < 0 ? undefined : headOf(at);
    if (head === undefined) break;
    work.push(head.rawIsl - head.cached);
    deficits[at]! -= head.cost;
    heads[at]! += 1;
    from = (at + 1) % classes.length;
    if (headOf(at) === undefined) deficits[at] = 0;
    carried = deficits[at]! > 0 ? at : -1;
    if (at !== classIndex) continue;
    gone += sizeOf(head);
    if (gone >= amount) return { work, times: 1 };
  }
  return { work, times: gone === 0 ? Number.POSITIVE_INFINITY : amount / gone };

  /** A round, or as many as the first needs; −1 = nobody waits. */
  function nextInRing(): number {
    let rounds = Number.POSITIVE_INFINITY;
    for (const [at, deficit] of deficits.entries()) {
      const head = headOf(at);
      if (head !== undefined) rounds = Math.min(rounds, Math.ceil((head.cost - deficit) / quanta[at]!));
    }
    if (rounds === Number.POSITIVE_INFINITY) return -1;
    for (let at = 0; at < classes.length; at += 1) {
      if (headOf(at) !== undefined) deficits[at]! += quanta[at]! * Math.max(0, rounds - 1);
    }
    for (let step = 0; step < classes.length; step += 1) {
      const at = (from + step) % classes.length;
      if (headOf(at) === undefined) continue;
      if (!canPay(at)) deficits[at]! += quanta[at]!;
      if (canPay(at)) return at;
    }
    return -1;
  }
}
