// Sends the turns of sessions in a closed loop.
import type { SessionContext } from '../plugin/index.ts';
import type { VirtualTime } from '../simulator/index.ts';
import { type Arrivals, type ReplayDoorOptions, stuck } from './replay-door.ts';
import type { RequestDoor } from './request-door.ts';
import type { RunCollector } from './run-collector.ts';
import { SessionLoop } from './session-loop.ts';
import { type SessionPlan, turnTokens } from './session-plan.ts';
import type { SessionTally } from './session-tally.ts';

const NO_HEADERS = Object.freeze({});

/** Lets a plan's sessions run. Prompts are made when they are sent. */
export class SessionDoor implements Arrivals {
  readonly #name: string;
  readonly #plan: SessionPlan;
  readonly #time: VirtualTime;
  readonly #door: RequestDoor;
  readonly #collector: RunCollector;
  readonly #tally: SessionTally;
  readonly #loop: SessionLoop;
  #started = false;

  constructor(
    { name, speedup }: ReplayDoorOptions,
    plan: SessionPlan,
    time: VirtualTime,
    door: RequestDoor,
    collector: RunCollector,
    tally: SessionTally,
  ) {
    this.#name = name;
    this.#plan = plan;
    this.#time = time;
    this.#door = door;
    this.#collector = collector;
    this.#tally = tally;
    this.#loop = new SessionLoop(plan, speedup, {
      after: (delayMs, callback) => time.plan(time.now() + delayMs, 'arrival', callback),
      send: (session, turn) => this.#send(session, turn),
    });
  }

  step(): void {
    if (!this.#started) {
      this.#started = true;
      this.#loop.start();
    }
    if (!this.#time.step()) throw stuck(this.#name, this.#collector.ended, this.#plan.requests);
  }

  #send(index: number, turn: number): void {
    const session = this.#plan.sessions[index]!;
    this.#tally.sent(index, turn);
    this.#door.send(
      {
        id: `${session.sessionId}/${turn + 1}`,
        tokens: turnTokens(this.#plan, session, turn),
        outputTokens: session.turns[turn]!.outputTokens,
        session: sessionContext(this.#plan, index, turn),
      },
      (completed) => {
        if (completed !== null) {
          const { arrivedAt, firstTokenAt, isMeasured, report } = completed;
          const ttftMs = firstTokenAt < 0 || !isMeasured ? -1 : firstTokenAt - arrivedAt;
          this.#tally.completed(index, turn, ttftMs, report);
        }
        this.#loop.ended(index, turn);
      },
    );
  }
}

/** What a turn's headers would say. */
export function sessionContext(plan: SessionPlan, index: number, turn: number): SessionContext {
  const { parent, sessionId, turns } = plan.sessions[index]!;
  const { trigger } = turns[turn]!;
  return Object.freeze({
    sessionId,
    ...(parent < 0 ? {} : { parentSessionId: plan.sessions[parent]!.sessionId }),
    ...(turn + 1 === turns.length && { sessionFinal: true }),
    ...(trigger === null ? {} : { inputTrigger: trigger }),
    agentHeaders: NO_HEADERS,
  });
}
