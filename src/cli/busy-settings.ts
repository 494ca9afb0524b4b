// Busy thresholds in force, and who is over them: from the configuration to the scheduler, the metrics and the worker status.
import { isDeepStrictEqual } from 'node:util';
import {
  type BusyThresholds,
  NO_THRESHOLDS,
  type RouterConfig,
  type ThresholdChange,
  thresholdsOf,
  type WrittenThresholds,
  writtenThresholds,
} from '../config/index.ts';
import {
  type BlockSizes,
  type Fleet,
  maxNumBatchedTokensOf,
  totalKvBlocksOf,
  type Worker,
} from '../fleet/index.ts';
import type { GaugeSample, Metrics } from '../observe/index.ts';
import type { Logger } from '../plugin/index.ts';
import type { Scheduler } from '../scheduling/index.ts';

/** What thresholds act on. */
export interface BusyParts {
  readonly fleet: Fleet;
  readonly scheduler: Scheduler;
  readonly blockSizes: Pick<BlockSizes, 'ofModel'>;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** A worker as `/workers` shows it under thresholds. */
export interface BusyStatus {
  readonly busy: boolean;
  /** Loads above which a rank is busy; null = not tested. */
  readonly decodeBlocks: number | null;
  readonly prefillTokens: number | null;
}

/** A model's thresholds in force, in the names of the admin API. */
export interface ThresholdStatus extends WrittenThresholds {
  readonly model: string;
  /** Who set them last. */
  readonly source: 'configuration' | 'admin';
  /** Workers that a threshold does not test, as their capacity is not known, by threshold; only where there are any. */
  readonly untested: Readonly<Record<string, readonly bigint[]>>;
}

/** Thresholds of every model of one router. */
export class BusySettings {
  readonly #parts: BusyParts;
  #configured: ReadonlyMap<string, BusyThresholds>;
  /** Set while running, by model; they hold until the configuration says something else than it did then. */
  readonly #set = new Map<string, BusyThresholds>();

  constructor(parts: BusyParts, config: RouterConfig) {
    this.#parts = parts;
    this.#configured = configuredThresholds(config);
    this.#apply();
    parts.metrics.gauge('pointsman_busy_workers', () => this.#countBusy());
  }

  /** Takes what a reloaded configuration says: for models whose thresholds it changed, in place of what was set meanwhile. */
  follow(config: RouterConfig): void {
    const before = this.#configured;
    this.#configured = configuredThresholds(config);
    for (const model of [...this.#set.keys()]) {
      if (isDeepStrictEqual(before.get(model), this.#configured.get(model))) continue;
      this.#set.delete(model);
      this.#parts.log.info(
        'the configuration takes the place of busy thresholds that were set while running',
        { model },
      );
    }
    this.#apply();
  }

  /** Thresholds in force, by model. */
  list(): readonly ThresholdStatus[] {
    return [...this.#configured.keys()].map((model) => this.#statusOf(model));
  }

  /** Takes a change at run time, from the next decision on; null = there is no such model. */
  change({ model, changes }: ThresholdChange): ThresholdStatus | null {
    const before = this.#inForce(model);
    if (before === undefined) return null;
    if (Object.keys(changes).length > 0) {
      this.#set.set(model, { ...before, ...changes });
      this.#apply();
      const status = this.#statusOf(model);
      this.#parts.log.info('busy thresholds were set', {
        ...status,
        untested: Object.keys(status.untested).length,
      });
    }
    return this.#statusOf(model);
  }

  /** How a worker stands to its model's thresholds. */
  statusOf(worker: Worker): BusyStatus {
    const { scheduler, blockSizes, fleet } = this.#parts;
    const blockSize = blockSizes.ofModel(worker.spec.model, fleet.groupOf(worker.spec));
    const { decodeBlocks, prefillTokens } = scheduler.busy.limitsOf(worker, blockSize);
    return {
      busy: scheduler.busy.isBusy(worker, blockSize),
      decodeBlocks: Number.isFinite(decodeBlocks) ? decodeBlocks : null,
      prefillTokens: Number.isFinite(prefillTokens) ? prefillTokens : null,
    };
  }

  #inForce(model: string): BusyThresholds | undefined {
    return this.#set.get(model) ?? this.#configured.get(model);
  }

  #apply(): void {
    this.#parts.scheduler.setBusyThresholds(new Map([...this.#configured, ...this.#set]));
  }

  #statusOf(model: string): ThresholdStatus {
    const thresholds = this.#inForce(model) ?? NO_THRESHOLDS;
    const workers = this.#parts.fleet.workers().filter(({ spec }) => spec.model === model);
    const untested: Record<string, readonly bigint[]> = {};
    const look = (key: keyof WrittenThresholds, isKnown: (worker: Worker) => boolean): void => {
      const ids = workers.filter((worker) => !isKnown(worker)).map(({ spec }) => spec.id);
      if (written[key] !== null && ids.length > 0) untested[key] = ids;
    };
    const written = writtenThresholds(thresholds);
    look('active_decode_blocks_threshold', (worker) => totalKvBlocksOf(worker) !== null);
    look('active_prefill_tokens_threshold_frac', (worker) => maxNumBatchedTokensOf(worker) !== null);
    return { model, ...written, source: this.#set.has(model) ? 'admin' : 'configuration', untested };
  }

  #countBusy(): GaugeSample[] {
    const { fleet, scheduler } = this.#parts;
    const counts = new Map([...this.#configured.keys()].map((model) => [model, 0]));
    for (const worker of fleet.workers()) {
      const { model } = worker.spec;
      if (this.statusOf(worker).busy) counts.set(model, (counts.get(model) ?? 0) + 1);
    }
    return [...counts]
      .filter(([model]) => scheduler.busy.hasThresholds(model))
      .map(([model, value]) => ({ labels: { model }, value }));
  }
}

function configuredThresholds(config: RouterConfig): ReadonlyMap<string, BusyThresholds> {
  return new Map([...config.models.keys()].map((model) => [model, thresholdsOf(config, model)]));
}
