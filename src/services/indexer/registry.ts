// Who the indexer listens to: partitions by model and routing group, instances and their ranks, and peers.
import type { BlockHasher } from '../../kv/index.ts';
import type { GaugeSample, Metrics } from '../../observe/index.ts';
import { type Clock, type Logger, PointsmanError } from '../../plugin/index.ts';
import { EventGate, IndexerListener, type ListenerStatus, type Subscribe } from './listener.ts';
import { IndexerPartition } from './partition.ts';

const MAX_PARTITIONS = 64;
const MAX_LISTENERS = 16_384;
const MAX_PEERS = 256;
/** The state of an instance is the first of these that one of its listeners has. */
const STATUSES: readonly ListenerStatus[] = ['failed', 'pending', 'active', 'paused'];

/** A rank to listen to. */
export interface Registration {
  readonly instance: bigint;
  readonly rank: number;
  readonly model: string;
  readonly routingGroup: string;
  readonly blockSize: number;
  readonly endpoint: string;
  readonly replayEndpoint: string | null;
}

/** What a registry is made of. */
export interface RegistryOptions {
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Most bytes of the index of each model and routing group. */
  readonly indexBytes: number;
  readonly subscribe?: Subscribe;
}

interface Instance {
  readonly partition: IndexerPartition;
  readonly listeners: Map<number, IndexerListener>;
}

/** The registered workers. */
export class IndexerRegistry {
  readonly gate = new EventGate();
  readonly #options: RegistryOptions;
  readonly #partitions = new Map<string, IndexerPartition>();
  readonly #instances = new Map<bigint, Instance>();
  readonly #peers = new Set<string>();

