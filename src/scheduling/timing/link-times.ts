// How long copies of KV blocks between workers take, learnt from what engines report of those that were asked for. Per source and worker
// that copies, and per worker from wherever, for sources it has not copied from yet. What nothing confirms fades: a link that was slow once
// would otherwise never be asked again, and so never be measured again.
import type { Metrics } from '../../observe/index.ts';
import type { MeasuredLink, WorkerRank } from '../../plugin/index.ts';
import { RobustFit } from './robust-fit.ts';

/** Models told apart in {@link LinkTimes.overall}; beyond that the one measured longest ago is forgotten. */
const MAX_MODELS = 64;
/** Links told apart; beyond that the one measured longest ago is forgotten. */
const MAX_LINKS = 4096;
/** Where learning starts: ms of a copy whatever its size, and ms per megabyte at 100 Gbit/s. */
const START = [3, 8 / 100] as const;
/** Latency and speed of links have little to do with each other. */
const LEAST_APART = 1 / 64;
const MEGABYTE = 1e6;
/** Copies until which a pair is known less well than the worker over all sources. */
const PAIR_COPIES = 4;
/** Ms in which confidence halves while nothing is measured. */
const HALF_LIFE_MS = 60_000;
/** Ms for which a confidence is taken not to have faded. */
const SHOWN_MS = 1000;
/** Larger figures of an engine are mistakes. */
const MOST_BYTES = 2 ** 44;

/** A copy as an engine reports it. */
export interface ReportedCopy {
  /** The worker that copied. */
  readonly target: WorkerRank;
  /** Where the source was asked for the blocks. */
  readonly controlEndpoint: string;
  readonly blocks: number;
  readonly bytes: number;
  /** From asking to the last block. */
  readonly ms: number;
}

interface Link {
  readonly fit: RobustFit;
  readonly target: WorkerRank;
  /** Whether it stands for all sources of its target. */
  readonly isWorker: boolean;
  /** Of its last copy. */
  blockBytes: number;
  measuredAt: number;
}

/** All links of a model. */
interface ModelLink extends Link {
  shown: MeasuredLink | null;
  shownAt: number;
}

/** The links of one fleet. */
export class LinkTimes {
  readonly #now: () => number;
  /** The one measured longest ago first. */
  readonly #links = new Map<string, Link>();
  readonly #modelOf: (target: WorkerRank) => string | null;
  /** Over all workers and sources of a model, as blocks of models differ in size; the one measured longest ago first. */
  readonly #models = new Map<string, ModelLink>();

  /**
   * @param now ms of the clock.
   * @param modelOf model of a worker; null = there is no such worker any more.
   */
  constructor(now: () => number, modelOf: (target: WorkerRank) => string | null = () => '') {
    this.#now = now;
    this.#modelOf = modelOf;
  }

  /** Links that something is known of. */
  get size(): number {
    return this.#links.size;
  }

  /** Has metrics read what was learnt, per worker that copies. */
  report(metrics: Metrics): void {
    const read = (value: (link: Link) => number) => () =>
      [...this.#links.values()]
        .filter(({ isWorker }) => isWorker)
        .map((link) => ({
          labels: { worker: String(link.target.workerId), rank: String(link.target.rank) },
          value: value(link),
        }));
    metrics.gauge(
      'pointsman_kv_link_bytes_per_second',
      read(({ fit }) => (1e3 * MEGABYTE) / fit.coefficient(1)),
    );
    metrics.gauge(
      'pointsman_kv_link_latency_seconds',
      read(({ fit }) => fit.coefficient(0) / 1e3),
    );
    metrics.gauge(
      'pointsman_kv_link_observations',
      read(({ fit }) => fit.observations),
    );
    metrics.gauge(
      'pointsman_kv_link_error',
      read(({ fit }) => fit.error),
    );
  }

  /** Learns from a copy. @returns false when that cannot be one, and nothing changed. */
  observe(copy: ReportedCopy): boolean {
    const { blocks, bytes, controlEndpoint, ms, target } = copy;
    if (!(blocks >= 1 && blocks <= bytes && bytes <= MOST_BYTES && ms > 0)) return false;
    this.#observeModel(copy);
    const learnt = this.#observe(keyOf(target, ''), copy, true);
    return this.#observe(keyOf(target, controlEndpoint), copy, false) && learnt;
  }

  /** What copies from an endpoint to a worker take now; null = no copy to that worker was measured. */
  between(target: WorkerRank, controlEndpoint: string): MeasuredLink | null {
    const pair = this.#links.get(keyOf(target, controlEndpoint));
    const isKnown = pair !== undefined && pair.fit.observations >= PAIR_COPIES;
    const link = isKnown ? pair : this.#links.get(keyOf(target, ''));
    return link === undefined ? null : this.#measured(link);
  }

  /** What copies take now, whichever workers of a model make them; null = none was measured. The same object for up to a second. */
  overall(model = ''): MeasuredLink | null {
    const link = this.#models.get(model);
    if (link === undefined) return null;
    const now = this.#now();
    if (link.shown === null || Math.abs(now - link.shownAt) > SHOWN_MS) {
      link.shown = this.#measured(link);
      link.shownAt = now;
    }
    return link.shown;
  }

  #measured(link: Link): MeasuredLink {
    const { fit } = link;
    // A clock that was set back makes nothing surer.
    const age = Math.max(0, this.#now() - link.measuredAt);
    const confidence = fit.confidence * Math.exp((-Math.LN2 * age) / HALF_LIFE_MS);
    const blockMs = (fit.coefficient(1) * link.blockBytes) / MEGABYTE;
    return Object.freeze({ latencyMs: fit.coefficient(0), blockMs, confidence });
  }

  #learn(link: Link, { blocks, bytes, ms }: ReportedCopy): boolean {
    if (!link.fit.observe([1, bytes / MEGABYTE], ms)) return false;
    link.blockBytes = bytes / blocks;
    link.measuredAt = this.#now();
    return true;
  }

  #observe(key: string, copy: ReportedCopy, isWorker: boolean): boolean {
    const link = this.#links.get(key) ?? newLink(copy.target, isWorker);
    if (!this.#learn(link, copy)) return false;
    keepLatest(this.#links, key, link, MAX_LINKS);
    return true;
  }

  #observeModel(copy: ReportedCopy): void {
    const model = this.#modelOf(copy.target);
    if (model === null) return;
    const link = this.#models.get(model) ?? { ...newLink(copy.target, false), shown: null, shownAt: 0 };
    if (!this.#learn(link, copy)) return;
    link.shown = null;
    keepLatest(this.#models, model, link, MAX_MODELS);
  }
}

/** Puts a link last, and lets go of the first where there are more than `most`. */
function keepLatest<T>(links: Map<string, T>, key: string, link: T, most: number): void {
  links.delete(key);
  links.set(key, link);
  for (const oldest of links.keys()) {
    if (links.size <= most) break;
    links.delete(oldest);
  }
}

function newLink({ rank, workerId }: WorkerRank, isWorker: boolean): Link {
  const fit = new RobustFit(START, LEAST_APART);
  return { fit, target: { workerId, rank }, isWorker, blockBytes: 0, measuredAt: 0 };
}

function keyOf({ rank, workerId }: WorkerRank, controlEndpoint: string): string {
  return `${workerId} ${rank} ${controlEndpoint}`;
}
