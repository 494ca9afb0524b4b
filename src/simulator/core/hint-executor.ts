// Does what hints ask of the KV pool: retains, evictions and prefetches, at the admission of their request or at its end. Fetches from
// peers are fetch-target.ts.
import { fromBigUint64Array, type HashPairs } from '../../kv/index.ts';
import type { SimulatedHintOutcome } from '../types.ts';
import type { EventCollector } from './event-collector.ts';
import type {
  EvictBlocks,
  PrefetchBlocks,
  RetainBlocks,
  RetainDirective,
  RetainRanges,
} from './hint-payloads.ts';
import type { WorkPlan } from './hint-plan.ts';
import type { HostTier } from './host-tier.ts';
import type { KvPool } from './kv-pool.ts';
import type { RequestState } from './request-state.ts';
import type { RetainAction, RetainDeclaration } from './retentions.ts';

type Result = Pick<SimulatedHintOutcome, 'outcome' | 'reason' | 'blocks_asked' | 'blocks_done'>;

/** Executes the hints of one rank. */
export class HintExecutor {
  readonly #pool: KvPool;
  readonly #host: HostTier | null;
  readonly #events: EventCollector;
  readonly #blockSize: number;

  constructor(pool: KvPool, host: HostTier | null, events: EventCollector, blockSize: number) {
    this.#pool = pool;
    this.#host = host;
    this.#events = events;
    this.#blockSize = blockSize;
  }

  /** The request was admitted: what can be done now is, the rest is deferred; sets the outcomes. */
  admitted(request: RequestState, now: number): void {
    for (const plan of request.hints.work) {
      request.outcomes[plan.position] = {
        action_id: plan.actionId,
        ...this.#atAdmission(request, plan, now),
      };
    }
  }

  /** An admitted request ended: `release` lets go of its blocks, before what was deferred is told. */
  ended(request: RequestState, now: number, release: () => void): void {
    const { hints } = request;
    if (hints.work.length === 0 || request.reused < 0) {
      release();
      return;
    }
    // What the request holds is known up to its release, and can be evicted from then on.
    for (const plan of hints.work) {
      if (plan.kind === 'retain-ranges') this.#late(request, plan, this.#retainRanges(request, plan, now));
    }
    const own = hints.work.map((plan) =>
      plan.kind === 'evict' && plan.ownFrom !== null
        ? request.table.slice(plan.ownFrom, Math.max(plan.ownFrom, request.cachedBlocks))
        : null,
    );
    release();
    for (const [index, plan] of hints.work.entries()) {
      if (plan.kind !== 'evict' || plan.executeAt !== 'request_completion') continue;
      this.#late(request, plan, this.#evict(plan, declarerOf(request, null), own[index] ?? null));
    }
  }

