// Requests and events of request classifiers in a thread. The thread says of everything that it took it, within the deadline, and later
// what came of it. It has hung when it takes nothing for so long, whatever waits in it meanwhile.
import type { ClassifierEvent, Clock } from '../../plugin/index.ts';
import type { PluginGuard } from '../plugin-guard.ts';
import type { WireRequest } from './classifier-messages.ts';
import { type ClassifierSiteOptions, IsolatedClassifier, type ThreadVerdict } from './isolated-classifier.ts';
import type { ThreadSite } from './isolated-policy.ts';
import type { FromThread } from './messages.ts';
import { type KeeperOptions, ThreadKeeper, type ThreadWork } from './thread-keeper.ts';

/** While answers are waited for, and nothing else shows that the thread lives, it is asked so often; ms. */
export const PING_MS = 1000;

/** Answers to requests that were given up are expected, so many at most: one may never come, and nothing is kept of it. */
const MOST_FORGOTTEN = 10_000;

/** Something the thread was given, and who is told what came of it. */
type Task =
  | { readonly kind: 'request'; readonly verdict: (verdict: ThreadVerdict) => void }
  | { readonly kind: 'event'; readonly handled: (failed: string | null) => void };

/** The work of one configured classifier. */
export class ClassifierWork implements ThreadWork {
  readonly keeper: ThreadKeeper;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #tasks = new Map<number, Task>();
  /** Not yet taken by the thread, in the order it takes them in. */
  readonly #untaken = new Set<number>();
  readonly #sites = new Set<IsolatedClassifier>();
  #forgotten = 0;
  #cancelWatch: (() => void) | null = null;
  /** Charged with what no request stands for. */
  #guard: PluginGuard | null = null;

  constructor(options: KeeperOptions, deadlineMs: number) {
    this.#clock = options.clock;
    this.#deadlineMs = deadlineMs;
    this.keeper = new ThreadKeeper(options, this);
  }

  /** A classifier for a partition, or for all. */
  create(site: ThreadSite, options: ClassifierSiteOptions): IsolatedClassifier {
    this.#guard ??= options.guard;
    const id = this.keeper.open(site);
    const classifier = new IsolatedClassifier(id, this, options, () => this.#sites.delete(classifier));
    this.#sites.add(classifier);
    return classifier;
  }

  /** Asks; answers what forgets the request. Only while the thread is ready. */
  classify(site: number, request: WireRequest, verdict: (verdict: ThreadVerdict) => void): () => void {
    const { keeper } = this;
    const id = keeper.nextId();
    this.#give(id, { kind: 'request', verdict });
    keeper.post({ kind: 'classify', task: id, site, nowMs: this.#clock.now(), request });
    return () => {
      if (!this.#tasks.delete(id)) return;
      this.#forgotten = Math.min(MOST_FORGOTTEN, this.#forgotten + 1);
      if (this.#untaken.size === 0) this.#watch();
    };
  }

  /** Tells; `handled` is told what the handler threw. Only while the thread is ready. */
  tell(site: number, event: ClassifierEvent, handled: (failed: string | null) => void): void {
    const { keeper } = this;
    const id = keeper.nextId();
    this.#give(id, { kind: 'event', handled });
    keeper.post({ kind: 'event', task: id, site, nowMs: this.#clock.now(), event });
  }

  heard(message: FromThread): boolean {
    switch (message.kind) {
      case 'taken':
        return this.#taken(message.task);
      case 'classified': {
        this.#taken(message.task);
        const task = this.#done(message.task);
        if (task?.kind === 'request') task.verdict({ kind: 'answered', answer: message.answer });
        else if (this.#forgotten > 0) this.#forgotten -= 1;
        else return false;
        return true;
      }
      case 'handled': {
        this.#taken(message.task);
        const task = this.#done(message.task);
        if (task?.kind === 'event') task.handled(message.failed);
        return task?.kind === 'event';
      }
      default:
        return false;
    }
  }

  died(why: string): void {
    this.#lost({ kind: 'died', error: why });
  }

  #give(id: number, task: Task): void {
    this.#tasks.set(id, task);
    this.#untaken.add(id);
    // The deadline of what it has not taken yet goes on.
    if (this.#untaken.size === 1) this.#watch();
  }

  #taken(id: number): boolean {
    if (!this.#untaken.delete(id)) return false;
    this.#watch();
    return true;
  }

  #done(id: number): Task | null {
    const task = this.#tasks.get(id) ?? null;
    this.#tasks.delete(id);
    if (this.#tasks.size === 0 && this.#untaken.size === 0) this.#watch();
    return task;
  }

  /** Sets the next look at the thread, by what is open now. */
  #watch(): void {
    this.#cancelWatch?.();
    this.#cancelWatch = null;
    const [oldest] = this.#untaken;
    if (oldest !== undefined) {
      this.#cancelWatch = this.#clock.schedule(this.#deadlineMs, () => this.#overdue(oldest));
    } else if (this.#tasks.size > 0) {
      this.#cancelWatch = this.#clock.schedule(PING_MS, () => this.#ping());
    }
  }

  /** What it took may have hung it since. */
  #ping(): void {
    const id = this.keeper.nextId();
    this.#untaken.add(id);
    this.#watch();
    this.keeper.post({ kind: 'ping', task: id, nowMs: this.#clock.now() });
  }

  #overdue(id: number): void {
    // The router may have been the one that was busy.
    this.keeper.drain();
    if (!this.#untaken.has(id)) return;
    this.keeper.giveUp('its deadline passed');
    this.#lost({ kind: 'timed_out' });
  }

  /** The thread is gone; what it had not taken first is what it was at. */
  #lost(verdict: ThreadVerdict): void {
    const [culprit] = this.#untaken;
    const tasks = [...this.#tasks];
    this.#tasks.clear();
    this.#untaken.clear();
    this.#forgotten = 0;
    this.#watch();
    for (const site of this.#sites) site.threadLost();
    const blamed = tasks.find(([id, { kind }]) => id === culprit && kind === 'request');
    if (blamed === undefined && this.#sites.size > 0) this.#guard?.settledLater('failed', false);
    for (const [id, task] of tasks) {
      if (task.kind === 'event') task.handled(null);
      else task.verdict(id === culprit ? verdict : { kind: 'lost' });
    }
  }
}
