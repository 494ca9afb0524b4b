// The peak live working set of a session plan: the most different blocks at any moment of sessions that have begun and still have a
// turn to come, by a dry run in which nobody waits for anybody: every answer takes the time it took when the trace was taken.
import { VirtualTime } from '../simulator/index.ts';
import { SessionLoop } from './session-loop.ts';
import type { SessionPlan } from './session-plan.ts';

/** What a dry run finds. */
export interface WorkingSet {
  /** Blocks of the trace's block size at the peak. */
  readonly blocks: number;
  /** End of the dry run, ms. */
  readonly durationMs: number;
}

/**
 * Measures it. A session's blocks are those of every prompt it has sent so far; it counts from its first turn until its last one is
 * sent. Blocks that a session shares with its sub-agents count once.
 */
export function measureWorkingSet(plan: SessionPlan, speedup: number): WorkingSet {
  const time = new VirtualTime();
  const live = new LiveBlocks(plan);
  let peak = 0;
  const loop: SessionLoop = new SessionLoop(plan, speedup, {
    after: (delayMs, callback) => time.plan(time.now() + delayMs, 'arrival', callback),
    send(session, turn) {
      live.sent(session, turn);
      peak = Math.max(peak, live.count);
      const { answerMs } = plan.sessions[session]!.turns[turn]!;
      time.plan(time.now() + answerMs, 'message', () => loop.ended(session, turn));
    },
  });
  loop.start();
  while (time.step());
  return { blocks: peak, durationMs: time.now() };
}

/** Blocks of live sessions, each counted once. */
class LiveBlocks {
  count = 0;
  readonly #plan: SessionPlan;
  /** By the token of an id: live sessions that have it. */
  readonly #holders: Uint16Array;
  /** By session that is live: ids it has. */
  readonly #held = new Map<number, Uint8Array>();
  readonly #base: number;

  constructor(plan: SessionPlan) {
    this.#plan = plan;
    this.#base = plan.sessions[0]?.firstToken ?? 0;
    this.#holders = new Uint16Array(plan.endOfIds - this.#base);
  }

  sent(session: number, turn: number): void {
    const { firstToken, turns, uniqueIds } = this.#plan.sessions[session]!;
    const first = firstToken - this.#base;
    const held = this.#held.get(session) ?? new Uint8Array(uniqueIds);
    if (turn + 1 === turns.length) {
      for (const [id, has] of held.entries()) if (has === 1) this.#drop(first + id);
      this.#held.delete(session);
      return;
    }
    this.#held.set(session, held);
    for (const id of turns[turn]!.ids) {
      if (held[id] === 1) continue;
      held[id] = 1;
      this.#take(first + id);
    }
  }

  #take(row: number): void {
    if (this.#holders[row] === 0) this.count += 1;
    this.#holders[row]! += 1;
  }

  #drop(row: number): void {
    this.#holders[row]! -= 1;
    if (this.#holders[row] === 0) this.count -= 1;
  }
}
