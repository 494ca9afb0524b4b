// The fleet: which workers exist, what they said about themselves, in which state they are. It decides nothing about requests;
// health.ts says when a worker changes state, listeners act on it (index, road, event subscriptions).

import type { OwnerSlot } from '../kv/index.ts';
import { type GaugeSample, type Metrics, NO_METRICS } from '../observe/index.ts';
import { type Partition, PointsmanError, type Role, type WorkerId } from '../plugin/index.ts';
import { sameCapabilities } from './capabilities.ts';
import { type RecognizedEngine, sameEngine } from './engine-description.ts';
import { type PartitionCandidates, PartitionTable } from './partition-candidates.ts';
import { SlotTable } from './slot-table.ts';
import { topologyTaints } from './topology-taints.ts';
import type { ApproximateReason, Worker, WorkerCapabilities, WorkerSpec, WorkerState } from './types.ts';

/** Hears what happens to workers, after it happened. Must not throw. */
export interface FleetListener {
  added?(worker: Worker): void;
  /** The worker takes no part in anything any more; its slots stay its own until every listener returned. */
  removed?(worker: Worker): void;
  stateChanged?(worker: Worker, from: WorkerState): void;
  /** What is known of it has changed: its advertisement, its description of itself, or its record. */
  capabilitiesChanged?(worker: Worker): void;
  /** Another epoch was advertised: the engine restarted and holds none of its former blocks. */
  restarted?(worker: Worker): void;
}

/** Options of {@link Fleet}. */
export interface FleetOptions {
  /** Routing group that a model's workers belong to; default: `default` for every model. */
  readonly routingGroupOf?: (model: string) => string;
  /** Most (worker, rank) pairs at once; default 65,536. */
  readonly maxSlots?: number;
  readonly metrics?: Metrics;
}

interface MutableWorker extends Worker {
  spec: WorkerSpec;
  state: WorkerState;
  capabilities: WorkerCapabilities | null;
  engine: RecognizedEngine | null;
  taints: readonly string[];
  slots: readonly OwnerSlot[];
  readonly approximate: Map<number, ApproximateReason>;
}

const STATES: readonly WorkerState[] = ['ready', 'suspect', 'draining', 'gone'];
const MAX_U64 = 0xffffffffffffffffn;
const MAX_RANKS = 4096;

/** Workers by id and by slot. */
export class Fleet {
  readonly #workers = new Map<bigint, MutableWorker>();
  readonly #slots: SlotTable;
  readonly #partitions: PartitionTable;
  readonly #listeners = new Set<FleetListener>();
  readonly #routingGroupOf: (model: string) => string;
  readonly #metrics: Metrics;
  #version = 0;

  constructor(options: FleetOptions = {}) {
    this.#slots = new SlotTable(options.maxSlots ?? 65_536);
    this.#partitions = new PartitionTable(this.#workers, (worker) => this.groupOf(worker.spec));
    this.#routingGroupOf = options.routingGroupOf ?? (() => 'default');
    this.#metrics = options.metrics ?? NO_METRICS;
    this.#metrics.gauge('pointsman_workers', () => this.#countStates());
  }

