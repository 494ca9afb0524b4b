// Keeps the prefix index over restarts: restores it from a file before anything is heard, writes it now and then and at the end.
import { readFileSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import type { RouterConfig } from '../config/index.ts';
import type { KvEventApplier } from '../events/index.ts';
import type { BlockSizes, Fleet, Worker } from '../fleet/index.ts';
import {
  type BlockHasher,
  type CopyableIndex,
  type OwnerSlot,
  type ReadOwner,
  readSnapshot,
  restoreSnapshot,
  type Snapshot,
  type SnapshotOwner,
  SnapshotWriter,
} from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, errorText, type Logger, PointsmanError } from '../plugin/index.ts';
import type { ComposedRouter } from './compose-router.ts';

/** What snapshots are made of. */
export interface IndexSnapshotsOptions {
  /** Absolute. */
  readonly path: string;
  readonly everyMs: number;
  readonly maxAgeMs: number;
  /** Larger files are refused: their rows would not fit the index. */
  readonly maxBytes: number;
  readonly index: CopyableIndex;
  readonly events: KvEventApplier;
  readonly fleet: Fleet;
  readonly blockSizes: BlockSizes;
  readonly hasher: BlockHasher;
  readonly routingGroupOf: (model: string) => string;
  /** Must tell the time of day. */
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** Why an owner of a snapshot is left out. */
type LeftOut = 'worker' | 'model' | 'block_size' | 'epoch' | 'void';

/** The snapshots of one router. */
export class IndexSnapshots {
  readonly #options: IndexSnapshotsOptions;
  /** Epochs in the snapshot of workers that did not say theirs yet. */
  readonly #unproved = new Map<bigint, string>();
  readonly #unlisten: () => void;
  #cancel: (() => void) | null = null;
  #writing: Promise<void> | null = null;
  #rows = 0;

  constructor(options: IndexSnapshotsOptions) {
    this.#options = options;
    this.#unlisten = options.fleet.listen({
      capabilitiesChanged: (worker) => this.#prove(worker),
      removed: (worker) => this.#unproved.delete(worker.spec.id),
    });
    options.metrics.gauge('pointsman_snapshot_rows', () => this.#rows);
  }

  /** Fills the index from the file when there is a fresh one. A file that cannot be used is said in the log, and the index stays empty. */
  restore(): void {
    const { clock, log, maxAgeMs, metrics, path } = this.#options;
    let snapshot: Snapshot | null;
    try {
      snapshot = this.#read();
    } catch (thrown) {
      metrics.count('pointsman_snapshot_restores_total', { result: 'refused' });
      const code = thrown instanceof PointsmanError ? thrown.code : 'PM_SNAPSHOT_UNUSABLE';
      log.warn(`${errorText(thrown)}; the router starts without it`, { code, path });
      return;
    }
    if (snapshot === null) return;
    const ageMs = Math.round(Math.abs(clock.now() - snapshot.takenAtMs));
    if (ageMs > maxAgeMs) {
      metrics.count('pointsman_snapshot_restores_total', { result: 'old' });
      log.warn(
        'the snapshot of the prefix index is older than snapshot.max_age; the router starts without it',
        {
          path,
          age_ms: ageMs,
          max_age_ms: maxAgeMs,
        },
      );
      return;
    }
    this.#fill(snapshot, ageMs);
  }

