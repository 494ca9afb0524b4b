// The queue of one model in one role: who waits in which class, and how fast each class gets rid of what waits.
import { isDeepStrictEqual } from 'node:util';
import { ReleasePace } from '../observe/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import {
  type GatedRequest,
  type LimitKind,
  type PinnedLane,
  PolicyQueue,
  type QueueClass,
  type QueueEntry,
  type QueueProfile,
  type QueueSnapshot,
  type ReachedLimit,
  reachedLimit,
} from '../scheduling/index.ts';
import { deadlineExceeded, queueFull, wouldWait } from './queue-refusals.ts';
import { TurnPace } from './turn-pace.ts';

/** Looks for those that must go elsewhere, within one turn. */
const MOST_MOVES = 256;

/** What is limited of a request. */
const SIZES: Readonly<Record<LimitKind, (snapshot: QueueSnapshot) => number>> = {
  requests: () => 1,
  raw_isl_tokens: ({ rawIsl }) => rawIsl,
  cached_tokens: ({ cached }) => cached,
};

/** When a class has room again, as it was foreseen after so many turns. */
interface Room {
  readonly turns: number;
  readonly reached: ReachedLimit;
  readonly at: number | null;
}

/** A request on its way into the queue. */
export interface Queueable<T> {
  readonly payload: T;
  readonly snapshot: QueueSnapshot;
  readonly request: GatedRequest;
  /** Ms of the clock; null = whenever. */
  readonly dueAt: number | null;
}

/** One model's queue in one role. `T` is what the road keeps of a request. */
export class ModelQueue<T> {
  readonly model: string;
  readonly role: string;
  profile: QueueProfile;
  #queue: PolicyQueue<T>;
  readonly #startMs: number;
  /** How fast requests leave each class. */
  readonly #paces = new Map<string, ReleasePace>();
  readonly #turnPace = new TurnPace();
  #turns = 0;
  readonly #rooms = new Map<string, Room>();
  /** Prompts computed, by which a class is measured that lets nobody wait. */
  readonly #prompts = new ReleasePace();

  constructor(model: string, role: string, profile: QueueProfile, nowMs: number) {
    this.model = model;
    this.role = role;
    this.profile = profile;
    this.#startMs = nowMs;
    this.#queue = new PolicyQueue(profile.classes, nowMs);
    this.#prompts.restart(nowMs);
  }

  /** Requests that wait. */
  get size(): number {
    return this.#queue.size;
  }

  /** Classes in the order of the ring, with what waits in each. */
  get classes(): PolicyQueue<T>['classes'] {
    return this.#queue.classes;
  }

  /** Requests that wait in a class. */
  waitingIn(classIndex: number): number {
    return this.#queue.classes[classIndex]?.stats.requests ?? 0;
  }

