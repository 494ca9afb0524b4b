// Calls of hint policies in a thread: each has a deadline of its own, and is told what became of it.
import type { Clock } from '../../plugin/index.ts';
import type { IsolatedPolicy, ThreadAnswer, ThreadSite } from './isolated-policy.ts';
import type { FromThread, WireContext } from './messages.ts';
import { type KeeperOptions, ThreadKeeper, type ThreadWork } from './thread-keeper.ts';

interface Call {
  readonly answered: (answer: ThreadAnswer) => void;
  readonly cancelDeadline: () => void;
}

/** The calls of one configured hint policy. */
export class HintWork implements ThreadWork {
  readonly keeper: ThreadKeeper;
  readonly #clock: Clock;
  /** In the order they were made, which is the order the thread takes them in. */
  readonly #calls = new Map<number, Call>();

  constructor(options: KeeperOptions) {
    this.#clock = options.clock;
    this.keeper = new ThreadKeeper(options, this);
  }

  /** A policy for a partition and role. */
  create(site: ThreadSite, deadlineMs: number): IsolatedPolicy {
    const { keeper } = this;
    const id = keeper.open(site);
    return {
      deadlineMs,
      get ready() {
        return keeper.ready;
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
    const cancelDeadline = this.#clock.schedule(deadlineMs, () => this.#overdue(call));
    this.#calls.set(call, { answered, cancelDeadline });
    this.keeper.post({ kind: 'call', call, site, nowMs: this.#clock.now(), context });
  }

  #overdue(call: number): void {
    this.keeper.drain();
    if (!this.#calls.has(call)) return;
    this.keeper.giveUp('its deadline passed');
    this.#lost(call, { kind: 'timed_out' });
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
    waiting.answered(answer);
    return true;
  }
}
