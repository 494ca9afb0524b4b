// Keeps a thread for one configured plugin: starts it, tells it what to create, replaces it when it hangs or dies, with longer and
// longer pauses. What is asked of the plugin in between is the work's, see hint-work.ts and classifier-work.ts.
import type { Metrics } from '../../observe/index.ts';
import { type Clock, errorText, type Logger, PointsmanError } from '../../plugin/index.ts';
import { LOAD_LIMIT_MS } from '../time-limit.ts';
import type { ThreadSite } from './isolated-policy.ts';
import { KeptSites } from './kept-sites.ts';
import type { FromThread, ToThread } from './messages.ts';
import { PluginThread, type ThreadStart } from './plugin-thread.ts';
import { RestartPauses } from './restart-pauses.ts';

/** What a thread is kept with. */
export interface KeeperOptions {
  /** As the configuration names it, for log and metrics. */
  readonly name: string;
  readonly start: ThreadStart;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** What is asked of the plugin, and what it answers. */
export interface ThreadWork {
  /** An answer; false = nobody asked for it. */
  heard(message: FromThread): boolean;
  /** The thread ended by itself; nothing that was asked is answered any more. */
  died(why: string): void;
}

/** How long disposers in the thread may take. */
const END_LIMIT_MS = 1000;

/** A thread and whether it can be asked. */
interface Running {
  readonly thread: PluginThread;
  readonly startedAtMs: number;
  ready: boolean;
  cancelLimit: () => void;
}

/** The keeper. */
export class ThreadKeeper {
  readonly #options: KeeperOptions;
  readonly #work: ThreadWork;
  readonly #sites: KeptSites;
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

  constructor(options: KeeperOptions, work: ThreadWork) {
    this.#options = options;
    this.#work = work;
    this.#sites = new KeptSites(options);
  }

  /** Whether the plugin can be asked. */
  get ready(): boolean {
    return this.#running?.ready === true;
  }

