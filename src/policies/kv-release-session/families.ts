// What the policy remembers of sessions, so that the end of one takes nothing from its relatives, whether or not the lineage still knows
// what they had: where each was placed, how deep, and what it found there when it came.
import type { SessionContext, WorkerRank } from '../../plugin/index.ts';
import { parentName, sessionName } from '../session-name.ts';

/** Sessions remembered; the one heard of longest ago goes. */
export const MOST_SESSIONS = 16_384;
/** Workers of one session; of those beyond nothing is remembered. */
const MOST_PLACES = 64;

/** A session on one worker. */
interface Place {
  /** Blocks of its prompt that were on the device when it was placed there first. */
  readonly found: number;
  /** Blocks of its longest prompt there. */
  depth: number;
  /** A later prompt was shorter: it has more than one chain, and which of them it goes on with is not known. */
  branched: boolean;
}

/** A session that has not ended. */
export interface Member {
  readonly name: string;
  readonly sessionId: string;
  /** Name of the session at the root of its family, as far as that was heard of. */
  readonly root: string;
  readonly hasParent: boolean;
  /** Nothing was heard of its parent when it came. */
  readonly isOrphan: boolean;
  /** Place in the order in which sessions came. */
  readonly order: number;
  /** Blocks of its first prompt: more it cannot share with those that were there before it. */
  readonly firstBlocks: number;
  readonly places: Map<string, Place>;
  /** The worker on which it compacted its conversation last, until its next turn; null = it did not. */
  compactedOn: string | null;
}

/** Sessions that go on, by family. */
export class Families {
  readonly #members = new Map<string, Member>();
  readonly #families = new Map<string, Set<Member>>();
  #made = 0;

  get sessions(): number {
    return this.#members.size;
  }

  /** A turn of a session was placed. @param found blocks of its prompt on the worker's device. */
  turn(session: SessionContext, worker: WorkerRank, found: number, promptBlocks: number): Member {
    const member = this.#members.get(sessionName(session)) ?? this.#enter(session, promptBlocks);
    this.#members.delete(member.name);
    this.#members.set(member.name, member);
    const key = workerKey(worker);
    const place = member.places.get(key);
    if (place !== undefined) {
      place.branched ||= promptBlocks < place.depth || session.compaction === true;
      place.depth = Math.max(place.depth, promptBlocks);
    } else if (member.places.size < MOST_PLACES) {
      member.places.set(key, { found, depth: promptBlocks, branched: session.compaction === true });
    }
    if (this.#members.size > MOST_SESSIONS) {
      for (const oldest of this.#members.values()) {
        this.end(oldest);
        break;
      }
    }
    return member;
  }

  /** The session is over. */
  end(member: Member): void {
    this.#members.delete(member.name);
    const family = this.#families.get(member.root);
    family?.delete(member);
    if (family?.size === 0) this.#families.delete(member.root);
  }

  /** The others of a session's family that go on. */
  others(member: Member): readonly Member[] {
    return [...(this.#families.get(member.root) ?? [])].filter((other) => other !== member);
  }

  #enter(session: SessionContext, promptBlocks: number): Member {
    const name = sessionName(session);
    const ofParent = parentName(session);
    const parent = ofParent === null ? undefined : this.#members.get(ofParent);
    const member: Member = {
      name,
      sessionId: session.sessionId,
      root: parent?.root ?? ofParent ?? name,
      hasParent: ofParent !== null,
      isOrphan: ofParent !== null && parent === undefined,
      order: this.#made,
      firstBlocks: promptBlocks,
      places: new Map(),
      compactedOn: null,
    };
    this.#made += 1;
    const family = this.#families.get(member.root) ?? new Set();
    family.add(member);
    this.#families.set(member.root, family);
    return member;
  }
}

/** A rank as a key. */
export function workerKey({ rank, workerId }: WorkerRank): string {
  return `${workerId} ${rank}`;
}
