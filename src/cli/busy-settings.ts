// Busy thresholds in force, and who is over them: from the configuration to the scheduler, the metrics and the worker status.
import { type BusyThresholds, type RouterConfig, thresholdsOf } from '../config/index.ts';
import type { BlockSizes, Fleet, Worker } from '../fleet/index.ts';
import type { GaugeSample, Metrics } from '../observe/index.ts';
import type { Scheduler } from '../scheduling/index.ts';

/** What thresholds act on. */
export interface BusyParts {
  readonly fleet: Fleet;
  readonly scheduler: Scheduler;
  readonly blockSizes: Pick<BlockSizes, 'ofModel'>;
  readonly metrics: Metrics;
}

/** A worker as `/workers` shows it under thresholds. */
export interface BusyStatus {
  readonly busy: boolean;
  /** Loads above which a rank is busy; null = not tested. */
  readonly decodeBlocks: number | null;
  readonly prefillTokens: number | null;
}

/** Thresholds of every model of one router. */
export class BusySettings {
  readonly #parts: BusyParts;
  #configured: ReadonlyMap<string, BusyThresholds>;

  constructor(parts: BusyParts, config: RouterConfig) {
    this.#parts = parts;
    this.#configured = configuredThresholds(config);
    parts.scheduler.setBusyThresholds(this.#configured);
    parts.metrics.gauge('pointsman_busy_workers', () => this.#countBusy());
  }

  /** Takes what a reloaded configuration says. */
  follow(config: RouterConfig): void {
    this.#configured = configuredThresholds(config);
    this.#parts.scheduler.setBusyThresholds(this.#configured);
  }

  /** How a worker stands to its model's thresholds. */
  statusOf(worker: Worker): BusyStatus {
    const { scheduler, blockSizes } = this.#parts;
    const blockSize = blockSizes.ofModel(worker.spec.model);
    const { decodeBlocks, prefillTokens } = scheduler.busy.limitsOf(worker, blockSize);
    return {
      busy: scheduler.busy.isBusy(worker, blockSize),
      decodeBlocks: Number.isFinite(decodeBlocks) ? decodeBlocks : null,
      prefillTokens: Number.isFinite(prefillTokens) ? prefillTokens : null,
    };
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
