// One thread of one plugin: starts it, carries messages, notices its end. What the messages mean is thread-keeper.ts's.
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { errorText } from '../../plugin/index.ts';
import { MessageBudget } from './message-budget.ts';
import { type FromThread, parseFromThread, type ToThread } from './messages.ts';
import { passOutput } from './thread-output.ts';

/** What a thread loads. */
export interface ThreadStart {
  /** Where relative specifiers and packages are looked up; absolute. */
  readonly folder: string;
  /** As it stands under `plugins`. */
  readonly specifier: string;
  /** Digests of its files as the router loaded them, by absolute path. */
  readonly files: ReadonlyMap<string, string>;
  readonly kind: 'hint' | 'classifier';
  readonly type: string;
  /** Raw YAML value. */
  readonly parameters: unknown;
  /** Modules that plugins get from the program: file URLs by specifier. */
  readonly modules: Readonly<Record<string, string>>;
}

/**
 * MiB of objects at which V8 steps in, which may end the process or hang the thread for good: far beyond what memory-watch.ts lets a
 * thread hold, so that a call which allocates without end meets its deadline first.
 */
const V8_HEAP_MIB = 1024;

/** Who listens to a thread. */
export interface ThreadListener {
  /** Answers whether it was waited for: what is not has a budget. */
  heard(message: FromThread): boolean;
  /** It ended, whoever ended it; nothing is heard afterwards. Called once. */
  gone(why: string): void;
  /** So many bytes of its output were dropped. */
  dropped(what: 'output', bytes: number): void;
}

/** The thread. */
export class PluginThread {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #listener: ThreadListener;
  readonly #budget = new MessageBudget(() => performance.now());
  /** Nothing is listened to any more. */
  #deaf = false;
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
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: V8_HEAP_MIB },
    });
    for (const stream of [this.#worker.stdout, this.#worker.stderr]) {
      passOutput(stream, {
        // Standard output belongs to the command's answer.
        write: (chunk) => process.stderr.write(chunk),
        dropped: (bytes) => listener.dropped('output', bytes),
      });
    }
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
    while (!this.#deaf) {
      const next = receiveMessageOnPort(this.#port);
      if (next === undefined) return;
      this.#take(next.message);
    }
  }

  /** Ends it at once, whatever it does. Settles when it is gone. */
  async terminate(why: string): Promise<void> {
    this.#why ??= why;
    await this.#worker.terminate();
  }

  #take(given: unknown): void {
    if (this.#deaf) return;
    const message = parseFromThread(given);
    if (message === null) this.#turnAway('it sent a message of an unknown shape');
    else if (!this.#listener.heard(message) && !this.#budget.take()) {
      this.#turnAway('it sent too many messages');
    }
  }

  /** Ends it and forgets what it has sent: there may be more of that than can be looked at. */
  #turnAway(why: string): void {
    this.#deaf = true;
    this.#port.close();
    void this.terminate(why);
  }

  #end(why: string): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#deaf = true;
    this.#port.close();
    this.#listener.gone(why);
  }
}