  constructor(options: RegistryOptions) {
    this.#options = options;
    const { metrics } = options;
    metrics.gauge('pointsman_indexer_models', () => this.#partitions.size);
    const sum = (part: 'bytes' | 'blocks'): number => {
      let all = 0;
      for (const { index } of this.#partitions.values()) all += index.stats()[part];
      return all;
    };
    metrics.gauge('pointsman_indexer_index_bytes', () => sum('bytes'));
    metrics.gauge('pointsman_indexer_index_blocks', () => sum('blocks'));
    metrics.gauge('pointsman_indexer_workers', () => this.#instances.size);
    metrics.gauge('pointsman_indexer_listeners', () => this.#countListeners());
  }

  /** Takes a rank in and connects to it. @throws PM_INDEXER_CONFLICT, PM_INDEXER_REQUEST, PM_INDEXER_FULL */
  async register(wanted: Registration): Promise<void> {
    const { instance: id, rank, blockSize } = wanted;
    const known = this.#instances.get(id);
    const existing = this.#partitions.get(pairKey(wanted.model, wanted.routingGroup));
    if (known !== undefined && known.partition !== existing) {
      throw conflict(`instance ${id} is registered for ${known.partition.key}; unregister it there first`);
    }
    if (known?.listeners.has(rank)) throw conflict(`rank ${rank} of instance ${id} is registered already`);
    if (existing !== undefined && existing.blockSize !== blockSize) {
      throw conflict(
        `block_size ${blockSize} of instance ${id} does not fit ${existing.key}, whose blocks have ${existing.blockSize} tokens`,
      );
    }
    if (this.#listenerCount() >= MAX_LISTENERS) {
      throw new PointsmanError(
        'PM_INDEXER_FULL',
        `${MAX_LISTENERS} ranks are registered, which is the most there can be`,
      );
    }
    const partition = this.partitionFor(wanted.model, wanted.routingGroup, blockSize);
    const { clock, log, subscribe } = this.#options;
    const listener = new IndexerListener({
      endpoint: wanted.endpoint,
      replayEndpoint: wanted.replayEndpoint,
      slot: partition.slotFor(wanted),
      sink: this.gate.before(partition.events),
      clock,
      log,
      ...(subscribe === undefined ? {} : { subscribe }),
    });
    const entry = known ?? { partition, listeners: new Map<number, IndexerListener>() };
    entry.listeners.set(rank, listener);
    this.#instances.set(id, entry);
    try {
      await listener.open();
    } catch (thrown) {
      this.#drop(id, entry, rank);
      throw thrown;
    }
  }

  /** Forgets an instance, or one of its ranks, with its blocks. @throws PM_INDEXER_UNKNOWN */
  unregister(id: bigint, model: string, routingGroup: string | null, rank: number | null): void {
    const entry = this.#instances.get(id);
    const { partition } = entry ?? {};
    const fits =
      partition?.model === model && (routingGroup === null || partition.routingGroup === routingGroup);
    if (entry === undefined || !fits || (rank !== null && !entry.listeners.has(rank))) {
      const where = routingGroup === null ? model : `${model}:${routingGroup}`;
      throw unknown(`instance ${id}${rank === null ? '' : ` rank ${rank}`} is not registered for ${where}`);
    }
    if (rank !== null) this.#drop(id, entry, rank);
    else {
      for (const listener of entry.listeners.values()) listener.close();
      this.#instances.delete(id);
      entry.partition.release(id, null);
    }
  }

  /** The index of a model and group, made when there is none. @throws PM_INDEXER_FULL */
  partitionFor(model: string, routingGroup: string, blockSize: number): IndexerPartition {
    const key = pairKey(model, routingGroup);
    const known = this.#partitions.get(key);
    if (known !== undefined) return known;
    if (this.#partitions.size >= MAX_PARTITIONS) {
      throw new PointsmanError(
        'PM_INDEXER_FULL',
        `there are ${MAX_PARTITIONS} indexes of models and routing groups, which is the most there can be`,
      );
    }
    const { clock, hasher, indexBytes: maxBytes, metrics } = this.#options;
    const partition = new IndexerPartition({
      model,
      routingGroup,
      blockSize,
      maxBytes,
      hasher,
      clock,
      metrics,
    });
    this.#partitions.set(key, partition);
    return partition;
  }

  /** Forgets an index to which no worker is registered. */
  dropPartition({ model, routingGroup }: IndexerPartition): void {
    this.#partitions.delete(pairKey(model, routingGroup));
  }

  /** @throws PM_INDEXER_UNKNOWN */
  partition(model: string, routingGroup: string): IndexerPartition {
    const partition = this.#partitions.get(pairKey(model, routingGroup));
    if (partition === undefined)
      throw unknown(`there is no index for ${model}:${routingGroup}; register a worker first`);
    return partition;
  }

  /** All indexes. */
  partitions(): readonly IndexerPartition[] {
    return [...this.#partitions.values()];
  }

  /** The body of `/workers`. */
  workers(model: string | null, routingGroup: string | null): unknown[] {
    return [...this.#instances].flatMap(([id, { listeners, partition }]) => {
      if (model !== null && partition.model !== model) return [];
      if (routingGroup !== null && partition.routingGroup !== routingGroup) return [];
      const states = [...listeners.values()].map(({ status }) => status);
      return [
        {
          instance_id: id,
          source: 'zmq',
          status: STATUSES.find((status) => states.includes(status)) ?? 'pending',
          model_name: partition.model,
          routing_group: partition.routingGroup,
          block_size: partition.blockSize,
          endpoints: Object.fromEntries([...listeners].map(([rank, { endpoint }]) => [rank, endpoint])),
          listeners: Object.fromEntries(
            [...listeners].map(([rank, { endpoint, lastError, status }]) => [
              rank,
              { endpoint, status, ...(lastError === null ? {} : { last_error: lastError }) },
            ]),
          ),
        },
      ];
    });
  }

  /** Pauses or resumes a rank's listener. @throws PM_INDEXER_UNKNOWN, PM_INDEXER_CONFLICT */
  async setPaused(id: bigint, rank: number, paused: boolean): Promise<void> {
    const listener = this.#instances.get(id)?.listeners.get(rank);
    if (listener === undefined) throw unknown(`instance ${id} rank ${rank} is not registered`);
    if ((listener.status === 'paused') === paused || (paused && listener.status !== 'active')) {
      throw conflict(`the listener of instance ${id} rank ${rank} is ${listener.status}`);
    }
    if (paused) listener.pause();
    else await listener.open();
  }

  get peers(): readonly string[] {
    return [...this.#peers];
  }

  /** @throws PM_INDEXER_FULL */
  addPeer(url: string): void {
    if (this.#peers.size >= MAX_PEERS && !this.#peers.has(url)) {
      throw new PointsmanError(
        'PM_INDEXER_FULL',
        `${MAX_PEERS} peers are registered, which is the most there can be`,
      );
    }
    this.#peers.add(url);
  }

  /** @throws PM_INDEXER_UNKNOWN */
  removePeer(url: string): void {
    if (!this.#peers.delete(url)) throw unknown('that peer is not registered');
  }

  /** Ends all subscriptions. */
  close(): void {
    for (const { listeners } of this.#instances.values()) {
      for (const listener of listeners.values()) listener.close();
    }
    this.#instances.clear();
  }

  #drop(id: bigint, entry: Instance, rank: number): void {
    entry.listeners.get(rank)?.close();
    entry.listeners.delete(rank);
    entry.partition.release(id, rank);
    if (entry.listeners.size > 0) return;
    this.#instances.delete(id);
    entry.partition.release(id, null);
  }

  #listenerCount(): number {
    let count = 0;
    for (const { listeners } of this.#instances.values()) count += listeners.size;
    return count;
  }

  #countListeners(): GaugeSample[] {
    const counts = new Map<ListenerStatus, number>(STATUSES.map((status) => [status, 0]));
    for (const { listeners } of this.#instances.values()) {
      for (const { status } of listeners.values()) counts.set(status, (counts.get(status) ?? 0) + 1);
    }
    return [...counts].map(([status, value]) => ({ labels: { status }, value }));
  }
}

/** A model's name may have a colon. */
function pairKey(model: string, routingGroup: string): string {
  return JSON.stringify([model, routingGroup]);
}

function conflict(message: string): PointsmanError {
  return new PointsmanError('PM_INDEXER_CONFLICT', message);
}

function unknown(message: string): PointsmanError {
  return new PointsmanError('PM_INDEXER_UNKNOWN', message);
}