  /** Writes every `everyMs` from now on. */
  start(): void {
    const { clock, everyMs } = this.#options;
    this.#cancel = clock.schedule(everyMs, () => {
      void this.write().then(() => {
        if (this.#cancel !== null) this.start();
      });
    });
  }

  /** Writes the file now; while that is under way, a further call waits for it. Never rejects: a failure is logged and counted. */
  write(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  /** Stops, with a last snapshot. */
  async close(): Promise<void> {
    this.#cancel?.();
    this.#cancel = null;
    await this.#writing;
    await this.write();
    this.#unlisten();
  }

  #read(): Snapshot | null {
    const { maxBytes, path } = this.#options;
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return null;
    if (found.size > maxBytes) {
      throw new PointsmanError(
        'PM_SNAPSHOT_UNUSABLE',
        `the snapshot of the prefix index cannot be used: it has ${found.size} bytes, and limits.index_bytes is ${maxBytes}`,
      );
    }
    return readSnapshot(readFileSync(path));
  }

  #fill(snapshot: Snapshot, ageMs: number): void {
    const { events, hasher, index, log, metrics, path } = this.#options;
    const slots = new Map<number, OwnerSlot>();
    for (const [number, owner] of snapshot.owners.entries()) {
      const slot = this.#slotFor(owner);
      if (typeof slot === 'number') slots.set(number, slot);
      else metrics.count('pointsman_snapshot_owners_total', { result: slot });
    }
    const resume = (number: number, slot: OwnerSlot, isWhole: boolean): void => {
      const owner = snapshot.owners[number];
      if (owner === undefined) return;
      const { partial, stale, watermark: sequence, watermarkTime: time } = owner;
      events.resume(slot, { sequence, time, stale, partial: partial || !isWhole });
    };
    // Before the rows: what the ranks were believed to hold until now is forgotten with it.
    for (const [number, slot] of slots) resume(number, slot, true);
    const { restored, left } = restoreSnapshot(
      snapshot,
      index,
      hasher,
      (number) => slots.get(number) ?? null,
    );
    for (const [number, slot] of slots) {
      const owner = snapshot.owners[number];
      if (owner === undefined) continue;
      if (left > 0) resume(number, slot, false);
      if (owner.epoch !== null) this.#unproved.set(owner.workerId, owner.epoch);
      metrics.count('pointsman_snapshot_owners_total', { result: 'restored' });
    }
    metrics.count('pointsman_snapshot_restores_total', { result: 'restored' });
    log.info('the prefix index was restored from its snapshot', {
      path,
      age_ms: ageMs,
      rows: restored,
      rows_left: left,
      owners: slots.size,
      owners_left: snapshot.owners.length - slots.size,
    });
    for (const worker of this.#options.fleet.workers()) this.#prove(worker);
  }

  #slotFor(owner: ReadOwner): OwnerSlot | LeftOut {
    const { blockSizes, fleet, log } = this.#options;
    const slot = fleet.slotOf(owner.workerId, owner.rank);
    const worker = slot < 0 ? null : fleet.workerOfSlot(slot);
    if (worker === null) return 'worker';
    if (worker.spec.model !== owner.model) return 'model';
    const expected = blockSizes.ofSlot(slot);
    if (expected !== null && expected !== owner.blockSize) {
      log.warn('the snapshot has blocks of another size than the model: nothing of this worker is restored', {
        worker: owner.workerId,
        rank: owner.rank,
        snapshot_block_size: owner.blockSize,
        model_block_size: expected,
      });
      return 'block_size';
    }
    const epoch = worker.capabilities?.epoch;
    if (epoch !== undefined && owner.epoch !== null && owner.epoch !== epoch) return 'epoch';
    if (owner.isVoid) return 'void';
    if (expected === null) blockSizes.learn(slot, owner.blockSize);
    return slot;
  }

  /** An engine says for the first time which life it is in; the blocks of another one are gone. */
  #prove(worker: Worker): void {
    const { events, index, log, metrics } = this.#options;
    const { id } = worker.spec;
    const epoch = this.#unproved.get(id);
    if (epoch === undefined || worker.capabilities === null) return;
    this.#unproved.delete(id);
    if (worker.capabilities.epoch === epoch) return;
    log.warn('a worker restarted since the snapshot was taken: its restored blocks are dropped', {
      worker: id,
    });
    for (const slot of worker.slots) {
      metrics.count('pointsman_snapshot_owners_total', { result: 'epoch' });
      // Its event stream may have told already.
      if ((events.feed(slot)?.restarts ?? 0) > 0) continue;
      index.clear(slot, 'all');
      events.restarted(slot);
    }
  }

  async #write(): Promise<void> {
    const { clock, index, log, metrics, path } = this.#options;
    let writer: SnapshotWriter | null = null;
    const unfinished = `${path}.new`;
    try {
      writer = new SnapshotWriter({ index, owners: this.#owners(), takenAtMs: clock.now() });
      // Never half a file under its name: the next start must find the older one instead.
      const file = await open(unfinished, 'w', 0o600);
      try {
        for (const piece of writer.pieces()) await file.writeFile(piece);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(unfinished, path);
      this.#rows = writer.rows;
      metrics.count('pointsman_snapshot_writes_total', { result: 'written' });
      log.debug('a snapshot of the prefix index was written', { path, rows: writer.rows });
    } catch (thrown) {
      writer?.close();
      await rm(unfinished, { force: true }).catch(() => undefined);
      metrics.count('pointsman_snapshot_writes_total', { result: 'failed' });
      const code = 'PM_SNAPSHOT_WRITE';
      log.error(`a snapshot of the prefix index cannot be written: ${errorText(thrown)}`, { code, path });
    }
  }

  /** Worker ranks whose stream was heard, each with how far. */
  #owners(): Map<OwnerSlot, SnapshotOwner> {
    const { blockSizes, events, fleet, index: held, routingGroupOf } = this.#options;
    const owners = new Map<OwnerSlot, SnapshotOwner>();
    for (const { approximate, capabilities, slots, spec, state } of fleet.workers()) {
      // Who is registered by a caller is not known at the next start.
      if (state === 'gone' || spec.registered === true) continue;
      for (const [index, slot] of slots.entries()) {
        const feed = events.feed(slot);
        const blockSize = blockSizes.ofSlot(slot);
        // Beliefs are no facts: they are made anew from what is sent.
        if (approximate?.has(spec.ranks.first + index)) continue;
        if (feed === null || feed.lastSequence < 0 || blockSize === null) continue;
        owners.set(slot, {
          workerId: spec.id,
          rank: spec.ranks.first + index,
          model: spec.model,
          routingGroup: routingGroupOf(spec.model),
          blockSize,
          epoch: capabilities?.epoch ?? this.#unproved.get(spec.id) ?? null,
          watermark: feed.lastSequence,
          watermarkTime: feed.lastTime,
          stale: feed.stale,
          // What an index had no room for is missing after the restart too, when nobody knows of it any more.
          partial: feed.partial || held.lacksRoomFor(slot),
        });
      }
    }
    return owners;
  }
}

/** Null without an index, or without a file to keep it in. */
export function snapshotsOf(
  core: Pick<ComposedRouter, 'index' | 'events' | 'fleet' | 'blockSizes' | 'hasher'>,
  config: RouterConfig,
  parts: Pick<IndexSnapshotsOptions, 'clock' | 'metrics' | 'log'>,
): IndexSnapshots | null {
  const { path, everyMs, maxAgeMs } = config.snapshot;
  const { index, events } = core;
  if (path === null || index === null || events === null) return null;
  return new IndexSnapshots({
    path,
    everyMs,
    maxAgeMs,
    maxBytes: config.limits.indexBytes,
    index,
    events,
    fleet: core.fleet,
    blockSizes: core.blockSizes,
    hasher: core.hasher,
    routingGroupOf: (model) => config.models.get(model)?.routingGroup ?? 'default',
    ...parts,
  });
}
