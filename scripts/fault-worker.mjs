// The process that vitest of fault-runner.mjs runs tests in. It outlives a run: most of what a test file costs is the loading of
// packages, and those stay loaded. Modules of the repository are evaluated anew for each file, as in a process of its own.
import { fork } from 'node:child_process';
import { join } from 'node:path';

/** Files that one process runs; what tests leave behind must not add up. */
const MOST_RUNS = 60;

/** Where the process is kept between runs. */
export class WarmProcesses {
  #kept = null;

  /** A pool for vitest's configuration. */
  pool() {
    return { name: 'warm', createPoolWorker: (options) => new WarmWorker(options, this) };
  }

  /** A process to run in, the one kept or a new one. */
  take({ distPath, execArgv, env }) {
    const kept = this.#kept;
    this.#kept = null;
    if (kept?.child.connected && kept.runs < MOST_RUNS) return kept;
    kept?.child.kill('SIGKILL');
    const options = {
      env,
      execArgv,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    };
    return { child: fork(join(distPath, 'workers/forks.js'), [], options), runs: 0 };
  }

  /** Keeps a process whose run is over. */
  keep(process) {
    if (this.#kept !== null) process.child.kill('SIGKILL');
    else this.#kept = process;
  }

  /** The next run gets a process in which nothing ran. */
  renew() {
    this.#kept?.child.kill('SIGKILL');
    this.#kept = null;
  }
}

/** One run's view of a process, in the form of vitest's workers. */
class WarmWorker {
  name = 'warm';
  cacheFs = true;
  #options;
  #processes;
  #process = null;
  #listeners = [];
  /** Whether the process was told to stop, and so runs nothing. */
  #idle = false;

  constructor(options, processes) {
    this.#options = options;
    this.#processes = processes;
  }

  async start() {
    this.#process ??= this.#processes.take(this.#options);
  }

  on(event, callback) {
    this.#listeners.push([event, callback]);
    this.#process.child.on(event, callback);
  }

  off(event, callback) {
    this.#process?.child.off(event, callback);
  }

  send(message) {
    const { child, runs } = this.#process;
    // It is set up once, and stays so.
    if (message.type === 'start' && runs > 0) return this.#answer('started');
    if (message.type === 'stop') {
      this.#idle = true;
      return this.#answer('stopped');
    }
    if (message.type === 'run') this.#process.runs += 1;
    if (child.connected) child.send(message);
  }

  async stop() {
    const process = this.#process;
    if (process === null) return;
    this.#process = null;
    for (const [event, callback] of this.#listeners.splice(0)) process.child.off(event, callback);
    if (this.#idle && process.child.connected) this.#processes.keep(process);
    else process.child.kill('SIGKILL');
  }

  deserialize(data) {
    return data;
  }

  #answer(type) {
    const { child } = this.#process;
    setImmediate(() => child.emit('message', { type, __vitest_worker_response__: true }));
  }
}
