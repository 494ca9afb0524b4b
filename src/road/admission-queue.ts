// The queue step: whose turn it is. A request waits when those that could take it are busy with prompts, or others of its class wait
// already; it goes on when their load falls, in the order of its class and with the share of its class. Where no model has a profile or a
// threshold nothing is asked and nothing kept. Nobody's turn comes inside of another's call: the queue is looked at a moment later.

import type { QueueSettings } from '../config/index.ts';
import type { Fleet } from '../fleet/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, type Partition, PointsmanError } from '../plugin/index.ts';
import {
  hasThreshold,
  OPEN_PROFILE,
  type QueueEntry,
  type QueueGate,
  type QueueProfile,
} from '../scheduling/index.ts';
import { sessionBytes } from './agent-headers.ts';
import { promptTokensOf, type Waits } from './caller-part.ts';
import { askedClassOf, dueAtOf, turnCostOf } from './classify.ts';
import type { HeldExchange, HeldRequest } from './first-worker-hold.ts';
import { ModelQueue } from './model-queue.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import { sumsOf } from './queue-gauges.ts';
import { groupOf, labelsOf, queueKey } from './queue-names.ts';
import { QueueProfiles } from './queue-profiles.ts';
import { hashBytes, type KnownHashes, type QueueOutcome } from './queue-walk.ts';
import type { RoadRequest } from './types.ts';

/** While anybody waits, ms between looks that nothing else calls for: foreseen prefill falls by itself. */
const RECHECK_MS = 100;
/** Timers of a machine go no further. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** Kept for those that wait, with their sessions: hashes beyond that are computed again. */
const MAX_KEPT_BYTES = 64 * 2 ** 20;

/** Turns of a queue in one look; whatever else the router has to do comes between two. */
const MOST_TURNS = 256;

/** What the queue works with. */
export interface AdmissionPorts<E extends HeldExchange> {
  readonly fleet: Fleet;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly gate: QueueGate;
  /** A request as it looks for a place: as it came, or pinned by now. */
  readonly asQueued: (request: RoadRequest) => RoadRequest;
  /** It is a request's turn. */
  readonly goOn: (walk: HeldRequest<E>) => void;
  readonly asError: (thrown: unknown) => PointsmanError;
}

interface Waiting<E extends HeldExchange> {
  readonly walk: HeldRequest<E>;
  readonly of: ModelQueue<Waiting<E>>;
  readonly since: number;
  readonly dueAt: number | null;
  readonly known: KnownHashes | null;
  /** What it keeps: hashes, and texts of its session. */
  readonly bytes: number;
  entry: QueueEntry<Waiting<E>> | null;
  cancelDue: (() => void) | null;
}

const GOES: QueueOutcome = { kind: 'goes', facts: null };
const WAITS: QueueOutcome = { kind: 'waits' };

/** It waits as another entry from now on. */
function setEntry<E extends HeldExchange>(entry: QueueEntry<Waiting<E>>): void {
  entry.payload.entry = entry;
}

/** All queues of a road. */
export class AdmissionQueue<E extends HeldExchange> {
  /** Whether any model has a profile; a field, as every request reads it. */
  active = false;
  readonly #ports: AdmissionPorts<E>;
  readonly #profiles = new QueueProfiles();
  /** By model, and by routing group and role, from the first request on that had to wait. */
  readonly #queues = new Map<string, Map<string, ModelQueue<Waiting<E>>>>();
  #waiting = 0;
  #keptBytes = 0;
  #cancelSoon: (() => void) | null = null;
  #cancelTick: (() => void) | null = null;
  #closed = false;

