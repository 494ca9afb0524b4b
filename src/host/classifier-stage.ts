// The classifier of one partition at work: its requests under way, its guard, its events. A classifier costs at most the requests it
// was asked about; none waits longer than it may, and a request that ends waits no more.
import type { Metrics } from '../observe/index.ts';
import { type ClassifierEvent, type Clock, errorText, type Logger } from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import {
  classifierClosed,
  classifierFailed,
  classifierTimedOut,
  classifierTripped,
  duplicateRequest,
  refusalOf,
} from './classifier-errors.ts';
import { type EventDelivery, isThenable } from './classifier-events.ts';
import { Lifecycle, type LifecycleStage } from './classifier-lifecycle.ts';
import { checkOverrides, NO_OVERRIDES } from './classifier-overrides.ts';
import type { ClassifierFacts, ClassifierStage, LateAnswer, RequestLifecycle } from './classifier-types.ts';
import type { CreatedClassifier } from './created-classifier.ts';
import type { IsolatedClassifier } from './isolation/isolated-classifier.ts';
import type { PluginGuard } from './plugin-guard.ts';

/** While so many events wait to be delivered, new requests are treated as while the classifier is tripped: events are never dropped. */
const MOST_EVENTS = 65_536;

/** What a stage works with. */
export interface StageOptions {
  /** Null = it changes nothing about requests and is only told of them. */
  readonly classify: CreatedClassifier['classify'];
  /** It runs in a thread, and this is asked instead; null = it runs here. */
  readonly isolated: IsolatedClassifier | null;
  readonly events: EventDelivery;
  /** Type, for records, metrics and log. */
  readonly type: string;
  /** Policy classes that may be named. */
  readonly classes: ReadonlySet<string>;
  readonly maxWaitMs: number;
  /** Whether requests are refused, rather than passed on as they are, while the classifier is tripped. */
  readonly refusesWhenTripped: boolean;
  /** Null = nobody guards it. */
  readonly guard: PluginGuard | null;
  /** Held by each request from its beginning until its end was heard; null = nobody counts. */
  readonly hold: GenerationHold | null;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** The stage. */
export class PartitionClassifier implements ClassifierStage, LifecycleStage {
  readonly #options: StageOptions;
  /** The last request begun under an id, until its terminal event is delivered. */
  readonly #last = new Map<string, Lifecycle>();
  /** Whom each request waits for, and the other way round, where an id is used again. */
  readonly #earlier = new Map<Lifecycle, Lifecycle>();
  readonly #later = new Map<Lifecycle, Lifecycle>();
  readonly #pending = new Set<Lifecycle>();
  readonly #complained = new Set<string>();
  #closed = false;

  constructor(options: StageOptions) {
    this.#options = options;
  }

  /** Whether an answer is waited for. */
  get waiting(): boolean {
    return this.#pending.size > 0;
  }

