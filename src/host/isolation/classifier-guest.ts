// Request classifiers in their thread. Messages come in the order of what happened in the router, and events are delivered by the
// same rules as there, so that a classifier sees the same in either place.
import {
  type AnyClassifierCreateContext,
  CapacityExhausted,
  type ClassifierWorker,
  type ClassifyRequest,
  errorText,
  RateLimited,
} from '../../plugin/index.ts';
import type { PreparedClassifier } from '../catalog.ts';
import { ClassifierEvents, isThenable } from '../classifier-events.ts';
import { checkOverrides, InvalidOverrides } from '../classifier-overrides.ts';
import { type CreatedClassifier, checkClassifier } from '../created-classifier.ts';
import { frozenSession } from '../frozen-session.ts';
import type { WireAnswer, WireRequest, WireWorkers } from './classifier-messages.ts';
import { type FromThread, MOST_TEXT, type ToThread, type WireThrown } from './messages.ts';
import type { CreateMessage, GuestBase, GuestKind } from './thread-guest.ts';

interface Site {
  readonly classifier: CreatedClassifier;
  readonly events: ClassifierEvents;
  readonly view: { workers: readonly ClassifierWorker[] };
  /** What the handler of the event being delivered threw. */
  readonly failure: { text: string | null };
}

/** No class has a longer name. */
const MAX_CLASS_NAME = 128;
/** Which classes there are is looked at in the router. */
const ANY_CLASS = Object.assign(new Set<string>(), { has: () => true });

/** The classifiers. */
export class ClassifierGuest implements GuestKind {
  readonly #prepared: PreparedClassifier;
  readonly #send: (message: FromThread) => void;
  /** By site; what `create` threw where there is none. */
  readonly #sites = new Map<number, Site | { readonly failed: WireThrown }>();

  constructor(prepared: PreparedClassifier, send: (message: FromThread) => void) {
    this.#prepared = prepared;
    this.#send = send;
  }

  create({ site: id, place }: CreateMessage, base: GuestBase): void {
    const { create, type } = this.#prepared;
    const view: { workers: readonly ClassifierWorker[] } = { workers: [] };
    let context: object = base;
    // A shared classifier gets no partition, as its own type of `create` says.
    if (place !== null && 'workers' in place) {
      const { partition, blockSize } = place;
      view.workers = frozenWorkers(place.workers);
      context = { ...base, partition: Object.freeze(partition), blockSize, workers: () => view.workers };
    }
    const classifier = checkClassifier(
      create(context as AnyClassifierCreateContext),
      `request classifier ${type}`,
    );
    const failure: { text: string | null } = { text: null };
    const events = new ClassifierEvents({
      clock: base.clock,
      onEvent: classifier.onEvent,
      failed(thrown) {
        failure.text = errorText(thrown).slice(0, MOST_TEXT);
      },
    });
    this.#sites.set(id, { classifier, events, view, failure });
  }

  failed(site: number, failed: WireThrown): void {
    this.#sites.set(site, { failed });
  }

  remove(id: number): (() => unknown) | null {
    const site = this.#sites.get(id);
    this.#sites.delete(id);
    if (site === undefined || !('events' in site)) return null;
    site.events.close();
    return site.classifier.dispose;
  }

  sites(): readonly number[] {
    return [...this.#sites.keys()];
  }

  take(message: ToThread): void {
    switch (message.kind) {
      case 'classify':
        this.#classify(message);
        return;
      case 'event':
        this.#event(message);
        return;
      case 'ping':
        this.#send({ kind: 'taken', task: message.task });
        return;
      case 'workers': {
        const site = this.#sites.get(message.site);
        if (site !== undefined && 'events' in site) site.view.workers = frozenWorkers(message.workers);
        return;
      }
    }
  }

  #classify({ task, site: id, request }: Extract<ToThread, { kind: 'classify' }>): void {
    const site = this.#sites.get(id);
    const say = (answer: WireAnswer) => this.#send({ kind: 'classified', task, answer });
    if (site === undefined || !('events' in site)) {
      say({ kind: 'threw', text: site?.failed.text ?? 'there is no classifier here' });
      return;
    }
    let answer: unknown;
    let later: boolean;
    try {
      answer = site.classifier.classify?.(readRequest(request));
      later = isThenable(answer);
    } catch (thrown) {
      say(wireRefusal(thrown));
      return;
    }
    if (!later) {
      say(wireAnswer(answer));
      return;
    }
    this.#send({ kind: 'taken', task });
    new Promise((resolve) => resolve(answer)).then(
      (value) => say(wireAnswer(value)),
      (thrown: unknown) => say(wireRefusal(thrown)),
    );
  }

  #event({ task, site: id, event }: Extract<ToThread, { kind: 'event' }>): void {
    const site = this.#sites.get(id);
    if (site === undefined || !('events' in site)) {
      this.#send({ kind: 'handled', task, failed: null });
      return;
    }
    let handled = false;
    if (event.worker !== null) Object.freeze(event.worker);
    site.events.push(Object.freeze(event), () => {
      handled = true;
      const failed = site.failure.text;
      site.failure.text = null;
      this.#send({ kind: 'handled', task, failed });
    });
    if (!handled) this.#send({ kind: 'taken', task });
  }
}

/** What `classify` answered, read here: reading may run what the classifier made, and that must not happen on the router's thread. */
function wireAnswer(answer: unknown): WireAnswer {
  try {
    const { policyClass, ...others } = checkOverrides(answer, ANY_CLASS);
    if (policyClass === undefined) return { kind: 'overrides', overrides: others };
    // A longer one is no class either.
    const name = policyClass?.slice(0, MAX_CLASS_NAME + 1) ?? null;
    return { kind: 'overrides', overrides: { policyClass: name, ...others } };
  } catch (thrown) {
    if (!(thrown instanceof InvalidOverrides)) return wireRefusal(thrown);
    return { kind: 'invalid', text: errorText(thrown).slice(0, MOST_TEXT) };
  }
}

function wireRefusal(thrown: unknown): WireAnswer {
  try {
    if (thrown instanceof RateLimited) {
      const seconds: unknown = thrown.retryAfterSeconds;
      const retryAfterSeconds = typeof seconds === 'number' ? seconds : Number.NaN;
      return { kind: 'rate_limited', retryAfterSeconds, message: ownText(thrown) };
    }
    if (thrown instanceof CapacityExhausted) return { kind: 'capacity', message: ownText(thrown) };
  } catch {
    // Poisoned: what cannot be read is no refusal.
  }
  return { kind: 'threw', text: errorText(thrown).slice(0, MOST_TEXT) };
}

function ownText({ message }: { readonly message: unknown }): string {
  return typeof message === 'string' ? message.slice(0, MOST_TEXT) : '';
}

/** As a classifier sees it in process, but that `contextTokens` stays as it was. */
function readRequest({ session, pinnedWorker, ...facts }: WireRequest): ClassifyRequest {
  return Object.freeze({
    ...facts,
    session: frozenSession(session),
    pinnedWorker: pinnedWorker === null ? null : Object.freeze(pinnedWorker),
  });
}

function frozenWorkers(workers: WireWorkers): readonly ClassifierWorker[] {
  for (const worker of workers) {
    Object.freeze(worker.ranks);
    Object.freeze(worker);
  }
  return Object.freeze(workers);
}
