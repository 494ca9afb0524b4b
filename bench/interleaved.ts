// Compares functions on a machine that others use too: short slices of all of them take turns, each slice of a subject is held
// against the baseline's slice of the same turn, and the median of these ratios stands, with its quartiles as the spread.

/** One of the things compared. */
export interface Contender {
  readonly name: string;
  /** Does the work once; `turn` counts up. */
  readonly once: (turn: number) => void;
}

/** How long to compare. */
export interface Comparison {
  readonly turns: number;
  /** Slices fall between interruptions, and between collections of garbage, the more often the shorter they are. */
  readonly sliceNs: number;
}

/** What came out for one contender. */
export interface Compared {
  readonly name: string;
  /** Median time of doing the work once. */
  readonly ns: number;
  /** Time over the baseline's of the same turn, median; 1 for the baseline itself. */
  readonly times: number;
  /** Lower and upper quartile of the same. */
  readonly low: number;
  readonly high: number;
}

/** Of processor time, which the compiler in the background needs as well: on a busy machine wall time says nothing. */
const WARM_UP_NS = 600e6;
const WARM_UP_TURNS = 12;

/** Compares each of `contenders` with the first; answers in their order. */
export function compare(contenders: readonly Contender[], comparison: Comparison): readonly Compared[] {
  const { turns, sliceNs } = comparison;
  let turn = 0;
  forgetWhoIsCalled();
  // Compiled, in turns as later, before it is counted how often each fits a slice.
  for (const end = processorNs() + WARM_UP_NS * contenders.length; processorNs() < end; ) {
    for (const { once } of contenders) slice(once, 64, turn++);
  }
  const lanes = contenders.map(({ name, once }) => {
    let count = 1;
    while (slice(once, count, turn) < sliceNs / 2) count *= 2;
    return { name, once, count, samples: new Float64Array(turns) };
  });
  for (let at = -WARM_UP_TURNS; at < turns; at += 1) {
    // Every other turn goes backwards, so that nobody always runs behind the same neighbour.
    for (let step = 0; step < lanes.length; step += 1) {
      const lane = lanes[at % 2 === 0 ? step : lanes.length - 1 - step]!;
      const took = slice(lane.once, lane.count, turn);
      turn += lane.count;
      if (at >= 0) lane.samples[at] = took / lane.count;
    }
  }
  const baseline = lanes[0]!.samples;
  return lanes.map(({ name, samples }) => {
    const ratios = samples.map((sample, at) => sample / baseline[at]!).sort();
    return {
      name,
      ns: quantile(samples.toSorted(), 0.5),
      times: quantile(ratios, 0.5),
      low: quantile(ratios, 0.25),
      high: quantile(ratios, 0.75),
    };
  });
}

function slice(once: (turn: number) => void, count: number, turn: number): number {
  const start = wallNs();
  for (let at = 0; at < count; at += 1) once(turn + at);
  return wallNs() - start;
}

/** The engine compiles a loop around the one function it ever called; with many there is a call, the same for all. */
function forgetWhoIsCalled(): void {
  for (const once of [() => 1, () => 2, () => 3, () => 4, () => 5, () => 6]) slice(once, 1000, 0);
}

function wallNs(): number {
  return performance.now() * 1e6;
}

function processorNs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}

function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
