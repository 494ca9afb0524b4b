// Watches what a plugin's thread holds, from within, by what V8 itself reads at each of its collections: a call costs nothing, and
// garbage of the heap is not counted. V8's own limit is no use for that: what goes far past it ends the whole process.
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { GCProfiler } from 'node:v8';

/** What a thread may hold, typed arrays included; MiB. */
export const THREAD_HEAP_MIB = 256;

const MIB = 2 ** 20;
/** Collections after which their records are fetched, had no major one been among them. */
const MOST_COLLECTIONS = 64;

// Taken before a plugin is loaded, which may replace what others import.
const { ceil, min } = Math;
const { NODE_PERFORMANCE_GC_MAJOR } = constants;

/** V8's readings around one collection, as far as they are looked at; bytes. */
export interface CollectionRecord {
  readonly gcType: string;
  readonly beforeGC: HeapReadings;
  readonly afterGC: HeapReadings;
}

interface HeapReadings {
  readonly heapStatistics: { readonly usedHeapSize: number; readonly externalMemory: number };
}

/** Calls back once, when the thread is found to hold more than the limit; between calls of the plugin, never within one. */
export function watchMemory(limitMib: number, exceeded: (why: string) => void): void {
  const profiler = new GCProfiler();
  const start = profiler.start.bind(profiler);
  const stop = profiler.stop.bind(profiler);
  const memory = new HeldMemory();
  const take = memory.take.bind(memory);
  let collections = 0;
  let isOver = false;
  const observer = new PerformanceObserver((list) => {
    collections += 1;
    // Not at every collection: a stopped profiler goes on costing each of them a little until a major one frees it.
    const isMajor = list.getEntries().some((entry) => kindOf(entry) === NODE_PERFORMANCE_GC_MAJOR);
    if (isOver || (!isMajor && collections < MOST_COLLECTIONS)) return;
    collections = 0;
    const { statistics } = stop();
    start();
    for (let at = 0; at < statistics.length && !isOver; at += 1) {
      const record = statistics[at];
      const heldMib = record === undefined ? 0 : take(record) / MIB;
      if (heldMib <= limitMib) continue;
      isOver = true;
      exceeded(`it holds ${ceil(heldMib)} MiB, more than the ${limitMib} MiB a thread may`);
    }
  });
  start();
  observer.observe({ entryTypes: ['gc'] });
}

/** What is held, from the records of collections in their order. */
export class HeldMemory {
  /** Lowest readings of memory outside of the heap, before the last but one major collection, before the last one, and since. */
  #older = 0;
  #old = 0;
  #low = 0;

  /**
   * Bytes held after a major collection; 0 after any other. Dead typed arrays are given back some time after it, on Node.js 24 often
   * by a later collection: what lies outside of the heap counts by its lowest reading since the third last major one.
   */
  take({ gcType, beforeGC, afterGC }: CollectionRecord): number {
    const { usedHeapSize, externalMemory } = afterGC.heapStatistics;
    this.#low = min(this.#low, beforeGC.heapStatistics.externalMemory, externalMemory);
    if (gcType !== 'MarkSweepCompact') return 0;
    const external = min(this.#older, this.#old, this.#low);
    this.#older = this.#old;
    this.#old = this.#low;
    this.#low = externalMemory;
    return usedHeapSize + external;
  }
}

function kindOf(entry: object): unknown {
  if (!('detail' in entry)) return undefined;
  const { detail } = entry;
  return typeof detail === 'object' && detail !== null && 'kind' in detail ? detail.kind : undefined;
}