  /** A number nobody else has. */
  nextId(): number {
    this.#ids += 1;
    return this.#ids;
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
    const id = this.nextId();
    const fault = await new Promise<string | null>((settle) => {
      const cancel = this.#options.clock.schedule(LOAD_LIMIT_MS, () => {
        this.#trialOver(id, `it did not end within ${LOAD_LIMIT_MS / 1000} s`);
        void this.#running?.thread.terminate('create did not end');
      });
      this.#trials.set(id, (found) => {
        cancel();
        settle(found);
      });
      if (this.ready) this.#postCreate(id, site);
      else this.#trialOver(id, 'its thread ended');
    });
    this.post({ kind: 'dispose', site: id });
    return fault;
  }

  /** Has a policy created, in this thread and those after it; answers its number. */
  open(site: ThreadSite): number {
    const id = this.nextId();
    this.#sites.add(id, site);
    // One whose last policy was disposed ends its thread; another policy wants it back.
    this.#closed = false;
    if (this.ready) this.#create(id, site);
    else if (this.#running === null && this.#cancelPause === null) this.#startThread();
    return id;
  }

  /** After the last one the thread ends. */
  async dispose(id: number): Promise<void> {
    if (!this.#sites.leave(id)) return;
    if (this.#sites.size === 0) await this.close();
    else if (this.ready) this.post({ kind: 'dispose', site: id });
    else this.#sites.left(id);
  }

  /** Ends the thread; what was asked is not answered any more. Idempotent. */
  close(): Promise<void> {
    this.#closed = true;
    this.#cancelPause?.();
    this.#cancelPause = null;
    this.#closing ??= this.#end().finally(() => {
      this.#closing = null;
    });
    return this.#closing;
  }

  post(message: ToThread): void {
    try {
      this.#running?.thread.post(message);
    } catch (thrown) {
      this.#options.log.error('a message to the thread of a plugin cannot be sent', {
        policy: this.#options.name,
        error: errorText(thrown),
      });
    }
  }

  /** Takes what the thread said and nobody looked at yet: the router may have been the one that was busy. */
  drain(): void {
    this.#running?.thread.drain();
  }

  /** Gives the thread up for another, as it did not answer in time. The work sees to what was asked. */
  giveUp(why: string): void {
    const running = this.#running;
    if (running === null) return;
    this.#letGo(running, 'timed_out');
    void running.thread.terminate(why).then(() => this.#replace(running, why));
  }

  async #end(): Promise<void> {
    const running = this.#running;
    if (running !== null) {
      if (running.ready) {
        await new Promise<void>((resolve) => {
          const cancel = this.#options.clock.schedule(END_LIMIT_MS, resolve);
          this.#ended = () => {
            cancel();
            resolve();
          };
          this.post({ kind: 'end' });
        });
      }
      await running.thread.terminate('it was ended');
    }
    this.#sites.allLeft();
  }

  #startThread(): void {
    const { start, clock, metrics, name } = this.#options;
    const running: Running = {
      thread: new PluginThread(start, {
        heard: (message) => this.#heard(running, message),
        gone: (why) => this.#gone(running, why),
        dropped: (what, amount) =>
          metrics.count('pointsman_plugin_output_dropped_total', { plugin: name, what }, amount),
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

  /** Answers whether this was waited for. */
  #heard(running: Running, message: FromThread): boolean {
    if (running !== this.#running) return false;
    switch (message.kind) {
      case 'ready':
        if (running.ready) return false;
        this.#ready(running, message.sameFiles);
        return true;
      case 'failed':
        void running.thread.terminate(message.text);
        return true;
      case 'created':
        return this.#trialOver(message.site, null) || this.#sites.has(message.site);
      case 'refused':
        return this.#refused(message.site, message.text);
      case 'disposed':
        return this.#sites.left(message.site);
      case 'ended':
        this.#ended?.();
        return true;
      case 'numbers':
        this.#sites.report(message);
        return false;
      case 'lines_dropped':
        this.#options.metrics.count(
          'pointsman_plugin_output_dropped_total',
          { plugin: this.#options.name, what: 'log' },
          message.lines,
        );
        return false;
      case 'log':
        this.#options.log[message.level](message.message, message.fields);
        return false;
      default:
        return this.#work.heard(message);
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
    for (const [id, site] of this.#sites.entries()) this.#create(id, site);
    this.#started?.(null);
    this.#started = null;
  }

  #refused(site: number, text: string): boolean {
    if (this.#trialOver(site, text)) return true;
    const { log, name } = this.#options;
    log.error('create of a plugin failed in its thread', { policy: name, error: text });
    return this.#sites.has(site);
  }

  /** Answers whether there was such a trial. */
  #trialOver(id: number, fault: string | null): boolean {
    const settle = this.#trials.get(id);
    settle?.(fault);
    return this.#trials.delete(id);
  }

  #gone(running: Running, why: string): void {
    running.cancelLimit();
    if (running !== this.#running) return;
    this.#letGo(running, 'died');
    this.#work.died(why);
    if (this.#started === null) {
      this.#replace(running, why);
      return;
    }
    this.#closed = true;
    this.#started(why);
    this.#started = null;
  }

  /** Lets go of a thread that is, or is going to be, no more. */
  #letGo(running: Running, reason: 'timed_out' | 'died'): void {
    running.ready = false;
    this.#running = null;
    this.#ended?.();
    if (!this.#closed && this.#started === null) {
      this.#options.metrics.count('pointsman_plugin_threads_lost_total', {
        plugin: this.#options.name,
        reason,
      });
    }
    // Its policies are gone, and their readings with them.
    this.#sites.threadLost();
    for (const id of [...this.#trials.keys()]) this.#trialOver(id, 'its thread ended');
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

  #create(id: number, site: ThreadSite): void {
    this.#sites.created(id);
    this.#postCreate(id, site);
  }

  #postCreate(id: number, { seed, place }: ThreadSite): void {
    const nowMs = this.#options.clock.now();
    this.post({ kind: 'create', site: id, seed, nowMs, place: place === null ? null : wirePlace(place) });
  }
}

function wirePlace(place: NonNullable<ThreadSite['place']>) {
  const partition = { ...place.partition };
  return 'role' in place ? { ...place, partition } : { ...place, partition, workers: place.workers() };
}
