// How much of a worker the policy has retained, as far as it knows: what it asked for and what has not ended since.
import type { WorkerRank } from '../../plugin/index.ts';

/** Workers that are kept account of; the one heard of longest ago goes. */
const MOST_WORKERS = 4096;
/** Sessions of one worker that retain at a time. */
export const MOST_SESSIONS = 16_384;

interface Retained {
  readonly blocks: number;
  readonly until: number;
}

/** What the sessions of one worker retain. */
interface Account {
  readonly sessions: Map<string, Retained>;
  /** Blocks of all of them, those whose time is over since the last look included. */
  blocks: number;
  /** Nothing ends before, ms. */
  firstEnd: number;
}

/** Blocks retained per worker, by name of the session. */
export class RetainedBudget {
  readonly #most: number;
  readonly #workers = new Map<string, Account>();

  /** @param most blocks per worker. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Sessions that count on a worker. */
  sessions(worker: WorkerRank): number {
    return this.#workers.get(keyOf(worker))?.sessions.size ?? 0;
  }

  /** Blocks that a session may retain on a worker, in place of what it has there; at most `wanted`. */
  room(worker: WorkerRank, name: string, now: number, wanted: number): number {
    const account = this.#workers.get(keyOf(worker));
    if (account === undefined) return Math.min(wanted, this.#most);
    // Sessions are gone through only where that can help.
    if (account.firstEnd <= now && this.#roomIn(account, name) < wanted) expire(account, now);
    return Math.min(wanted, this.#roomIn(account, name));
  }

  /** A session retains so many blocks from now on, in place of what it had. */
  note(worker: WorkerRank, name: string, blocks: number, until: number): void {
    const key = keyOf(worker);
    const account = this.#workers.get(key) ?? {
      sessions: new Map<string, Retained>(),
      blocks: 0,
      firstEnd: Number.POSITIVE_INFINITY,
    };
    this.#workers.delete(key);
    this.#workers.set(key, account);
    account.blocks += blocks - (account.sessions.get(name)?.blocks ?? 0);
    account.firstEnd = Math.min(account.firstEnd, until);
    account.sessions.set(name, { blocks, until });
    if (this.#workers.size > MOST_WORKERS) this.#workers.delete(this.#workers.keys().next().value ?? '');
  }

  /** A session is over. */
  forget(worker: WorkerRank, name: string): void {
    const account = this.#workers.get(keyOf(worker));
    if (account === undefined) return;
    account.blocks -= account.sessions.get(name)?.blocks ?? 0;
    account.sessions.delete(name);
  }

  #roomIn({ blocks, sessions }: Account, name: string): number {
    const own = sessions.get(name);
    if (own === undefined && sessions.size >= MOST_SESSIONS) return 0;
    return Math.max(0, this.#most - blocks + (own?.blocks ?? 0));
  }
}

function expire(account: Account, now: number): void {
  account.firstEnd = Number.POSITIVE_INFINITY;
  for (const [session, { blocks, until }] of account.sessions) {
    if (until <= now) {
      account.sessions.delete(session);
      account.blocks -= blocks;
    } else account.firstEnd = Math.min(account.firstEnd, until);
  }
}

function keyOf({ rank, workerId }: WorkerRank): string {
  return `${workerId} ${rank}`;
}
