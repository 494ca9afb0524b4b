// How benchmarks that last longer than a moment read the clock and the heap: in processor time, for on a machine that others use too
// wall time counts their work.

/** Milliseconds of processor time that `work` takes, garbage collector threads included; what was garbage before is collected first. */
export function processorTime(work: () => void): number {
  collect();
  return busy(work);
}

/** Milliseconds of processor time of one short call: while it waits for a processor, others are to blame. */
export function busy(work: () => void): number {
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/** The middle value, of an even number the upper one of both. */
export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** Bytes of the JavaScript heap; exact where the process exposes its collector. */
export function heapBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

/** Collects garbage, and has what is found given back before anything is measured: the second time waits for the first to sweep. */
function collect(): void {
  globalThis.gc?.();
  globalThis.gc?.();
}
