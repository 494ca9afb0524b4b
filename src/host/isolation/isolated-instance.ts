// One configured plugin in a thread of its own, with all partitions and roles that use it: replaces the thread when it hangs or
// dies, with longer and longer pauses, and tells every caller what became of its call.
import type { Metrics } from '../../observe/index.ts';
import { type Clock, errorText, type Logger, PointsmanError } from '../../plugin/index.ts';
import { LOAD_LIMIT_MS } from '../time-limit.ts';
import type { IsolatedPolicy, ThreadAnswer, ThreadSite } from './isolated-policy.ts';
import type { FromThread, ToThread, WireContext } from './messages.ts';
import { PluginThread, type ThreadStart } from './plugin-thread.ts';
import { RestartPauses } from './restart-pauses.ts';

/** What an instance is made of. */
export interface InstanceOptions {
  /** As the configuration names it, for log and metrics. */
  readonly name: string;
  readonly start: ThreadStart;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** How long disposers in the thread may take. */
const END_LIMIT_MS = 1000;

interface Call {
  readonly answered: (answer: ThreadAnswer) => void;
  readonly cancelDeadline: () => void;
}

/** A thread and whether it can be called. */
interface Running {
  readonly thread: PluginThread;
  readonly startedAtMs: number;
  ready: boolean;
  cancelLimit: () => void;
}

/** The instance. */
export class IsolatedInstance {
  readonly #options: InstanceOptions;
  /** In the order they were made, which is the order the thread takes them in. */
  readonly #calls = new Map<number, Call>();
  readonly #sites = new Map<number, ThreadSite>();
  /** Waits for the answer to `create`, by site. */
  readonly #trials = new Map<number, (fault: string | null) => void>();
  #running: Running | null = null;
  #cancelPause: (() => void) | null = null;
  #closed = false;
  #closing: Promise<void> | null = null;
  #ids = 0;
  readonly #pauses = new RestartPauses();
  /** Told how the first start went. */
  #started: ((fault: string | null) => void) | null = null;
  #ended: (() => void) | null = null;

  constructor(options: InstanceOptions) {
    this.#options = options;
  }

  /** Starts the thread. @throws PointsmanError PM_PLUGIN_LOAD with the plugin's own text. */
  async start(): Promise<void> {
    const fault = await new Promise<string | null>((settle) => {
      this.#started = settle;
      this.#startThread();
    });
    if (fault === null) return;
    await this.close();
    const { specifier, type } = this.#options.start;
    throw new PointsmanError('PM_PLUGIN_LOAD', `${type} of ${specifier} cannot run in a thread: ${fault}`, {
      details: { plugin: specifier },
    });
  }

