// The queue of one model in one role: who waits in which class, and how fast each class gets rid of what waits.
import { ReleasePace } from '../observe/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import {
  type GatedRequest,
  PolicyQueue,
  type QueueClass,
  type QueueEntry,
  type QueueProfile,
  type QueueSnapshot,
  reachedLimit,
} from '../scheduling/index.ts';
import { deadlineExceeded, queueFull, wouldWait } from './queue-refusals.ts';

/** How fast what is limited leaves a class. */
interface ClassPaces {
  readonly requests: ReleasePace;
  readonly raw_isl_tokens: ReleasePace;
  readonly cached_tokens: ReleasePace;
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
  readonly #paces = new Map<string, ClassPaces>();
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
   */
  refusal(
    classIndex: number,
    { dueAt }: Pick<Queueable<T>, 'dueAt'>,
    workers: number,
    now: number,
  ): PointsmanError | null {
    const { queueClass, stats } = this.#classAt(classIndex);
    const named = this.#named(queueClass);
    const paces = this.#pacesOf(queueClass);
    const reached = reachedLimit(queueClass, stats, workers);
    if (reached !== null) {
      const { kind, current, limit } = reached;
      const pace = limit === 0 ? this.#prompts : paces[kind];
      return queueFull(named, reached, workers, pace.msUntil(Math.max(1, current - limit + 1), now));
    }
    if (dueAt === null || dueAt > now) return null;
    return deadlineExceeded(named, 0, paces.requests.msUntil(stats.requests + 1, now));
  }

  /** The error of a request that does not want to wait. */
  wouldWait(classIndex: number, now: number): PointsmanError {
    const { queueClass, stats } = this.#classAt(classIndex);
    const { requests } = this.#pacesOf(queueClass);
    return wouldWait(this.#named(queueClass), stats, requests.msUntil(stats.requests + 1, now));
  }

  /** The error of a request that waited too long; call once it has left. */
  tooLate({ of }: QueueEntry<T>, waitedMs: number, now: number): PointsmanError {
    const { requests } = this.#pacesOf(of.queueClass);
    return deadlineExceeded(
      this.#named(of.queueClass),
      waitedMs,
      requests.msUntil(of.stats.requests + 1, now),
    );
  }

  add(classIndex: number, { payload, snapshot, request, dueAt }: Queueable<T>, now: number): QueueEntry<T> {
    const { queueClass, stats } = this.#classAt(classIndex);
    const paces = this.#pacesOf(queueClass);
    if (stats.requests === 0) paces.requests.restart(now);
    if (stats.rawIslTokens === 0) paces.raw_isl_tokens.restart(now);
    if (stats.cachedTokens === 0) paces.cached_tokens.restart(now);
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

  /** Takes out whose turn it is; null = nobody can go. */
  next(
    isDispatchable: (entry: QueueEntry<T>, queueClass: QueueClass) => boolean,
    now: number,
  ): QueueEntry<T> | null {
    const entry = this.#queue.popNext(isDispatchable);
    if (entry !== null) this.#left(entry, now);
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
    this.profile = profile;
    this.#queue = queue;
  }

  #left({ of, snapshot }: QueueEntry<T>, now: number): void {
    const paces = this.#pacesOf(of.queueClass);
    paces.requests.released(1, now);
    paces.raw_isl_tokens.released(snapshot.rawIsl, now);
    if (snapshot.cached > 0) paces.cached_tokens.released(snapshot.cached, now);
  }

  #pacesOf({ name }: QueueClass): ClassPaces {
    const known = this.#paces.get(name);
    if (known !== undefined) return known;
    const paces = {
      requests: new ReleasePace(),
      raw_isl_tokens: new ReleasePace(),
      cached_tokens: new ReleasePace(),
    };
    this.#paces.set(name, paces);
    return paces;
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
