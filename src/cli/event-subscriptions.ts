// Keeps one KV event subscription per worker rank: at the endpoint that configuration names, else at the one the engine
// advertises. Follows the fleet; sockets themselves belong to the events room.
import {
  type KvEventApplier,
  type KvEventReplay,
  type KvEventSource,
  rankEndpoint,
  subscribeZmq,
  type TrtllmSubscription,
  type ZmqReplayOptions,
  type ZmqSubscription,
  zmqReplay,
} from '../events/index.ts';
import { type Fleet, type KvEventEndpoints, kvEventsOf, type Worker } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import { type Clock, errorText, type Logger, type PointsmanError, type WorkerId } from '../plugin/index.ts';

/** Opens one subscription; {@link subscribeZmq} outside of tests. */
export type Subscribe = (subscription: ZmqSubscription) => Promise<KvEventSource>;

/** Starts asking an engine that has to be asked for its events. */
export type StartPolling = (
  subscription: Omit<TrtllmSubscription, 'blockSizeOf' | 'clock' | 'poll'>,
) => KvEventSource;

/** What is known of one rank's subscription. */
export interface SubscriptionStatus {
  readonly worker: bigint;
  readonly rank: number;
  /** Null = nobody said where the rank publishes. */
  readonly endpoint: string | null;
  /** Where missed batches are asked for; null = nowhere. */
  readonly replay: string | null;
  readonly connected: boolean;
}

/** What the subscriptions are made of. */
export interface EventSubscriptionsOptions {
  readonly fleet: Fleet;
  readonly sink: Pick<KvEventApplier, 'onBatch' | 'askAt' | 'onConnection'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly subscribe?: Subscribe;
  /** Asks engines that publish nothing; absent = they are left alone, as who asks takes the events from all others. */
  readonly poll?: StartPolling;
  /** Makes the client of a replay endpoint; {@link zmqReplay} outside of tests. */
  readonly replay?: (options: ZmqReplayOptions) => KvEventReplay;
  /** Told whenever a rank's stream became connected or was cut. */
  readonly onChange?: () => void;
  /** Told whenever a stream that was connected is cut: its engine may have ended. */
  readonly onCut?: (worker: WorkerId) => void;
}

/** How long a stream may take to connect before the log says that it does not, in ms. */
const CONNECT_MS = 5_000;

interface Stream {
  readonly endpoint: KvEventEndpoints;
  source: KvEventSource | null;
  connected: boolean;
  closed: boolean;
  /** Messages that were no KV event messages. */
  badMessages: number;
  /** Takes back what will be said of a stream that does not connect. */
  settle: () => void;
}

/** The subscriptions of a fleet. */
export class EventSubscriptions {
  readonly #options: EventSubscriptionsOptions;
  readonly #streams = new Map<OwnerSlot, Stream>();
  #unlisten: (() => void) | null = null;

  constructor(options: EventSubscriptionsOptions) {
    this.#options = options;
  }

