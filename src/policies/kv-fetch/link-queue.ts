// Until when the links of workers are taken by copies that were asked for: each goes out on the source's link and in on the target's, one
// after the other.
import type { WorkerRank } from '../../plugin/index.ts';

/** Links remembered; beyond that those that are free are forgotten, and then all. */
const MAX_LINKS = 4096;

/** The links of one fleet. */
export class LinkQueue {
  readonly #busyUntil = new Map<string, number>();

  /** Ms until a copy of `copyMs` from one worker to another would be there. */
  waitMs(source: WorkerRank, target: WorkerRank, copyMs: number, now: number): number {
    const free = Math.max(now, this.#until('out', source), this.#until('in', target));
    return free - now + copyMs;
  }

  /** It was asked for. */
  reserve(source: WorkerRank, target: WorkerRank, copyMs: number, now: number): void {
    const end = now + this.waitMs(source, target, copyMs, now);
    if (this.#busyUntil.size >= MAX_LINKS) this.#forget(now);
    this.#busyUntil.set(key('out', source), end).set(key('in', target), end);
  }

  #until(way: string, worker: WorkerRank): number {
    return this.#busyUntil.get(key(way, worker)) ?? Number.NEGATIVE_INFINITY;
  }

  #forget(now: number): void {
    for (const [link, end] of this.#busyUntil) if (end <= now) this.#busyUntil.delete(link);
    if (this.#busyUntil.size >= MAX_LINKS) this.#busyUntil.clear();
  }
}

function key(way: string, { workerId, rank }: WorkerRank): string {
  return `${way} ${workerId} ${rank}`;
}
