// Ends a process whose main thread is blocked, as by a plugin's endless loop: a thread watches a heartbeat and knows from shared
// memory which plugin runs.
import { url as inspectorUrl } from 'node:inspector';
import { Worker } from 'node:worker_threads';
import type { PluginPlace, RunningPlugin } from '../host/index.ts';
import { errorText, type Logger } from '../plugin/index.ts';

/** Int32 words of the shared memory: a counter that the main thread moves, and the id of the plugin that runs (0 = none). */
const HEARTBEAT = 0;
const RUNNING = 1;
const WORDS = 2;

const LOOKS_PER_LIMIT = 10;

/** The watchdog of this process. It takes notes from the beginning and watches from {@link start} to {@link stop}. */
export class Watchdog implements RunningPlugin {
  #limitMs: number;
  readonly #log: Logger;
  readonly #shared = new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT);
  readonly #words = new Int32Array(this.#shared);
  readonly #plugins: PluginPlace[] = [];
  #thread: Worker | null = null;
  #beat: NodeJS.Timeout | null = null;

  /** @param limitMs how long the main thread may be blocked, ≥ 100. */
  constructor(limitMs: number, log: Logger) {
    this.#limitMs = limitMs;
    this.#log = log;
  }

  register(plugin: PluginPlace): number {
    const { role, part, plugin: name } = plugin;
    const known = this.#plugins.findIndex(
      (one) => one.role === role && one.part === part && one.plugin === name,
    );
    // After a reload the same plugin comes again.
    if (known >= 0) return known + 1;
    const id = this.#plugins.push(plugin);
    this.#thread?.postMessage([id, plugin]);
    return id;
  }

  note(id: number): void {
    Atomics.store(this.#words, RUNNING, id);
  }

  /** Watches with another limit from now on, if it watches. */
  async setLimit(limitMs: number): Promise<void> {
    if (limitMs === this.#limitMs) return;
    this.#limitMs = limitMs;
    if (this.#thread === null) return;
    await this.stop();
    this.start();
  }

  /** Begins to watch. Under a debugger it does not, as that stops the main thread for as long as it likes. */
  start(): void {
    if (inspectorUrl() !== undefined) {
      this.#log.warn('the watchdog does not run while a debugger may be attached');
      return;
    }
    const intervalMs = this.#limitMs / LOOKS_PER_LIMIT;
    this.#beat = setInterval(() => Atomics.add(this.#words, HEARTBEAT, 1), intervalMs / 2).unref();
    const thread = new Worker(new URL('./assets/watchdog-thread.mjs', import.meta.url), {
      // Options of the process, such as those that load TypeScript, are not for it.
      execArgv: [],
      workerData: {
        shared: this.#shared,
        limitMs: this.#limitMs,
        intervalMs,
        plugins: this.#plugins.map((plugin, index) => [index + 1, plugin]),
      },
    });
    thread.unref();
    thread.on('error', (thrown) => this.#log.error('the watchdog failed', { error: errorText(thrown) }));
    this.#thread = thread;
  }

  /** Stops watching. */
  async stop(): Promise<void> {
    if (this.#beat !== null) clearInterval(this.#beat);
    const thread = this.#thread;
    this.#thread = null;
    await thread?.terminate();
  }
}