  /** Subscribes to every worker and to those that join. */
  start(): void {
    const { fleet } = this.#options;
    this.#unlisten = fleet.listen({
      added: (worker) => this.#follow(worker),
      capabilitiesChanged: (worker) => this.#follow(worker),
      removed: (worker) => {
        for (const slot of worker.slots) this.#drop(slot);
      },
    });
    for (const worker of fleet.workers()) this.#follow(worker);
  }

  /** Ends all subscriptions. Idempotent. */
  close(): void {
    this.#unlisten?.();
    this.#unlisten = null;
    for (const slot of [...this.#streams.keys()]) this.#drop(slot);
  }

  /** One entry per worker rank, in fleet order. */
  status(): SubscriptionStatus[] {
    return this.#options.fleet.workers().flatMap((worker) =>
      worker.slots.map((slot, index) => {
        const stream = this.#streams.get(slot);
        return {
          worker: worker.spec.id,
          rank: worker.spec.ranks.first + index,
          endpoint: stream?.endpoint.address ?? null,
          replay: stream?.endpoint.replay ?? null,
          connected: stream?.connected ?? false,
        };
      }),
    );
  }

  /** Whether every stream that a worker is known to have is connected. */
  hears(worker: Worker): boolean {
    return worker.slots.every((slot) => this.#streams.get(slot)?.connected !== false);
  }

  #follow(worker: Worker): void {
    worker.slots.forEach((slot, index) => {
      const endpoint = endpointOf(worker, worker.spec.ranks.first + index);
      const current = this.#streams.get(slot)?.endpoint;
      if (endpoint === null || (current !== undefined && isSame(current, endpoint))) return;
      if (endpoint.polled === true && this.#options.poll === undefined) return;
      this.#drop(slot);
      this.#open(slot, endpoint, worker.spec.id);
    });
  }

  #open(slot: OwnerSlot, endpoint: KvEventEndpoints, worker: bigint): void {
    const { sink, log, subscribe = subscribeZmq, replay = zmqReplay, clock, onChange, onCut } = this.#options;
    const stream: Stream = {
      endpoint,
      source: null,
      connected: false,
      closed: false,
      badMessages: 0,
      settle() {},
    };
    this.#streams.set(slot, stream);
    stream.settle = clock.schedule(CONNECT_MS, () => {
      const address = endpoint.address;
      log.warn(NOT_CONNECTED, { worker, endpoint: address });
    });
    const onError = (error: PointsmanError): void => {
      // The 1st, 2nd, 4th, 8th, …: a publisher of something else must not drown the log.
      const messages = ++stream.badMessages;
      if ((messages & (messages - 1)) === 0) log.warn(error.message, { worker, code: error.code, messages });
    };
    sink.askAt(slot, endpoint.replay === null ? null : replay({ endpoint: endpoint.replay, clock, onError }));
    const heard = {
      endpoint: endpoint.address,
      owner: slot,
      sink: {
        onBatch(owner: OwnerSlot, sequence: number, payload: Uint8Array) {
          // What a closed subscription still delivers belongs to nobody.
          if (!stream.closed) sink.onBatch(owner, sequence, payload);
        },
      },
      onError,
      onConnection: (connected: boolean) => {
        if (stream.closed) return;
        const cut = stream.connected && !connected;
        stream.connected = connected;
        if (connected) stream.settle();
        sink.onConnection(slot, connected);
        onChange?.();
        if (cut) onCut?.(worker);
      },
    };
    if (endpoint.polled === true) {
      stream.source = this.#options.poll?.(heard) ?? null;
      return;
    }
    subscribe({ ...heard, binds: endpoint.binds, topic: endpoint.topic }).then(
      (source) => {
        stream.source = source;
        if (stream.closed) source.close();
      },
      (thrown: unknown) => log.error(errorText(thrown), { worker, endpoint: endpoint.address }),
    );
  }

  #drop(slot: OwnerSlot): void {
    const stream = this.#streams.get(slot);
    if (stream === undefined) return;
    this.#streams.delete(slot);
    stream.closed = true;
    stream.settle();
    stream.source?.close();
    this.#options.sink.onConnection(slot, false);
    this.#options.sink.askAt(slot, null);
  }
}

/** Ranks whose events should be heard and are not connected, in words. */
export function unconnectedStreams(subscriptions: Pick<EventSubscriptions, 'status'> | null): string[] {
  return (subscriptions?.status() ?? []).flatMap(({ connected, endpoint, rank, worker }) =>
    connected || endpoint === null ? [] : [unconnected(worker, rank, endpoint)],
  );
}

/** A stream that is not connected, in words. */
export function unconnected(worker: WorkerId, rank: number, endpoint: string): string {
  return `the KV events of worker ${worker} rank ${rank} at ${endpoint} are not connected`;
}

const NOT_CONNECTED =
  'the KV events of a worker are not connected: what it has cached is not known; check its address and that its engine publishes them';

/** Where a rank publishes: what configuration says wins over what the engine says, and both over what follows from rank 0. */
export function endpointOf(worker: Worker, rank: number): KvEventEndpoints | null {
  const said = kvEventsOf(worker, rank);
  if (said !== null || rank === 0) return said;
  const first = kvEventsOf(worker, 0);
  const address = first === null ? null : rankEndpoint(first.address, rank);
  if (first === null || address === null) return null;
  return { ...first, address, replay: first.replay === null ? null : rankEndpoint(first.replay, rank) };
}

function isSame(a: KvEventEndpoints, b: KvEventEndpoints): boolean {
  return a.address === b.address && a.binds === b.binds && a.replay === b.replay && a.topic === b.topic;
}
