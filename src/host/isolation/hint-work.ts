// Calls of hint policies in a thread: each has a deadline of its own, and is told what became of it.
import type { Clock } from '../../plugin/index.ts';
import type { IsolatedPolicy, ThreadAnswer, ThreadSite } from './isolated-policy.ts';
import type { FromThread, WireContext } from './messages.ts';
import { type KeeperOptions, ThreadKeeper, type ThreadWork } from './thread-keeper.ts';

interface Call {
  readonly deadlineMs: number;
  /** Null = given up: nobody waits for the answer, which may still come. */
  answered: ((answer: ThreadAnswer) => void) | null;
  cancelDeadline: () => void;
}

/** Timers may fire a little before their time. */
const TIMER_SLACK_MS = 1;

/** The calls of one configured hint policy. */
export class HintWork implements ThreadWork {
  readonly keeper: ThreadKeeper;
  readonly #clock: Clock;
  /** In the order they were made, which is the order the thread takes them in. */
  readonly #calls = new Map<number, Call>();
  /** Calls that were given up. */
  #givenUp = 0;
  /** Since when the thread may be at the oldest call; ms. */
  #headSinceMs = 0;

  constructor(options: KeeperOptions) {
    this.#clock = options.clock;
    this.keeper = new ThreadKeeper(options, this);
  }

  /** A policy for a partition and role. */
  create(site: ThreadSite, deadlineMs: number): IsolatedPolicy {
    const { keeper } = this;
    const id = keeper.open(site);
    // What is behind calls that took too long already would take too long as well.
    const isReady = (): boolean => keeper.ready && this.#givenUp === 0;
    return {
      deadlineMs,
      get ready() {
        return isReady();
      },
      call: (context, answered) => this.#call(id, context, deadlineMs, answered),
      dispose: () => keeper.dispose(id),
    };
  }

  heard(message: FromThread): boolean {
    if (message.kind === 'output') {
      return this.#settle(message.call, { kind: 'output', output: message.output });
    }
    if (message.kind !== 'dropped') return false;
    const { call, reason, thrown } = message;
    return this.#settle(call, { kind: 'dropped', reason, error: thrown?.text ?? null });
  }

  died(why: string): void {
    // The thread takes calls in order, so the oldest is the one it ran, if it ran one.
    const [oldest] = this.#calls.keys();
    this.#lost(oldest, { kind: 'thread_died', error: why });
  }

  #call(
    site: number,
    context: WireContext,
    deadlineMs: number,
    answered: (answer: ThreadAnswer) => void,
  ): void {
    const call = this.keeper.nextId();
    if (this.#calls.size === 0) this.#headSinceMs = this.#clock.now();
    const cancelDeadline = this.#clock.schedule(deadlineMs, () => this.#overdue(call));
    this.#calls.set(call, { deadlineMs, answered, cancelDeadline });
    this.keeper.post({ kind: 'call', call, site, nowMs: this.#clock.now(), context });
  }

  /** A call has waited for its deadline. That the thread hangs shows only where it got no call done for as long. */
  #overdue(call: number): void {
    this.keeper.drain();
    const waiting = this.#calls.get(call);
    if (waiting === undefined) return;
    if (this.#clock.now() - this.#headSinceMs >= waiting.deadlineMs - TIMER_SLACK_MS) {
      this.keeper.giveUp('its deadline passed');
      this.#lost(call, { kind: 'timed_out', hangs: true });
      return;
    }
    const { answered } = waiting;
    if (answered === null) {
      this.#watch(call, waiting);
      return;
    }
    waiting.answered = null;
    this.#givenUp += 1;
    this.#watch(call, waiting);
    answered({ kind: 'timed_out', hangs: false });
  }

  /** Looks at a call that was given up again when the thread could have been at it for its deadline. */
  #watch(call: number, waiting: Call): void {
    const left = this.#headSinceMs + waiting.deadlineMs - this.#clock.now();
    waiting.cancelDeadline = this.#clock.schedule(Math.max(TIMER_SLACK_MS, left), () => this.#overdue(call));
  }

  #lost(culprit: number | undefined, answer: ThreadAnswer): void {
    // All of the past; who is told of one may want to make new ones.
    const lost = [...this.#calls.keys()];
    if (culprit !== undefined) this.#settle(culprit, answer);
    for (const call of lost) this.#settle(call, { kind: 'lost' });
  }

  /** False = an answer nobody asked for, or a second one, which is none. */
  #settle(call: number, answer: ThreadAnswer): boolean {
    const waiting = this.#calls.get(call);
    if (waiting === undefined) return false;
    this.#calls.delete(call);
    waiting.cancelDeadline();
    this.#headSinceMs = this.#clock.now();
    if (waiting.answered === null) this.#givenUp -= 1;
    else waiting.answered(answer);
    return true;
  }
}
