// Lineage by value: the blocks of a request's own session on the booked rank, taken down where the index is. A thread cannot ask for
// more without waiting for the router's thread.
import {
  type BlockHash,
  PointsmanError,
  type SessionContext,
  type SessionLineage,
  type WorkerRank,
} from '../../plugin/index.ts';
import { MOST_LINEAGE_HASHES, type WireLineage } from './messages.ts';

const NONE = new BigUint64Array(0);

/** Takes down the first {@link MOST_LINEAGE_HASHES} of each list: of a list cut so no block is there whose parent is not. */
export function snapshotLineage(
  live: SessionLineage,
  session: SessionContext | null,
  worker: WorkerRank,
): WireLineage {
  if (session === null) return { uniqueBlocks: NONE, exclusiveBlocks: NONE };
  const { sessionId } = session;
  return {
    uniqueBlocks: live.uniqueBlocks(sessionId, worker).slice(0, MOST_LINEAGE_HASHES),
    exclusiveBlocks: live.exclusiveBlocks(sessionId, worker).slice(0, MOST_LINEAGE_HASHES),
  };
}

/** Lineage read from a snapshot. */
export class LineageSnapshot implements SessionLineage {
  readonly #taken: WireLineage;
  readonly #session: SessionContext | null;
  readonly #worker: WorkerRank;

  constructor(taken: WireLineage, session: SessionContext | null, worker: WorkerRank) {
    this.#taken = taken;
    this.#session = session;
    this.#worker = worker;
    Object.freeze(this);
  }

  uniqueBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    this.#check('uniqueBlocks', sessionId, worker);
    return this.#taken.uniqueBlocks.slice();
  }

  exclusiveBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    this.#check('exclusiveBlocks', sessionId, worker);
    return this.#taken.exclusiveBlocks.slice();
  }

  nodeOf(_hash: BlockHash): never {
    return refuse('nodeOf');
  }

  node(_id: number): never {
    return refuse('node');
  }

  frontiers(_sessionId: string): never {
    return refuse('frontiers');
  }

  paths(_sessionId: string, _worker: WorkerRank): never {
    return refuse('paths');
  }

  #check(member: string, sessionId: string, { workerId, rank }: WorkerRank): void {
    const isOwn = sessionId === this.#session?.sessionId;
    if (!isOwn || workerId !== this.#worker.workerId || rank !== this.#worker.rank) refuse(member);
  }
}

function refuse(member: string): never {
  throw new PointsmanError(
    'PM_PLUGIN_INVALID',
    `lineage.${member} was asked for what a thread is not sent: there a policy sees uniqueBlocks and exclusiveBlocks of the request's own session on the booked worker; set isolation: in-process to ask for more`,
    { details: { member } },
  );
}