  begin(facts: ClassifierFacts): RequestLifecycle {
    if (this.#closed) throw classifierClosed();
    const known = this.#last.get(facts.requestId);
    if (known !== undefined && !known.ended) throw duplicateRequest(this.#options.type);
    const lifecycle = new Lifecycle(facts, this);
    if (known !== undefined) {
      this.#earlier.set(lifecycle, known);
      this.#later.set(known, lifecycle);
    }
    this.#last.set(facts.requestId, lifecycle);
    this.#options.hold?.retain();
    return lifecycle;
  }

  /** Refuses whoever waits; the classifier is neither asked nor told of anything any more. */
  close(): void {
    // Whoever is refused may try again at once.
    this.#closed = true;
    for (const lifecycle of this.#last.values()) {
      if (lifecycle.waiting) lifecycle.refuse(classifierClosed(), true);
    }
    this.#pending.clear();
  }

  // --- what lifecycles ask ---

  awaitsEarlier(lifecycle: Lifecycle): boolean {
    return this.#earlier.has(lifecycle);
  }

  tell(event: ClassifierEvent, delivered: (() => void) | null): void {
    this.#options.events.push(event, delivered);
  }

  forget(lifecycle: Lifecycle): void {
    const { requestId } = lifecycle.facts;
    if (this.#last.get(requestId) === lifecycle) this.#last.delete(requestId);
    const later = this.#later.get(lifecycle);
    this.#later.delete(lifecycle);
    this.#options.hold?.release();
    if (later === undefined) return;
    this.#earlier.delete(later);
    later.ask();
  }

  ask(lifecycle: Lifecycle): () => void {
    const { classify, guard, isolated } = this.#options;
    const askedAt = this.#options.clock.now();
    if (isolated?.ready === false) {
      guard?.skip();
      this.#skip(lifecycle);
      return nothing;
    }
    if (this.#options.events.queued >= MOST_EVENTS) {
      this.#skip(lifecycle);
      return nothing;
    }
    const asked = isolated ?? classify;
    if (asked === null) {
      this.#settle(lifecycle, undefined, askedAt);
      return nothing;
    }
    // The guard is asked only before a call: to be admitted and not to call would leave a probe that nobody ends.
    if (guard?.admits() === false) {
      this.#skip(lifecycle);
      return nothing;
    }
    if (typeof asked !== 'function') {
      // What is done here is the host's work: no time of it counts against the plugin.
      const isProbe = guard?.endLater(guard.begin()) ?? false;
      return this.#wait(lifecycle, askedAt, isProbe, (answered) => asked.ask(lifecycle.request, answered));
    }
    const startedAt = guard?.begin() ?? 0;
    let answer: unknown;
    let later: boolean;
    try {
      answer = asked(lifecycle.request);
      later = isThenable(answer);
    } catch (thrown) {
      guard?.end(startedAt, !isRefusal(thrown));
      this.#fail(lifecycle, thrown);
      return nothing;
    }
    if (!later) {
      // Reading the answer is part of the call: it may run the classifier's getters.
      this.#settle(lifecycle, answer, askedAt, (failed) => guard?.end(startedAt, failed));
      return nothing;
    }
    const isProbe = guard?.endLater(startedAt) ?? false;
    return this.#wait(lifecycle, askedAt, isProbe, (answered) => {
      new Promise((resolve) => resolve(answer)).then(
        (value) => answered({ kind: 'answered', value }),
        (thrown: unknown) => answered({ kind: 'threw', thrown }),
      );
      return nothing;
    });
  }

  /**
   * @param listen begins to wait for the answer; what it returns is called when nobody does any more
   * @returns what ends the wait when the request is over.
   */
  #wait(
    lifecycle: Lifecycle,
    askedAt: number,
    isProbe: boolean,
    listen: (answered: (answer: LateAnswer) => void) => () => void,
  ): () => void {
    const { clock, guard, maxWaitMs } = this.#options;
    let over = false;
    const end = (): boolean => {
      if (over) return false;
      over = true;
      cancel();
      this.#pending.delete(lifecycle);
      return true;
    };
    const judged = (failed: boolean): void => guard?.settledLater(failed ? 'failed' : 'ok', isProbe);
    const late = (): void => {
      judged(true);
      this.#timedOut(lifecycle);
    };
    const cancel = clock.schedule(maxWaitMs, () => {
      if (!end()) return;
      stop();
      late();
    });
    this.#pending.add(lifecycle);
    const stop = listen((answer) => {
      if (!end()) return;
      switch (answer.kind) {
        case 'answered':
          this.#settle(lifecycle, answer.value, askedAt, judged);
          return;
        case 'threw':
          judged(!isRefusal(answer.thrown));
          this.#fail(lifecycle, answer.thrown);
          return;
        case 'timed_out':
          late();
          return;
        case 'lost':
          // Had it been the probe, there would be none any more.
          guard?.settledLater(isProbe ? 'failed' : 'none', isProbe);
          this.#skip(lifecycle);
          return;
      }
    });
    return () => {
      if (!end()) return;
      stop();
      guard?.settledLater('none', isProbe);
      this.#count('left', '');
    };
  }

  #timedOut(lifecycle: Lifecycle): void {
    const error = classifierTimedOut(this.#options.type);
    this.#complain(error.code, 'a request classifier did not answer in time', error);
    this.#count('failed', error.code);
    lifecycle.refuse(error, false);
  }

  /** Takes an answer; `judged` is told whether it is a bad one before anything follows from it. */
  #settle(
    lifecycle: Lifecycle,
    answer: unknown,
    askedAt: number,
    judged: ((failed: boolean) => void) | null = null,
  ): void {
    const { classes, clock, type } = this.#options;
    let overrides = NO_OVERRIDES;
    try {
      overrides = checkOverrides(answer, classes);
    } catch (thrown) {
      judged?.(true);
      this.#fail(lifecycle, thrown);
      return;
    }
    judged?.(false);
    this.#count('classified', '');
    const waitedMs = clock.now() - askedAt;
    lifecycle.answer({ classifier: type, asked: true, waitedMs, overrides });
  }

  #fail(lifecycle: Lifecycle, thrown: unknown): void {
    const { type } = this.#options;
    const refusal = refusalOf(thrown, type);
    if (refusal !== null) {
      this.#count('refused', refusal.code);
      lifecycle.refuse(refusal, false);
      return;
    }
    const error = classifierFailed(thrown, type);
    this.#complain(error.code, 'a request classifier failed', thrown);
    this.#count('failed', error.code);
    lifecycle.refuse(error, false);
  }

  #skip(lifecycle: Lifecycle): void {
    const { refusesWhenTripped, type } = this.#options;
    if (refusesWhenTripped) {
      const error = classifierTripped(type);
      this.#count('skipped', error.code);
      lifecycle.refuse(error, true);
      return;
    }
    this.#count('skipped', '');
    lifecycle.answer({ classifier: type, asked: false, waitedMs: 0, overrides: NO_OVERRIDES });
  }

  #count(result: 'classified' | 'refused' | 'failed' | 'left' | 'skipped', code: string): void {
    const { metrics, type } = this.#options;
    metrics.count('pointsman_classifications_total', { classifier: type, result, code });
  }

  /** Once per code: the counters go on. */
  #complain(code: string, message: string, thrown: unknown): void {
    if (this.#complained.has(`${code} ${message}`)) return;
    this.#complained.add(`${code} ${message}`);
    const { log, type } = this.#options;
    log.error(message, { classifier: type, code, error: errorText(thrown) });
  }
}

function nothing(): void {}

function isRefusal(thrown: unknown): boolean {
  return refusalOf(thrown, '') !== null;
}
