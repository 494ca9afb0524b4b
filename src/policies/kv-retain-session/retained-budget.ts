// How much of a worker the policy has retained, as far as it knows: what it asked for and what has not ended since.
import type { WorkerRank } from '../../plugin/index.ts';

/** Workers that are kept account of; the one heard of longest ago goes. */
const MOST_WORKERS = 4096;

interface Retained {
  readonly blocks: number;
  readonly until: number;
}

/** Blocks retained per worker, by name of the session. */
export class RetainedBudget {
  readonly #most: number;
  readonly #workers = new Map<string, Map<string, Retained>>();

  /** @param most blocks per worker. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Blocks that a session may retain on a worker, in place of what it has there. */
  room(worker: WorkerRank, name: string, now: number): number {
    const sessions = this.#workers.get(keyOf(worker));
    let used = 0;
    for (const [session, { blocks, until }] of sessions ?? []) {
      if (until <= now) sessions?.delete(session);
      else if (session !== name) used += blocks;
    }
    return Math.max(0, this.#most - used);
  }

  /** A session retains so many blocks from now on, in place of what it had. */
  note(worker: WorkerRank, name: string, blocks: number, until: number): void {
    const key = keyOf(worker);
    const sessions = this.#workers.get(key) ?? new Map<string, Retained>();
    this.#workers.delete(key);
    sessions.set(name, { blocks, until });
    this.#workers.set(key, sessions);
    if (this.#workers.size > MOST_WORKERS) this.#workers.delete(this.#workers.keys().next().value ?? '');
  }

  /** A session is over. */
  forget(worker: WorkerRank, name: string): void {
    this.#workers.get(keyOf(worker))?.delete(name);
  }
}

function keyOf({ rank, workerId }: WorkerRank): string {
  return `${workerId} ${rank}`;
}
