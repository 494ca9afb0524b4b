// One thread of one plugin: starts it, carries messages, notices its end. What the messages mean is isolated-instance.ts's.
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { errorText } from '../../plugin/index.ts';
import { type FromThread, parseFromThread, type ToThread } from './messages.ts';

/** What a thread loads. */
export interface ThreadStart {
  /** Where relative specifiers and packages are looked up; absolute. */
  readonly folder: string;
  /** As it stands under `plugins`. */
  readonly specifier: string;
  /** Digests of its files as the router loaded them, by absolute path. */
  readonly files: ReadonlyMap<string, string>;
  /** Type of the hint policy. */
  readonly type: string;
  /** Raw YAML value. */
  readonly parameters: unknown;
  /** Modules that plugins get from the program: file URLs by specifier. */
  readonly modules: Readonly<Record<string, string>>;
}

/** Memory a thread may use for objects; typed arrays and the thread itself come on top. MiB. */
export const THREAD_HEAP_MIB = 256;

/** Who listens to a thread. */
export interface ThreadListener {
  heard(message: FromThread): void;
  /** It ended, whoever ended it; nothing is heard afterwards. Called once. */
  gone(why: string): void;
}

/** The thread. */
export class PluginThread {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #listener: ThreadListener;
  #gone = false;
  #why: string | null = null;

  constructor(start: ThreadStart, listener: ThreadListener) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#listener = listener;
    // Sources run only in tests, where a thread cannot load TypeScript by itself.
    const code = import.meta.url.endsWith('.ts') ? './thread-from-source.mjs' : './isolation-worker.js';
    this.#worker = new Worker(new URL(code, import.meta.url), {
      workerData: { ...start, port: port2 },
      transferList: [port2],
      // Options of the process are not for it.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MIB },
    });
    port1.on('message', (message: unknown) => this.#take(message));
    // Nothing is listened to but the port, which the plugin has no hold of.
    this.#worker.on('error', (thrown) => {
      this.#why ??= errorText(thrown);
    });
    this.#worker.on('exit', (code) => {
      this.drain();
      this.#end(this.#why ?? `it ended itself with code ${code}`);
    });
  }

  /** @throws DataCloneError when the message cannot be sent. */
  post(message: ToThread): void {
    this.#port.postMessage(message);
  }

  /** Takes what has arrived and was not looked at yet, as after the router itself was busy. */
  drain(): void {
    for (let next = receiveMessageOnPort(this.#port); next !== undefined; ) {
      this.#take(next.message);
      next = receiveMessageOnPort(this.#port);
    }
  }

  /** Ends it at once, whatever it does. Settles when it is gone. */
  async terminate(why: string): Promise<void> {
    this.#why ??= why;
    await this.#worker.terminate();
  }

  #take(given: unknown): void {
    if (this.#gone) return;
    const message = parseFromThread(given);
    if (message !== null) this.#listener.heard(message);
    else void this.terminate('it sent a message of an unknown shape');
  }

  #end(why: string): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#port.close();
    this.#listener.gone(why);
  }
}
