// A request classifier in a thread, of one partition or of all, as its stage sees it.
import {
  CapacityExhausted,
  type ClassifierEvent,
  type ClassifyRequest,
  RateLimited,
} from '../../plugin/index.ts';
import type { EventDelivery } from '../classifier-events.ts';
import { InvalidOverrides } from '../classifier-overrides.ts';
import type { LateAnswer } from '../classifier-types.ts';
import type { PluginGuard } from '../plugin-guard.ts';
import type { WireAnswer, WireWorkers } from './classifier-messages.ts';
import type { ClassifierWork } from './classifier-work.ts';

/** What became of a request in the thread. */
export type ThreadVerdict =
  | { readonly kind: 'answered'; readonly answer: WireAnswer }
  /** The thread did not take it within the deadline. */
  | { readonly kind: 'timed_out' }
  /** The thread ended over it. */
  | { readonly kind: 'died'; readonly error: string }
  /** Something else took the thread. */
  | { readonly kind: 'lost' };

/** Workers as they change. */
export interface WorkersView {
  /** Another one when they may have changed. */
  version(): unknown;
  read(): WireWorkers;
}

/** What a classifier of a site works with. */
export interface ClassifierSiteOptions {
  readonly guard: PluginGuard | null;
  /** Null = scope `shared`, which sees none. */
  readonly view: WorkersView | null;
  /** The handler of an event failed. */
  readonly eventFailed: (thrown: unknown) => void;
}

/** The classifier. */
export class IsolatedClassifier implements EventDelivery {
  readonly #site: number;
  readonly #work: ClassifierWork;
  readonly #options: ClassifierSiteOptions;
  readonly #closed: () => void;
  /** Requests the present thread was asked about and has not heard the end of. */
  readonly #known = new Set<string>();
  /** The same of earlier threads: what becomes of them is nobody's business any more. */
  readonly #orphans = new Set<string>();
  #queued = 0;
  #open = true;
  #version: unknown;

  constructor(site: number, work: ClassifierWork, options: ClassifierSiteOptions, closed: () => void) {
    this.#site = site;
    this.#work = work;
    this.#options = options;
    this.#closed = closed;
  }

  /** False while the thread is being replaced. */
  get ready(): boolean {
    return this.#work.keeper.ready;
  }

  /** Events the thread is not done with. */
  get queued(): number {
    return this.#queued;
  }

  /** Threads have no part in virtual time. */
  get waiting(): boolean {
    return false;
  }

  /** Asks; `answered` is called at most once, later. Only while it is ready. Answers what says that nobody waits any more. */
  ask(request: ClassifyRequest, answered: (answer: LateAnswer) => void): () => void {
    this.#refresh();
    const { requestId } = request;
    this.#known.add(requestId);
    // Members of their own, read now.
    return this.#work.classify(this.#site, { ...request }, (verdict) => {
      // It is told of nobody any more what passes without having been classified.
      if (verdict.kind === 'lost') this.#orphans.delete(requestId);
      answered(lateAnswer(verdict));
    });
  }

  push(event: ClassifierEvent, delivered: (() => void) | null): void {
    if (!this.#open) return;
    const isEnd = event.kind === 'completed' || event.kind === 'aborted';
    const isOrphan = this.#orphans.has(event.requestId);
    if (isEnd) this.#orphans.delete(event.requestId);
    if (isOrphan || !this.ready) {
      delivered?.();
      return;
    }
    if (isEnd) this.#known.delete(event.requestId);
    this.#refresh();
    this.#queued += 1;
    this.#work.tell(this.#site, event, (failed) => {
      this.#queued -= 1;
      if (!this.#open) return;
      if (failed !== null) this.#options.eventFailed(new Error(failed));
      delivered?.();
    });
  }

  /** The thread is gone, and with it what the classifier knew. */
  threadLost(): void {
    for (const requestId of this.#known) this.#orphans.add(requestId);
    this.#known.clear();
  }

  /** Delivers nothing more. */
  close(): void {
    this.#open = false;
  }

  async dispose(): Promise<void> {
    this.#closed();
    await this.#work.keeper.dispose(this.#site);
  }

  #refresh(): void {
    const { view } = this.#options;
    if (view === null) return;
    const version = view.version();
    if (version === this.#version) return;
    this.#version = version;
    this.#work.keeper.post({ kind: 'workers', site: this.#site, workers: view.read() });
  }
}

function lateAnswer(verdict: ThreadVerdict): LateAnswer {
  if (verdict.kind === 'died') return { kind: 'threw', thrown: new Error(verdict.error) };
  if (verdict.kind !== 'answered') return verdict;
  const { answer } = verdict;
  switch (answer.kind) {
    case 'overrides':
      return { kind: 'answered', value: answer.overrides };
    case 'invalid':
      return { kind: 'threw', thrown: new InvalidOverrides(answer.text) };
    case 'rate_limited':
      return { kind: 'threw', thrown: new RateLimited(answer.retryAfterSeconds, answer.message) };
    case 'capacity':
      return { kind: 'threw', thrown: new CapacityExhausted(answer.message) };
    case 'threw':
      return { kind: 'threw', thrown: new Error(answer.text) };
  }
}
