// The workers of a configuration that are engines in this process, behind the ports of those elsewhere: transport, events, health, load.
import {
  type ConfigProblem,
  IN_PROCESS_BLOCK_SIZE,
  type RouterConfig,
  type WorkerConfig,
} from '../config/index.ts';
import type { EngineTransport, ReportedLoad } from '../engines/index.ts';
import type { KvEventReplay } from '../events/index.ts';
import type { Probe, Worker } from '../fleet/index.ts';
import { LOCAL_EVENTS, type LocalWorker, startLocalWorker } from '../local-engine/index.ts';
import { type Clock, errorText, type Logger, PointsmanError, type Rng } from '../plugin/index.ts';
import type { Subscribe } from './event-subscriptions.ts';

/** Prompt tokens per step. */
const BATCH_TOKENS = 256;

/** What engines are started with. */
export interface LocalEnginesParts {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
  /** Default {@link startLocalWorker}. */
  readonly open?: typeof startLocalWorker;
}

/** The engines of this process by the names of their workers. */
export class LocalEngines {
  readonly #parts: LocalEnginesParts;
  readonly #workers = new Map<string, LocalWorker>();
  /** Engines that are being opened: each once, and for nobody when its worker left meanwhile. */
  readonly #openings = new Map<string, symbol>();
  /** What is under way: engines that open or close. */
  readonly #pending = new Set<Promise<void>>();
  #closed = false;

  constructor(parts: LocalEnginesParts) {
    this.#parts = parts;
  }

  /** Starts all engines of a configuration. @returns why some could not be. */
  async start(config: RouterConfig): Promise<readonly ConfigProblem[]> {
    const problems: ConfigProblem[] = [];
    // One after another: each reads a file of gigabytes.
    for (const worker of config.workers) {
      try {
        await this.#open(worker, config);
      } catch (thrown) {
        if (!(thrown instanceof PointsmanError)) throw thrown;
        const path = [...worker.path, thrown.code === 'PM_LLAMA_MODEL' ? 'gguf' : 'dialect'];
        problems.push({
          severity: 'error',
          code: thrown.code,
          path,
          anchor: 'value',
          message: thrown.message,
        });
      }
    }
    return problems;
  }

  /** Starts engines that a new configuration names; until one is up its worker counts as not healthy. */
  follow(config: RouterConfig): void {
    for (const worker of config.workers) {
      const { url } = worker;
      if ((worker.inProcess ?? null) === null || this.#isKnown(url)) continue;
      this.#watch(this.#open(worker, config), 'an engine in this process could not be started', url);
    }
  }

  /** Whether a base url names an engine in this process. */
  has(url: string): boolean {
    return isLocal(url);
  }

  /** Carries requests to them. */
  readonly transport: EngineTransport = {
    dispatch: (request, sink) => {
      const { spec } = request.worker;
      const worker = this.#workers.get(spec.url);
      if (worker !== undefined) return worker.engine.dispatch(request, sink);
      let over = false;
      queueMicrotask(() => {
        if (over) return;
        sink.failed(
          new PointsmanError('PM_ENGINE_UNREACHABLE', `worker ${spec.id} is not running in this process`),
        );
      });
      return {
        abort() {
          over = true;
        },
        pause() {},
        resume() {},
      };
    },
    close() {},
  };

  /** Opens the streams of their events here and others as they are. */
  subscribe(others: Subscribe): Subscribe {
    return async (subscription) => {
      const { endpoint, onConnection, owner, sink } = subscription;
      if (!endpoint.startsWith(LOCAL_EVENTS)) return await others(subscription);
      const worker = this.#workers.get(endpoint.slice(LOCAL_EVENTS.length));
      if (worker === undefined) {
        throw new PointsmanError('PM_ENGINE_UNREACHABLE', 'the engine in this process is not running');
      }
      const source = worker.events.connect(owner, sink);
      onConnection?.(true);
      return source;
    };
  }

  /** Who is asked for missed batches at an address; null = nobody here. */
  replayOf(endpoint: string): KvEventReplay | null {
    if (!endpoint.startsWith(LOCAL_EVENTS)) return null;
    return this.#workers.get(endpoint.slice(LOCAL_EVENTS.length))?.events.replay ?? null;
  }

  /** Health and capabilities of theirs; others are probed as they are. */
  probe(others: Probe): Probe {
    return async (worker, context) => {
      const { url } = worker.spec;
      if (!isLocal(url)) return await others(worker, context);
      const local = this.#workers.get(url);
      return local === undefined ? { healthy: false } : { healthy: true, capabilities: local.capabilities };
    };
  }

  /** What they have to do now; others are asked as they are. */
  loads(
    others: (worker: Worker, signal: AbortSignal) => Promise<ReportedLoad | null>,
  ): (worker: Worker, signal: AbortSignal) => Promise<ReportedLoad | null> {
    return async (worker, signal) => {
      const { url } = worker.spec;
      return isLocal(url) ? (this.#workers.get(url)?.engine.load() ?? null) : await others(worker, signal);
    };
  }

  /** A worker left: ends its engine, or has it ended as soon as it is open. */
  forget(url: string): void {
    const worker = this.#workers.get(url);
    this.#workers.delete(url);
    this.#openings.delete(url);
    if (worker === undefined) return;
    this.#watch(worker.close(), 'an engine in this process did not end well', url);
  }

  /** Ends all engines. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const url of [...this.#workers.keys()]) this.forget(url);
    await Promise.all(this.#pending);
  }

  #isKnown(url: string): boolean {
    return this.#workers.has(url) || this.#openings.has(url);
  }

  /** Waits for what nobody else waits for; its failure is logged. */
  #watch(work: Promise<void>, failed: string, url: string): void {
    const pending = work
      .catch((thrown: unknown) => this.#parts.log.error(failed, { url, error: errorText(thrown) }))
      .finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
  }

  async #open({ inProcess = null, model, url }: WorkerConfig, config: RouterConfig): Promise<void> {
    if (inProcess === null || this.#closed || this.#isKnown(url)) return;
    const { contextTokens, gguf, maxWaiting, sequences } = inProcess;
    const blockSize = config.models.get(model)?.blockSize ?? IN_PROCESS_BLOCK_SIZE;
    const settings = { model, blockSize, sequences, contextTokens, maxWaiting, batchTokens: BATCH_TOKENS };
    const { open = startLocalWorker } = this.#parts;
    const opening = Symbol(url);
    this.#openings.set(url, opening);
    let worker: LocalWorker;
    try {
      worker = await open(url, gguf, settings, this.#parts);
    } catch (thrown) {
      if (this.#openings.get(url) === opening) this.#openings.delete(url);
      throw thrown;
    }
    // Its worker left while the model was read, and maybe another one came for which it is read again.
    if (this.#closed || this.#openings.get(url) !== opening) {
      await worker.close();
      return;
    }
    this.#openings.delete(url);
    this.#workers.set(url, worker);
  }
}

function isLocal(url: string): boolean {
  return url.startsWith('llamacpp-node:');
}