  /**
   * Takes a worker in, ready for bookings.
   * @throws PointsmanError PM_WORKER_INVALID, PM_WORKER_EXISTS, PM_FLEET_FULL; then nothing changed.
   */
  add(spec: WorkerSpec, capabilities: WorkerCapabilities | null = null): Worker {
    checkSpec(spec);
    if (this.#workers.has(spec.id)) {
      throw new PointsmanError(
        'PM_WORKER_EXISTS',
        `worker ${spec.id} is already in the fleet; remove it first, or give this one another id`,
        { details: { worker_id: String(spec.id) } },
      );
    }
    const taints = taintsOf(spec);
    const approximate = new Map<number, ApproximateReason>();
    const worker: MutableWorker = {
      spec,
      state: 'ready',
      capabilities,
      engine: null,
      taints,
      approximate,
      slots: [],
    };
    worker.slots = this.#slots.take(worker, spec.ranks.first, spec.ranks.count);
    this.#workers.set(spec.id, worker);
    this.#version += 1;
    this.#partitions.changed(spec.model);
    for (const listener of [...this.#listeners]) listener.added?.(worker);
    return worker;
  }

  /**
   * Notes what the engine advertises; null = no KV hints. Another epoch than before also counts as a restart.
   * @throws PointsmanError PM_WORKER_UNKNOWN
   */
  setCapabilities(id: WorkerId, capabilities: WorkerCapabilities | null): void {
    const worker = this.#known(id);
    const before = worker.capabilities;
    worker.capabilities = capabilities;
    if (before !== null && capabilities !== null && before.epoch !== capabilities.epoch) {
      this.#metrics.count('pointsman_worker_restarts_total');
      for (const listener of [...this.#listeners]) listener.restarted?.(worker);
    }
    if (!sameCapabilities(before, capabilities)) {
      this.#version += 1;
      for (const listener of [...this.#listeners]) listener.capabilitiesChanged?.(worker);
    }
  }

  /**
   * Notes what the engine says that it is; null = it is not what it should be.
   * @throws PointsmanError PM_WORKER_UNKNOWN
   */
  setEngine(id: WorkerId, engine: RecognizedEngine | null): void {
    const worker = this.#known(id);
    const same = sameEngine(worker.engine, engine);
    worker.engine = engine;
    if (same) return;
    this.#version += 1;
    for (const listener of [...this.#listeners]) listener.capabilitiesChanged?.(worker);
  }

  /**
   * Takes a worker's record anew while it goes on: bookings and blocks stay. Model, routing group, role, ranks and who dispatches to it
   * must be the same; to change those, remove it and add it again.
   * @throws PointsmanError PM_WORKER_UNKNOWN, PM_WORKER_INVALID; then nothing changed.
   */
  update(spec: WorkerSpec, capabilities: WorkerCapabilities | null): void {
    const worker = this.#known(spec.id);
    if (!this.#isSamePlace(worker.spec, spec)) {
      throw new PointsmanError(
        'PM_WORKER_INVALID',
        `worker ${spec.id} cannot be changed in place: another model, routing group, role or rank; remove it and add it again`,
        { details: { worker_id: String(spec.id) } },
      );
    }
    worker.spec = spec;
    worker.taints = taintsOf(spec);
    worker.capabilities = capabilities;
    this.#version += 1;
    for (const listener of [...this.#listeners]) listener.capabilitiesChanged?.(worker);
  }

  /** Whether a worker of the fleet can take a record by {@link update}. */
  canUpdate(spec: WorkerSpec): boolean {
    const worker = this.#workers.get(spec.id);
    return worker !== undefined && this.#isSamePlace(worker.spec, spec);
  }

  /** Routing group of a worker. */
  groupOf(spec: WorkerSpec): string {
    return spec.routingGroup ?? this.#routingGroupOf(spec.model);
  }

  /** Routing group of a model's workers that name none. */
  groupOfModel(model: string): string {
    return this.#routingGroupOf(model);
  }

  /**
   * Moves a worker to a state; the same state again does nothing.
   * @throws PointsmanError PM_WORKER_UNKNOWN
   */
  setState(id: WorkerId, state: WorkerState): void {
    const worker = this.#known(id);
    const from = worker.state;
    if (from === state) return;
    worker.state = state;
    this.#version += 1;
    this.#metrics.count('pointsman_worker_state_changes_total', { state });
    for (const listener of [...this.#listeners]) listener.stateChanged?.(worker, from);
  }

  /**
   * Notes that a rank's cache is estimated, or (null) that its engine announces it.
   * @throws PointsmanError PM_WORKER_UNKNOWN
   */
  setApproximate(id: WorkerId, rank: number, reason: ApproximateReason | null): void {
    const { approximate } = this.#known(id);
    if ((approximate.get(rank) ?? null) === reason) return;
    if (reason === null) approximate.delete(rank);
    else approximate.set(rank, reason);
    this.#version += 1;
  }

  /** Takes a worker out and frees its slots; false when there is none with this id. */
  remove(id: WorkerId): boolean {
    const worker = this.#workers.get(id);
    if (worker === undefined) return false;
    this.#workers.delete(id);
    this.#partitions.changed(worker.spec.model);
    worker.state = 'gone';
    this.#version += 1;
    for (const listener of [...this.#listeners]) listener.removed?.(worker);
    this.#slots.release(worker.slots);
    return true;
  }

  /** The worker with this id, or null. The object stays the same while the worker lives; its state changes in place. */
  worker(id: WorkerId): Worker | null {
    return this.#workers.get(id) ?? null;
  }

  /** All workers, by ascending id. */
  workers(): readonly Worker[] {
    return [...this.#workers.values()].sort((a, b) => (a.spec.id < b.spec.id ? -1 : 1));
  }

  /** Changes whenever a worker joins, leaves, changes state or advertises something else: what was found out about eligibility holds while it stays. */
  get version(): number {
    return this.#version;
  }

  /** Number of workers. */
  get size(): number {
    return this.#workers.size;
  }

  /** Length that columns indexed by slot need. */
  get slotCapacity(): number {
    return this.#slots.capacity;
  }

  /** Worker of a slot; null for a free one. */
  workerOfSlot(slot: OwnerSlot): Worker | null {
    return this.#slots.workerOf(slot);
  }

  /** Worker id of a slot; null for a free one. */
  slotWorkerId(slot: OwnerSlot): WorkerId | null {
    return this.#slots.workerOf(slot)?.spec.id ?? null;
  }

  /** Data-parallel rank of a slot; -1 for a free one. */
  slotRank(slot: OwnerSlot): number {
    return this.#slots.rankOf(slot);
  }

  /** Slot of a worker's rank; -1 when there is none. */
  slotOf(id: WorkerId, rank: number): OwnerSlot {
    const worker = this.#workers.get(id);
    return worker?.slots[rank - worker.spec.ranks.first] ?? -1;
  }

  /**
   * Every (worker, rank) of a partition in a role, whatever its state, in (worker id, rank) order. Shared: do not write.
   * @param withRegistered also those to which callers carry requests themselves.
   */
  candidates(partition: Partition, role: Role, withRegistered = false): PartitionCandidates {
    return this.#partitions.of(partition, role, withRegistered);
  }

  /** Adds a listener; the function returned takes it away. */
  listen(listener: FleetListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #known(id: WorkerId): MutableWorker {
    const worker = this.#workers.get(id);
    if (worker !== undefined) return worker;
    throw new PointsmanError('PM_WORKER_UNKNOWN', `no worker ${id} is in the fleet; add it first`, {
      details: { worker_id: String(id) },
    });
  }

  #isSamePlace(a: WorkerSpec, b: WorkerSpec): boolean {
    return (
      a.model === b.model &&
      this.groupOf(a) === this.groupOf(b) &&
      a.role === b.role &&
      a.ranks.first === b.ranks.first &&
      a.ranks.count === b.ranks.count &&
      (a.blockSize ?? null) === (b.blockSize ?? null) &&
      (a.eagle ?? null) === (b.eagle ?? null) &&
      (a.registered ?? false) === (b.registered ?? false)
    );
  }

  #countStates(): GaugeSample[] {
    const counts = new Map<WorkerState, number>(STATES.map((state) => [state, 0]));
    for (const worker of this.#workers.values())
      counts.set(worker.state, (counts.get(worker.state) ?? 0) + 1);
    return [...counts].map(([state, value]) => ({ labels: { state }, value }));
  }
}

function taintsOf({ taints, topology }: WorkerSpec): readonly string[] {
  return [...taints, ...topologyTaints(topology)];
}

function checkSpec(spec: WorkerSpec): void {
  const { first, count } = spec.ranks;
  const wrong =
    spec.id < 0n || spec.id > MAX_U64
      ? `its id ${spec.id} does not fit 64 bits`
      : !Number.isInteger(first) || first < 0
        ? `its first rank is ${first}, and must be a whole number from 0`
        : !Number.isInteger(count) || count < 1 || count > MAX_RANKS
          ? `it has ${count} ranks, and must have 1 to ${MAX_RANKS}`
          : null;
  if (wrong === null) return;
  throw new PointsmanError('PM_WORKER_INVALID', `worker at ${spec.url} cannot be added: ${wrong}`, {
    details: { url: spec.url },
  });
}
