// The closed loop of a session trace: who sends what when. A turn is sent a think time after the answer to the turn before it and the
// end of the sub-agents it waits for; a sub-agent starts a while after the answer to the turn that started it.
import type { PlannedSession, SessionPlan } from './session-plan.ts';

/** What a loop acts through. */
export interface SessionLoopPorts {
  /** Calls back `delayMs` from now. */
  readonly after: (delayMs: number, callback: () => void) => void;
  /** Sends a turn now; whoever does tells `ended` later. */
  readonly send: (session: number, turn: number) => void;
}

/** Drives all sessions of a plan. */
export class SessionLoop {
  readonly #plan: SessionPlan;
  readonly #ports: SessionLoopPorts;
  readonly #thinkCap: number;
  readonly #speedup: number;
  /** By session and turn: what has to end before it is sent. */
  readonly #waits: readonly Int32Array[];
  /** By session and turn: the sub-agents that start after it. */
  readonly #children = new Map<number, Map<number, number[]>>();
  /** By sub-agent: the turn of its parent that waits for it. */
  readonly #awaitedBy = new Map<number, number>();

  /** @param speedup divides starts and think times. */
  constructor(plan: SessionPlan, speedup: number, ports: SessionLoopPorts) {
    this.#plan = plan;
    this.#ports = ports;
    this.#thinkCap = plan.settings.think_cap_ms;
    this.#speedup = speedup;
    this.#waits = plan.sessions.map(({ family, turns }, session) => {
      for (const [index, { awaits }] of turns.entries()) {
        for (const awaited of awaits) this.#awaitedBy.set(family + awaited, index);
      }
      this.#adopt(session, plan.sessions[session]!);
      return Int32Array.from(turns, ({ awaits }) => 1 + awaits.length);
    });
  }

  /** Plans the start of every session that no other one starts. */
  start(): void {
    for (const [index, { parent, startAt }] of this.#plan.sessions.entries()) {
      if (parent < 0) this.#ports.after(startAt / this.#speedup, () => this.#ports.send(index, 0));
    }
  }

  /** The answer to a turn is complete, or will not come. */
  ended(session: number, turn: number): void {
    const one = this.#plan.sessions[session]!;
    for (const child of this.#children.get(session)?.get(turn) ?? []) this.#spawn(child);
    if (turn + 1 < one.turns.length) this.#release(session, turn + 1);
    else this.#close(session, one);
  }

  #adopt(session: number, { parent, startsAfter }: PlannedSession): void {
    if (parent < 0) return;
    const byTurn = this.#children.get(parent) ?? new Map<number, number[]>();
    this.#children.set(parent, byTurn);
    const children = byTurn.get(startsAfter);
    if (children === undefined) byTurn.set(startsAfter, [session]);
    else children.push(session);
  }

  #spawn(child: number): void {
    const { startDelayMs } = this.#plan.sessions[child]!;
    this.#later(startDelayMs, () => this.#ports.send(child, 0));
  }

  #close(session: number, { parent }: PlannedSession): void {
    const awaited = this.#awaitedBy.get(session);
    if (awaited !== undefined) this.#release(parent, awaited);
  }

  /** Something that a turn waited for has ended. */
  #release(session: number, turn: number): void {
    const waits = this.#waits[session]!;
    waits[turn]! -= 1;
    if (waits[turn]! > 0) return;
    const { thinkMs } = this.#plan.sessions[session]!.turns[turn]!;
    this.#later(thinkMs, () => this.#ports.send(session, turn));
  }

  #later(delayMs: number, callback: () => void): void {
    this.#ports.after(Math.min(delayMs, this.#thinkCap) / this.#speedup, callback);
  }
}