  constructor(ports: AdmissionPorts<E>) {
    this.#ports = ports;
    const { metrics, fleet } = ports;
    metrics.gauge('pointsman_queue_pending_requests', () => sumsOf(this.#all(), ({ requests }) => requests));
    metrics.gauge('pointsman_queue_pending_isl_tokens', () =>
      sumsOf(this.#all(), (stats) => stats.rawIslTokens),
    );
    metrics.gauge('pointsman_queue_pending_cached_tokens', () =>
      sumsOf(this.#all(), (stats) => stats.cachedTokens),
    );
    metrics.gauge('pointsman_queue_kept_bytes', () => this.#keptBytes);
    const changed = (): void => this.#lookSoon(true);
    fleet.listen({ added: changed, removed: changed, stateChanged: changed, capabilitiesChanged: changed });
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** What of a partition waits. */
  waitingOf({ model, routingGroup }: Partition): Waits {
    const waits = { requests: 0, promptTokens: 0 };
    for (const [key, queue] of this.#queues.get(model) ?? []) {
      if (groupOf(key) !== routingGroup) continue;
      for (const { stats } of queue.classes) {
        waits.requests += stats.requests;
        waits.promptTokens += stats.rawIslTokens;
      }
    }
    return waits;
  }

  /** Takes profiles and thresholds, from the next request on; who waits goes over to the new classes. */
  set(settings: QueueSettings): void {
    if (!this.#profiles.set(settings)) return;
    this.active = this.#profiles.any;
    for (const queue of this.#all()) {
      queue.change(this.#profiles.of(queue.model) ?? OPEN_PROFILE, setEntry);
    }
    this.#lookSoon(true);
  }

  /** Whether a request goes on, waits from now on, or may not even wait. Ask where `active` alone. */
  pass(walk: HeldRequest<E>, lookup: PromptLookup): QueueOutcome {
    const { classification } = walk;
    const request = this.#ports.asQueued(walk.request);
    const profile = this.#profiles.of(request.partition.model);
    if (profile === null || request.queueing === 'bypass') return GOES;
    const { gate, clock, metrics } = this.#ports;
    const { match, runtime, blockSize } = lookup;
    const rawIsl = promptTokensOf(request);
    const bestCached = (): number => gate.bestCached(request, match, runtime, blockSize, rawIsl);
    const asked = askedClassOf(request, classification);
    if (asked !== null && !profile.has(asked))
      metrics.count('pointsman_queue_unknown_classes_total', { model: request.partition.model });
    let cached = profile.isNamed(asked) ? null : bestCached();
    const at = profile.classOf(asked, rawIsl - (cached ?? 0));
    const queueClass = profile.classes[at]!;
    const { name: policyClass, bucket } = queueClass;
    const queue = this.#queues.get(request.partition.model)?.get(queueKey(request));
    const backlog = queue?.waitingIn(at) ?? 0;
    if (!hasThreshold(queueClass) || (backlog === 0 && !gate.isBusy(queueClass, request))) {
      const costTokens = cached === null ? null : turnCostOf(classification, rawIsl, cached);
      return { kind: 'goes', facts: { policyClass, bucket, costTokens, queuedSince: null } };
    }
    cached ??= bestCached();
    const now = clock.now();
    const dueAt = dueAtOf(classification);
    const into = queue ?? this.#open(request, profile, now);
    const error = this.#closed
      ? new PointsmanError('PM_SHUTTING_DOWN', 'this router is stopping; send the request elsewhere')
      : request.queueing === 'refuse'
        ? into.wouldWait(at, now)
        : into.refusal(at, dueAt, gate.workersOf(request), () => gate.prefillTokensOf(request), now);
    if (error !== null) return { kind: 'refused', error };
    const session = sessionBytes(request.session);
    // Callers that carry their requests give the hashes with them.
    const known = (request.caller ?? null) === null ? this.#known(lookup, session) : null;
    const waiting: Waiting<E> = {
      walk,
      of: into,
      since: now,
      dueAt,
      known,
      bytes: session + hashBytes(known),
      entry: null,
      cancelDue: null,
    };
    const snapshot = { rawIsl, cached, cost: turnCostOf(classification, rawIsl, cached) };
    waiting.entry = into.add(at, { payload: waiting, snapshot, request, dueAt }, now);
    this.#waiting += 1;
    this.#keptBytes += waiting.bytes;
    walk.exchange.waitsFor(() => this.#leave(waiting, 'aborted'));
    this.#armDue(waiting);
    this.#tick();
    // Behind others of its class it waits although it could go: so that nobody is overtaken, it is looked at with them.
    if (backlog > 0) this.#lookSoon(false);
    return WAITS;
  }

  /** A worker has fewer prompt tokens to compute than before: one is computed, or given up. */
  loadFell(workerId: bigint): void {
    if (this.#queues.size === 0) return;
    const now = this.#ports.clock.now();
    const model = this.#ports.fleet.worker(workerId)?.spec.model ?? '';
    for (const queue of this.#queues.get(model)?.values() ?? []) queue.loadFell(workerId, now);
    this.#lookSoon(false);
  }

  /** Answers everybody that waits; nobody waits from here on. */
  close(): void {
    this.#closed = true;
    for (const queue of this.#all()) {
      for (const { payload: waiting } of queue.entries()) {
        // The end of another may have ended it.
        if (waiting.entry === null) continue;
        this.#leave(waiting, 'stopped');
        waiting.walk.exchange.refuse(
          new PointsmanError('PM_SHUTTING_DOWN', 'the router stopped before the turn of the request came'),
        );
      }
    }
  }

  // --- turns ---

  #look(): void {
    let more = false;
    for (const queue of this.#all()) {
      let turns = 0;
      while (turns < MOST_TURNS && queue.size > 0 && this.#takeNext(queue)) turns += 1;
      more ||= turns === MOST_TURNS;
    }
    if (more) this.#lookSoon(false);
  }

  /** Lets the next one go on; false = nobody can. */
  #takeNext(queue: ModelQueue<Waiting<E>>): boolean {
    const { gate, asQueued, clock, metrics } = this.#ports;
    const now = clock.now();
    const entry = queue.next(
      ({ payload }, queueClass) =>
        !hasThreshold(queueClass) || !gate.isBusy(queueClass, asQueued(payload.walk.request)),
      now,
      ({ walk }) => asQueued(walk.request).constraints.pinnedWorker,
      setEntry,
    );
    if (entry === null) return false;
    const { payload: waiting, snapshot, of } = entry;
    const { name: policyClass, bucket } = of.queueClass;
    if (waiting.dueAt !== null && waiting.dueAt < now) {
      this.#tooLate(waiting);
      return true;
    }
    this.#ended(waiting, 'admitted');
    metrics.observe('pointsman_queue_wait_seconds', (now - waiting.since) / 1000, {
      ...labelsOf(queue),
      policy_class: policyClass,
    });
    const admitted = { policyClass, bucket, costTokens: snapshot.cost, queuedSince: waiting.since };
    const { walk, known } = waiting;
    try {
      this.#ports.goOn({ ...walk, admitted, known });
    } catch (thrown) {
      // Nobody is above to whom it could go.
      walk.exchange.failed(this.#ports.asError(thrown));
    }
    return true;
  }

  #armDue(waiting: Waiting<E>): void {
    if (waiting.dueAt === null) return;
    const { clock } = this.#ports;
    const restMs = Math.min(LONGEST_TIMER_MS, waiting.dueAt - clock.now());
    waiting.cancelDue = clock.schedule(restMs, () => {
      if (clock.now() < (waiting.dueAt ?? 0)) this.#armDue(waiting);
      else this.#tooLate(waiting);
    });
  }

  #tooLate(waiting: Waiting<E>): void {
    const { entry, of, since, walk } = waiting;
    this.#leave(waiting, 'expired');
    const now = this.#ports.clock.now();
    if (entry !== null) walk.exchange.refuse(of.tooLate(entry, now - since, now));
  }

  /** It waits no longer; another may be at the head now. */
  #leave(waiting: Waiting<E>, outcome: string): void {
    if (waiting.entry !== null) waiting.of.remove(waiting.entry, this.#ports.clock.now());
    this.#ended(waiting, outcome);
    this.#lookSoon(false);
  }

  #ended(waiting: Waiting<E>, outcome: string): void {
    const name = waiting.entry?.of.queueClass.name ?? '';
    this.#waiting -= 1;
    this.#keptBytes -= waiting.bytes;
    waiting.entry = null;
    waiting.cancelDue?.();
    waiting.walk.exchange.waitedFor();
    if (this.#waiting === 0) this.#rest();
    this.#ports.metrics.count('pointsman_queue_requests_total', {
      ...labelsOf(waiting.of),
      policy_class: name,
      outcome,
    });
  }

  // --- looks ---

  /** Nobody waits: no timer is left. */
  #rest(): void {
    this.#cancelSoon?.();
    this.#cancelSoon = null;
    this.#cancelTick?.();
    this.#cancelTick = null;
  }

  #lookSoon(everybody: boolean): void {
    if (this.#waiting === 0 || this.#closed) return;
    if (everybody) for (const queue of this.#all()) queue.unparkAll();
    this.#cancelSoon ??= this.#ports.clock.schedule(0, () => {
      this.#cancelSoon = null;
      this.#look();
    });
  }

  #tick(): void {
    if (this.#waiting === 0 || this.#closed) return;
    this.#cancelTick ??= this.#ports.clock.schedule(RECHECK_MS, () => {
      this.#cancelTick = null;
      for (const queue of this.#all()) queue.unparkAll();
      this.#look();
      this.#tick();
    });
  }

  // --- parts ---

  #open(request: RoadRequest, profile: QueueProfile, now: number): ModelQueue<Waiting<E>> {
    const { model } = request.partition;
    const queue = new ModelQueue<Waiting<E>>(model, request.role, profile, now);
    const ofModel = this.#queues.get(model) ?? new Map<string, ModelQueue<Waiting<E>>>();
    this.#queues.set(model, ofModel.set(queueKey(request), queue));
    return queue;
  }

  #all(): ModelQueue<Waiting<E>>[] {
    return [...this.#queues.values()].flatMap((ofModel) => [...ofModel.values()]);
  }

  /** The hashes that are kept of a request, where there is room for them. */
  #known({ hashes, blockSize, bigrams }: PromptLookup, session: number): KnownHashes | null {
    if (hashes === null) return null;
    const known = { hashes, blockSize, bigrams };
    return this.#keptBytes + session + hashBytes(known) > MAX_KEPT_BYTES ? null : known;
  }
}