  /** Tells what became of retained blocks since the last call. */
  tellLate(): void {
    for (const { action, reason } of this.#pool.takeLateRetains()) {
      this.#events.hintOutcome({
        messageId: action.messageId,
        actionId: action.actionId,
        outcome: action.evicted === 0 ? 'accepted' : 'clipped',
        reason,
        blocks: reason === 'expired' ? action.lapsed : action.kept + action.lapsed,
      });
    }
  }

  #atAdmission(request: RequestState, plan: WorkPlan, now: number): Result {
    switch (plan.kind) {
      case 'retain':
        return this.#retain(request, plan, now);
      case 'retain-ranges':
        return { outcome: 'deferred' };
      case 'evict':
        if (plan.executeAt === 'request_completion') return { outcome: 'deferred' };
        return this.#evict(plan, declarerOf(request, null), null);
      case 'prefetch':
        return this.#prefetch(request, plan, now);
    }
  }

  #retain(request: RequestState, plan: RetainBlocks & WorkPlan, now: number): Result {
    const hashes = fromBigUint64Array(plan.blockHashes);
    const asked = plan.blockHashes.length;
    const declarer = declarerOf(request, null);
    if (plan.priority === 0) return this.#unretain(hashes, 0, asked, declarer);
    const declaration = declared(newAction(request, plan), declarer, plan.priority, now + plan.ttlMs);
    return this.#declare(hashes, 0, asked, declaration);
  }

  #retainRanges(request: RequestState, plan: RetainRanges & WorkPlan, now: number): Result {
    const declarer = declarerOf(request, plan.scope);
    const action = newAction(request, plan);
    let asked = 0;
    let done = 0;
    let full = false;
    // The highest priority that overlaps a block is its own: ranges never rise, so that is the one that begins first.
    let from = 0;
    for (const directive of [...plan.directives].sort((a, b) => startOf(a, request) - startOf(b, request))) {
      const first = Math.max(from, Math.floor(startOf(directive, request) / this.#blockSize));
      const end = Math.min(request.cachedBlocks, blocksTo(directive, this.#blockSize));
      if (end <= first) continue;
      from = end;
      const { priority, ttlMs } = directive;
      const expiresAt = ttlMs === null ? Number.POSITIVE_INFINITY : now + ttlMs;
      const result =
        priority === 0
          ? this.#unretain(request.external, first, end, declarer)
          : this.#declare(request.external, first, end, declared(action, declarer, priority, expiresAt));
      full ||= result.reason === 'no_room';
      asked += end - first;
      done += priority === 0 ? end - first : (result.blocks_done ?? 0);
    }
    return counted(asked, done, full ? 'no_room' : null);
  }

  #declare(hashes: HashPairs, from: number, to: number, declaration: RetainDeclaration): Result {
    let done = 0;
    let full = false;
    for (let index = from; index < to; index += 1) {
      const result = this.#pool.retain(hashes[2 * index]!, hashes[2 * index + 1]!, declaration);
      if (result === 'retained') done += 1;
      full ||= result === 'no_room';
    }
    return counted(to - from, done, full ? 'no_room' : null);
  }

  #unretain(hashes: HashPairs, from: number, to: number, declarer: string): Result {
    let done = 0;
    for (let index = from; index < to; index += 1) {
      if (this.#pool.unretain(hashes[2 * index]!, hashes[2 * index + 1]!, declarer)) done += 1;
    }
    return { outcome: 'accepted', blocks_asked: to - from, blocks_done: done };
  }

  /** Evicts the last named block first: lists begin at the root. */
  #evict(plan: EvictBlocks, declarer: string, own: Int32Array | null): Result {
    const hashes = fromBigUint64Array(plan.blockHashes);
    const cause = plan.tier === 'device' ? 'demotion' : 'hint';
    let done = 0;
    let kept = false;
    for (let index = (own?.length ?? 0) - 1; index >= 0; index -= 1) {
      if (this.#pool.evictOwn(own![index]!, declarer, cause)) done += 1;
      else kept = true;
    }
    for (let index = plan.blockHashes.length - 1; index >= 0; index -= 1) {
      const lo = hashes[2 * index]!;
      const hi = hashes[2 * index + 1]!;
      const device = this.#pool.evict(lo, hi, declarer, cause);
      const host = plan.tier === 'all' && device !== 'in_use' ? this.#host?.evict(lo, hi) : 'missing';
      if (device === 'evicted' || host === 'evicted') done += 1;
      kept ||= device === 'in_use' || host === 'in_use';
    }
    return counted(plan.blockHashes.length + (own?.length ?? 0), done, kept ? 'in_use' : null);
  }

  #prefetch(request: RequestState, plan: PrefetchBlocks & WorkPlan, now: number): Result {
    if (this.#host === null) return { outcome: 'rejected', reason: 'unsupported' };
    const asked = plan.blockHashes.length;
    const found = this.#host.prefetch(fromBigUint64Array(plan.blockHashes), now, () => {
      this.#late(request, plan, counted(asked, found.resident + found.moving, full));
    });
    const full = found.noRoom ? 'no_room' : null;
    if (found.moving > 0) return { outcome: 'deferred', blocks_asked: asked };
    return counted(asked, found.resident, full);
  }

  #late(request: RequestState, { actionId }: WorkPlan, result: Result): void {
    this.#events.hintOutcome({
      messageId: request.hints.messageId,
      actionId,
      outcome: result.outcome,
      reason: result.reason ?? null,
      blocks: result.blocks_done ?? null,
    });
  }
}

/** Who declares: the scope given, which stands for a session, else the request's session, else this message alone. */
function declarerOf(request: RequestState, scope: string | null): string {
  const session = scope ?? request.sessionId;
  return session === null ? `message ${request.hints.messageId}` : `session ${session}`;
}

function newAction(request: RequestState, { actionId }: WorkPlan): RetainAction {
  return { messageId: request.hints.messageId, actionId, kept: 0, evicted: 0, lapsed: 0 };
}

function declared(
  action: RetainAction,
  declarer: string,
  priority: number,
  expiresAt: number,
): RetainDeclaration {
  return { action, declarer, priority, expiresAt, blocks: [], held: 0, order: 0 };
}

function startOf({ start }: RetainDirective, request: RequestState): number {
  return start ?? request.length - request.generated;
}

function blocksTo({ end }: RetainDirective, blockSize: number): number {
  return end === null ? Number.POSITIVE_INFINITY : Math.ceil(end / blockSize);
}

/** @param kept why blocks that are there were left out; null = none were. */
function counted(asked: number, done: number, kept: string | null): Result {
  const counts = { blocks_asked: asked, blocks_done: done };
  if (done > 0) return { outcome: done === asked ? 'accepted' : 'clipped', ...counts };
  return kept === null ? { outcome: 'missing', ...counts } : { outcome: 'rejected', reason: kept, ...counts };
}
