// Does what hints ask of an engine in this process: retains and evictions of named blocks, at the admission of their request or at its
// end. A retained block is lost only when every sequence that could take a request holds retained ones.
import { fromBigUint64Array } from '../kv/index.ts';
import {
  type HintPlan,
  type RetainAction,
  type RetainDeclaration,
  type RetainDirective,
  Retentions,
  type SimulatedHintOutcome,
  type WorkPlan,
} from '../simulator/index.ts';
import { KvBlocks } from './kv-blocks.ts';
import type { SequenceSlot } from './sequence-slot.ts';

/** Actions that are executed here. */
export const LOCAL_ACTIONS: readonly string[] = ['kv.retain@1.0', 'kv.retain@1.1', 'kv.evict@1.0'];
/** Part of the blocks that may be retained at a time. */
const RETAINED_SHARE = 0.5;

type Result = Pick<SimulatedHintOutcome, 'outcome' | 'reason' | 'blocks_asked' | 'blocks_done'>;

/** Whose hints they are. */
export interface HintedRequest {
  readonly hints: HintPlan;
  readonly sessionId: string | null;
  readonly promptTokens: number;
}

/** Executes the hints of one engine. */
export class HintWork {
  readonly blocks: KvBlocks;
  readonly #retentions = new Retentions();
  readonly #slots: readonly SequenceSlot[];
  readonly #blockSize: number;
  readonly #mostRetained: number;

  /** @param capacity blocks of all sequences together. */
  constructor(capacity: number, slots: readonly SequenceSlot[], blockSize: number) {
    this.blocks = new KvBlocks(capacity, this.#retentions);
    this.#slots = slots;
    this.#blockSize = blockSize;
    this.#mostRetained = Math.floor(capacity * RETAINED_SHARE);
  }

  /** Highest priority of the blocks that only this sequence holds, beyond its first ones; −1 = none is retained. */
  priorityOf(slot: SequenceSlot, keepBlocks: number): number {
    let priority = -1;
    for (let index = keepBlocks; index < slot.blockCount; index += 1) {
      const row = slot.rowAt(index);
      if (this.blocks.holders(row) === 1) priority = Math.max(priority, this.#retentions.priorityOf(row));
    }
    return priority;
  }

  /** Ends what is over and announces it. */
  expire(now: number): void {
    this.#retentions.expire(now, () => {});
    for (const { action, reason } of this.#retentions.takeLate()) {
      this.#late(action.messageId, action.actionId, {
        outcome: action.evicted === 0 ? 'accepted' : 'clipped',
        reason,
        blocks_done: reason === 'expired' ? action.lapsed : action.kept + action.lapsed,
      });
    }
  }