  /**
   * Why a request may not wait in a class; null = it may.
   * @param workers that serve the model in the role.
   * @param inFlight prompt tokens that they have to compute now; asked where it matters.
   */
  refusal(
    classIndex: number,
    dueAt: number | null,
    workers: number,
    inFlight: () => number,
    now: number,
  ): PointsmanError | null {
    const { queueClass, stats } = this.#classAt(classIndex);
    const named = this.#named(queueClass);
    const reached = reachedLimit(queueClass, stats, workers);
    if (reached !== null) {
      const waitMs =
        reached.limit === 0
          ? this.#prompts.msUntil(1, now)
          : this.#msUntilRoom(classIndex, reached, inFlight, now);
      return queueFull(named, reached, workers, waitMs);
    }
    if (dueAt === null || dueAt > now) return null;
    return deadlineExceeded(named, 0, this.#msUntilEmpty(queueClass, stats.requests, now));
  }

  /** The error of a request that does not want to wait. */
  wouldWait(classIndex: number, now: number): PointsmanError {
    const { queueClass, stats } = this.#classAt(classIndex);
    return wouldWait(this.#named(queueClass), stats, this.#msUntilEmpty(queueClass, stats.requests, now));
  }

  /** The error of a request that waited too long; call once it has left. */
  tooLate({ of }: QueueEntry<T>, waitedMs: number, now: number): PointsmanError {
    const { queueClass, stats } = of;
    const waitMs = this.#msUntilEmpty(queueClass, stats.requests, now);
    return deadlineExceeded(this.#named(queueClass), waitedMs, waitMs);
  }

  add(classIndex: number, { payload, snapshot, request, dueAt }: Queueable<T>, now: number): QueueEntry<T> {
    const { queueClass, stats } = this.#classAt(classIndex);
    if (stats.requests === 0) this.#paceOf(queueClass).restart(now);
    if (this.size === 0) this.#turnPace.restart(now);
    const { pinnedWorker, priority, strictPriority } = request.constraints;
    return this.#queue.push(classIndex, {
      payload,
      snapshot,
      strictPriority,
      priorityJump: priority,
      dueAt,
      arrivedAt: now,
      pinned: pinnedWorker,
    });
  }

  /**
   * Takes out whose turn it is; null = nobody can go, or too many had to be moved at once.
   * @param placeOf where a request must go by now; who may have gone elsewhere when it came keeps its turn, and waits there.
   * @param moved hears of each that was moved.
   */
  next(
    isDispatchable: (entry: QueueEntry<T>, queueClass: QueueClass) => boolean,
    now: number,
    placeOf: (payload: T) => PinnedLane | null,
    moved: (after: QueueEntry<T>) => void,
  ): QueueEntry<T> | null {
    const elsewhere: QueueEntry<T>[] = [];
    const canGo = (head: QueueEntry<T>, queueClass: QueueClass): boolean => {
      if (isSamePlace(head.pinned, placeOf(head.payload))) return isDispatchable(head, queueClass);
      elsewhere.push(head);
      return false;
    };
    let entry = this.#queue.popNext(canGo);
    for (let moves = 0; elsewhere.length > 0 && moves < MOST_MOVES; moves += 1) {
      for (const one of elsewhere.splice(0)) moved(this.#queue.repin(one, placeOf(one.payload)));
      entry ??= this.#queue.popNext(canGo);
    }
    if (entry === null) return null;
    const { rawIsl, cached } = entry.snapshot;
    this.#turnPace.turn(rawIsl - cached, now);
    this.#left(entry, now);
    return entry;
  }

  /** It ends its wait before its turn; false when it does not wait. */
  remove(entry: QueueEntry<T>, now: number): boolean {
    if (!this.#queue.remove(entry)) return false;
    this.#left(entry, now);
    return true;
  }

  /** A worker has less to do: those that are pinned to it are looked at again. */
  loadFell(workerId: bigint, now: number): void {
    this.#prompts.released(1, now);
    this.#queue.unpark(workerId);
  }

  /** Everybody is looked at again. */
  unparkAll(): void {
    this.#queue.unparkAll();
  }

  /** Everybody that waits, in no particular order. */
  entries(): readonly QueueEntry<T>[] {
    return this.#queue.classes.flatMap((one) => one.entries());
  }

  /**
   * Takes another profile: who waits in a class of the same name stays in it; others go to the default family, by what was not cached
   * when they came.
   */
  change(profile: QueueProfile, moved: (after: QueueEntry<T>) => void): void {
    const byName = new Map(profile.classes.map(({ name }, index) => [name, index]));
    const queue = new PolicyQueue<T>(profile.classes, this.#startMs);
    this.#queue.moveTo(
      queue,
      ({ of, snapshot }) =>
        byName.get(of.queueClass.name) ?? profile.classOf(null, snapshot.rawIsl - snapshot.cached),
      (_, after) => moved(after),
    );
    for (const name of [...this.#paces.keys()]) if (!byName.has(name)) this.#paces.delete(name);
    this.#rooms.clear();
    this.profile = profile;
    this.#queue = queue;
  }

  #left({ of }: QueueEntry<T>, now: number): void {
    this.#turns += 1;
    this.#paceOf(of.queueClass).released(1, now);
    if (this.size === 0) this.#turnPace.restart(null);
  }

  /** Foreseen once after each turn: a class that is full gets nobody new meanwhile. */
  #msUntilRoom(
    classIndex: number,
    reached: ReachedLimit,
    inFlight: () => number,
    now: number,
  ): number | null {
    const { name } = this.#classAt(classIndex).queueClass;
    let room = this.#rooms.get(name);
    if (room === undefined || room.turns !== this.#turns || !isDeepStrictEqual(room.reached, reached)) {
      const { kind, current, limit } = reached;
      const forecast = this.#queue.forecast(classIndex, current - limit + 1, SIZES[kind]);
      const waitMs = this.#turnPace.msUntil(forecast, inFlight(), now);
      room = { turns: this.#turns, reached, at: waitMs === null ? null : now + waitMs };
      this.#rooms.set(name, room);
    }
    return room.at === null ? null : Math.max(0, room.at - now);
  }

  /** Ms until so many more than wait have gone on. */
  #msUntilEmpty(queueClass: QueueClass, waiting: number, now: number): number | null {
    return this.#paceOf(queueClass).msUntil(waiting + 1, now);
  }

  #paceOf({ name }: QueueClass): ReleasePace {
    const known = this.#paces.get(name);
    if (known !== undefined) return known;
    const pace = new ReleasePace();
    this.#paces.set(name, pace);
    return pace;
  }

  #named({ name }: QueueClass) {
    return { model: this.model, role: this.role, policyClass: name };
  }

  #classAt(index: number): PolicyQueue<T>['classes'][number] {
    const found = this.#queue.classes[index];
    if (found === undefined) throw new RangeError(`model ${this.model} has no class ${index}`);
    return found;
  }
}

function isSamePlace(a: PinnedLane | null, b: PinnedLane | null): boolean {
  return a === b || (a !== null && b !== null && a.workerId === b.workerId && a.rank === b.rank);
}