  /** Creates a policy and disposes it again; answers what `create` threw, that it does not end, or null. */
  async try(site: ThreadSite): Promise<string | null> {
    const id = this.#nextId();
    const fault = await new Promise<string | null>((settle) => {
      const cancel = this.#options.clock.schedule(LOAD_LIMIT_MS, () => {
        this.#trialOver(id, `it did not end within ${LOAD_LIMIT_MS / 1000} s`);
        void this.#running?.thread.terminate('create did not end');
      });
      this.#trials.set(id, (found) => {
        cancel();
        settle(found);
      });
      if (this.#running?.ready === true) this.#postCreate(id, site);
      else this.#trialOver(id, 'its thread ended');
    });
    this.#post({ kind: 'dispose', site: id });
    return fault;
  }

  /** A policy for a partition and role. */
  create(site: ThreadSite, deadlineMs: number): IsolatedPolicy {
    const id = this.#nextId();
    this.#sites.set(id, site);
    // One whose last policy was disposed ends its thread; another policy wants it back.
    this.#closed = false;
    if (this.#running?.ready === true) this.#postCreate(id, site);
    else if (this.#running === null && this.#cancelPause === null) this.#startThread();
    const isReady = (): boolean => this.#running?.ready === true;
    return {
      deadlineMs,
      get ready() {
        return isReady();
      },
      call: (context, answered) => this.#call(id, context, deadlineMs, answered),
      dispose: () => this.#dispose(id),
    };
  }

  /** Ends the thread; calls under way are lost. Idempotent. */
  close(): Promise<void> {
    this.#closed = true;
    this.#cancelPause?.();
    this.#cancelPause = null;
    this.#closing ??= this.#end().finally(() => {
      this.#closing = null;
    });
    return this.#closing;
  }

  async #end(): Promise<void> {
    const running = this.#running;
    if (running === null) return;
    if (running.ready) {
      await new Promise<void>((resolve) => {
        const cancel = this.#options.clock.schedule(END_LIMIT_MS, resolve);
        this.#ended = () => {
          cancel();
          resolve();
        };
        this.#post({ kind: 'end' });
      });
    }
    await running.thread.terminate('it was ended');
  }

  #startThread(): void {
    const { start, clock } = this.#options;
    const running: Running = {
      thread: new PluginThread(start, {
        heard: (message) => this.#heard(running, message),
        gone: (why) => this.#gone(running, why),
      }),
      startedAtMs: clock.now(),
      ready: false,
      cancelLimit: () => undefined,
    };
    running.cancelLimit = clock.schedule(LOAD_LIMIT_MS, () => {
      void running.thread.terminate(`loading it did not end within ${LOAD_LIMIT_MS / 1000} s`);
    });
    this.#running = running;
  }

  #heard(running: Running, message: FromThread): void {
    if (running !== this.#running) return;
    switch (message.kind) {
      case 'ready':
        this.#ready(running, message.sameFiles);
        return;
      case 'failed':
        void running.thread.terminate(message.text);
        return;
      case 'created':
        this.#trialOver(message.site, null);
        return;
      case 'refused':
        this.#refused(message.site, message.text);
        return;
      case 'ended':
        this.#ended?.();
        return;
      case 'output':
        this.#settle(message.call, { kind: 'output', output: message.output });
        return;
      case 'dropped':
        this.#settle(message.call, {
          kind: 'dropped',
          reason: message.reason,
          error: message.thrown?.text ?? null,
        });
        return;
      case 'log':
        this.#options.log[message.level](message.message, message.fields);
        return;
    }
  }

  #ready(running: Running, sameFiles: boolean): void {
    if (!sameFiles) {
      // Another text than the router itself loaded: two versions must not decide side by side.
      void running.thread.terminate('its files are not those that the router loaded; a reload takes them');
      return;
    }
    running.ready = true;
    running.cancelLimit();
    for (const [id, site] of this.#sites) this.#postCreate(id, site);
    this.#started?.(null);
    this.#started = null;
  }

  #refused(site: number, text: string): void {
    if (this.#trials.has(site)) {
      this.#trialOver(site, text);
      return;
    }
    const { log, name } = this.#options;
    log.error('create of a hint policy failed in its thread', { policy: name, error: text });
  }

  #trialOver(id: number, fault: string | null): void {
    this.#trials.get(id)?.(fault);
    this.#trials.delete(id);
  }

  #call(
    site: number,
    context: WireContext,
    deadlineMs: number,
    answered: (answer: ThreadAnswer) => void,
  ): void {
    const { clock } = this.#options;
    const call = this.#nextId();
    const cancelDeadline = clock.schedule(deadlineMs, () => this.#overdue(call));
    this.#calls.set(call, { answered, cancelDeadline });
    this.#post({ kind: 'call', call, site, nowMs: clock.now(), context });
  }

  #overdue(call: number): void {
    // The answer may be there, and only the router too busy to have looked.
    this.#running?.thread.drain();
    if (!this.#calls.has(call)) return;
    const running = this.#running;
    if (running === null) return;
    this.#abandon(running, 'timed_out', call, { kind: 'timed_out' });
    void running.thread
      .terminate('its deadline passed')
      .then(() => this.#replace(running, 'its deadline passed'));
  }

  #gone(running: Running, why: string): void {
    running.cancelLimit();
    if (running !== this.#running) return;
    // The thread takes calls in order, so the oldest is the one it ran, if it ran one.
    const [oldest] = this.#calls.keys();
    this.#abandon(running, 'died', oldest, { kind: 'thread_died', error: why });
    if (this.#started === null) {
      this.#replace(running, why);
      return;
    }
    this.#closed = true;
    this.#started(why);
    this.#started = null;
  }

  /** Lets go of a thread that is, or is going to be, no more; `culprit` is the call that it ran. */
  #abandon(
    running: Running,
    reason: 'timed_out' | 'died',
    culprit: number | undefined,
    answer: ThreadAnswer,
  ): void {
    running.ready = false;
    this.#running = null;
    this.#ended?.();
    if (!this.#closed && this.#started === null) {
      this.#options.metrics.count('pointsman_plugin_threads_lost_total', {
        plugin: this.#options.name,
        reason,
      });
    }
    for (const id of [...this.#trials.keys()]) this.#trialOver(id, 'its thread ended');
    // All of the past; who is told of one may want to make new ones.
    const lost = [...this.#calls.keys()];
    if (culprit !== undefined) this.#settle(culprit, answer);
    for (const call of lost) this.#settle(call, { kind: 'lost' });
  }

  /** Starts the next thread: at once after a steady one, else after a pause. */
  #replace(previous: Running, why: string): void {
    if (this.#closed || this.#running !== null) return;
    const { clock, log, name } = this.#options;
    const pauseMs = this.#pauses.next(clock.now() - previous.startedAtMs);
    log.warn('the thread of a plugin is replaced', { policy: name, why, pause_ms: pauseMs });
    if (pauseMs === 0) {
      this.#startThread();
      return;
    }
    this.#cancelPause = clock.schedule(pauseMs, () => {
      this.#cancelPause = null;
      this.#startThread();
    });
  }

  async #dispose(id: number): Promise<void> {
    if (!this.#sites.delete(id)) return;
    if (this.#sites.size === 0) await this.close();
    else this.#post({ kind: 'dispose', site: id });
  }

  #settle(call: number, answer: ThreadAnswer): void {
    const waiting = this.#calls.get(call);
    // An answer nobody asked for, or a second one, is none.
    if (waiting === undefined) return;
    this.#calls.delete(call);
    waiting.cancelDeadline();
    waiting.answered(answer);
  }

  #postCreate(id: number, { seed, place }: ThreadSite): void {
    const nowMs = this.#options.clock.now();
    this.#post({ kind: 'create', site: id, seed, nowMs, place: place === null ? null : { ...place } });
  }

  #post(message: ToThread): void {
    try {
      this.#running?.thread.post(message);
    } catch (thrown) {
      this.#options.log.error('a message to the thread of a plugin cannot be sent', {
        policy: this.#options.name,
        error: errorText(thrown),
      });
    }
  }

  #nextId(): number {
    this.#ids += 1;
    return this.#ids;
  }
}