  /** The request was admitted: what can be done now is, the rest is deferred. @returns one outcome per action. */
  admitted(request: HintedRequest, now: number): SimulatedHintOutcome[] {
    const outcomes = [...request.hints.outcomes];
    const { fetch } = request.hints;
    if (fetch !== null) outcomes[fetch.position] = refused(fetch.actionId);
    for (const plan of request.hints.work) {
      outcomes[plan.position] = { action_id: plan.actionId, ...this.#atAdmission(request, plan, now) };
    }
    return outcomes;
  }

  /** The request ended, its sequence is free: does what was deferred and announces what came of it. */
  ended(request: HintedRequest, slot: SequenceSlot, now: number): void {
    const { messageId } = request.hints;
    for (const plan of request.hints.work) {
      if (plan.kind === 'retain-ranges')
        this.#late(messageId, plan.actionId, this.#retainRanges(request, plan, slot, now));
    }
    for (const plan of request.hints.work) {
      if (plan.kind !== 'evict' || plan.executeAt !== 'request_completion') continue;
      const own: number[] = [];
      for (let index = plan.ownFrom ?? slot.blockCount; index < slot.blockCount; index += 1)
        own.push(slot.rowAt(index));
      const named = this.#rowsOf(plan.blockHashes);
      const result = this.#evict([...named, ...own], declarerOf(request, null));
      this.#late(messageId, plan.actionId, result);
    }
  }

  #atAdmission(request: HintedRequest, plan: WorkPlan, now: number): Result {
    switch (plan.kind) {
      case 'retain': {
        const rows = this.#rowsOf(plan.blockHashes);
        const declarer = declarerOf(request, null);
        if (plan.priority === 0) return this.#unretain(rows, declarer);
        return this.#declare(
          rows,
          declared(newAction(request, plan), declarer, plan.priority, now + plan.ttlMs),
        );
      }
      case 'retain-ranges':
        return { outcome: 'deferred' };
      case 'evict':
        if (plan.executeAt === 'request_completion') return { outcome: 'deferred' };
        return this.#evict(this.#rowsOf(plan.blockHashes), declarerOf(request, null));
      case 'prefetch':
        // There is no other tier to fetch from.
        return { outcome: 'rejected', reason: 'unsupported' };
    }
  }

  #retainRanges(
    request: HintedRequest,
    plan: Extract<WorkPlan, { kind: 'retain-ranges' }>,
    slot: SequenceSlot,
    now: number,
  ): Result {
    const declarer = declarerOf(request, plan.scope);
    const action = newAction(request, plan);
    const startOf = ({ start }: RetainDirective): number => start ?? request.promptTokens;
    let asked = 0;
    let done = 0;
    let isFull = false;
    let from = 0;
    // Ranges never rise: of those that overlap a block, the one that begins first has the highest priority.
    for (const directive of [...plan.directives].sort((a, b) => startOf(a) - startOf(b))) {
      const first = Math.max(from, Math.floor(startOf(directive) / this.#blockSize));
      const { end: endToken, priority, ttlMs } = directive;
      const end = Math.min(
        slot.blockCount,
        endToken === null ? slot.blockCount : Math.ceil(endToken / this.#blockSize),
      );
      if (end <= first) continue;
      from = end;
      const rows = Array.from({ length: end - first }, (_, index) => slot.rowAt(first + index));
      const until = ttlMs === null ? Number.POSITIVE_INFINITY : now + ttlMs;
      const result =
        priority === 0
          ? this.#unretain(rows, declarer)
          : this.#declare(rows, declared(action, declarer, priority, until));
      asked += rows.length;
      done += result.blocks_done ?? 0;
      isFull ||= result.reason === 'no_room';
    }
    return counted(asked, done, isFull ? 'no_room' : null);
  }

  #declare(rows: readonly number[], declaration: RetainDeclaration): Result {
    let done = 0;
    let isFull = false;
    for (const row of rows) {
      if (row < 0) continue;
      const hasRoom = this.#retentions.has(row) || this.#retentions.blocks < this.#mostRetained;
      if (hasRoom && this.#retentions.add(row, declaration)) done += 1;
      else isFull = true;
    }
    return counted(rows.length, done, isFull ? 'no_room' : null);
  }

  #unretain(rows: readonly number[], declarer: string): Result {
    let done = 0;
    for (const row of rows) if (row >= 0 && this.#retentions.release(row, declarer)) done += 1;
    return { outcome: 'accepted', blocks_asked: rows.length, blocks_done: done };
  }

  /** A block goes only with everything behind it in its sequence, so that of each only an end that is named throughout is given up. */
  #evict(rows: readonly number[], declarer: string): Result {
    const named = new Set(
      rows.filter((row) => row >= 0 && !this.#retentions.isRetainedByOthers(row, declarer)),
    );
    for (const slot of this.#slots) {
      if (slot.busy) continue;
      let keep = slot.blockCount;
      while (keep > 0 && named.has(slot.rowAt(keep - 1))) keep -= 1;
      if (keep < slot.blockCount) slot.trim(keep, false);
    }
    const asked = rows.length;
    const held = rows.filter((row) => row >= 0 && this.blocks.holders(row) > 0).length;
    const missing = rows.filter((row) => row < 0).length;
    return counted(asked, asked - held - missing, held > 0 ? 'in_use' : null);
  }

  #rowsOf(blockHashes: BigUint64Array): number[] {
    const names = fromBigUint64Array(blockHashes);
    return Array.from({ length: blockHashes.length }, (_, index) =>
      this.blocks.rowOf(names[2 * index]!, names[2 * index + 1]!),
    );
  }

  #late(messageId: string, actionId: string, result: Result): void {
    this.blocks.hintOutcome({
      kind: 'hint-outcome',
      messageId,
      actionId,
      outcome: result.outcome,
      reason: result.reason ?? null,
      blocks: result.blocks_done ?? null,
    });
  }
}

function refused(actionId: string): SimulatedHintOutcome {
  return { action_id: actionId, outcome: 'rejected', reason: 'unsupported' };
}

/** Who declares: the scope given, which stands for a session, else the request's session, else this message alone. */
function declarerOf({ hints, sessionId }: HintedRequest, scope: string | null): string {
  const session = scope ?? sessionId;
  return session === null ? `message ${hints.messageId}` : `session ${session}`;
}

function newAction({ hints }: HintedRequest, { actionId }: WorkPlan): RetainAction {
  return { messageId: hints.messageId, actionId, kept: 0, evicted: 0, lapsed: 0 };
}

function declared(
  action: RetainAction,
  declarer: string,
  priority: number,
  expiresAt: number,
): RetainDeclaration {
  return { action, declarer, priority, expiresAt, blocks: [], held: 0, order: 0 };
}

/** @param kept why blocks that are there were left out; null = none were. */
function counted(asked: number, done: number, kept: string | null): Result {
  const counts = { blocks_asked: asked, blocks_done: done };
  if (done > 0) return { outcome: done === asked ? 'accepted' : 'clipped', ...counts };
  return kept === null ? { outcome: 'missing', ...counts } : { outcome: 'rejected', reason: kept, ...counts };
}
