// What runs in a plugin's thread: it creates the plugin for each place it is told of, asks it, and disposes it. Nothing of the router
// is here but the contract, the loader and the checks of what a plugin returns.
import {
  type Clock,
  errorText,
  type PluginMetrics,
  PointsmanError,
  type Rng,
  seededRng,
} from '../../plugin/index.ts';
import { pluginClock } from '../plugin-clock.ts';
import { type FromThread, MOST_TEXT, type ToThread, type WireThrown } from './messages.ts';
import type { ThreadClock } from './thread-clock.ts';
import type { ThreadReports } from './thread-reports.ts';

/** What a guest works with. */
export interface GuestPorts {
  readonly send: (message: FromThread) => void;
  readonly reports: ThreadReports;
  /** Its reading is set by every message that carries one. */
  readonly clock: ThreadClock;
}

/** What every `create` is given in a thread, beside its parameters. */
export interface GuestBase {
  readonly parameters: undefined;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: ThreadReports['log'];
  readonly metrics: PluginMetrics;
}

/** Told where a plugin is created. */
export type CreateMessage = Extract<ToThread, { kind: 'create' }>;

/** One kind of plugin in its thread. */
export interface GuestKind {
  /** Creates one and keeps it. @throws what `create` throws. */
  create(message: CreateMessage, base: GuestBase): void;
  /** There is none here, because of this. */
  failed(site: number, thrown: WireThrown): void;
  /** Forgets it; answers what disposes it. */
  remove(site: number): (() => unknown) | null;
  sites(): readonly number[];
  /** Does what is asked of this kind. */
  take(message: ToThread): void;
}

/** The plugins of one configured instance. */
export class ThreadGuest {
  readonly #ports: GuestPorts;
  readonly #kind: GuestKind;

  constructor(ports: GuestPorts, kind: GuestKind) {
    this.#ports = ports;
    this.#kind = kind;
  }

  /** Takes a message; never throws. Answers whether that was the last one. */
  async take(message: ToThread): Promise<boolean> {
    if ('nowMs' in message) this.#ports.clock.setNow(message.nowMs);
    switch (message.kind) {
      case 'create':
        this.#create(message);
        return false;
      case 'dispose':
        await this.#dispose(message.site);
        this.#ports.send({ kind: 'disposed', site: message.site });
        return false;
      case 'end':
        for (const site of this.#kind.sites()) await this.#dispose(site);
        this.#ports.send({ kind: 'ended' });
        return true;
      default:
        this.#kind.take(message);
        return false;
    }
  }

  #create(message: CreateMessage): void {
    const { clock, reports, send } = this.#ports;
    const { site, seed } = message;
    const rng = seededRng(seed);
    const base = {
      parameters: undefined,
      clock: pluginClock(clock),
      rng,
      log: reports.log,
      metrics: reports.metricsOf(site),
    };
    try {
      this.#kind.create(message, base);
      send({ kind: 'created', site });
    } catch (error) {
      const thrown = wireThrown(error);
      this.#kind.failed(site, thrown);
      send({ kind: 'refused', site, text: thrown.text });
    }
  }

  async #dispose(site: number): Promise<void> {
    const { reports } = this.#ports;
    try {
      await this.#kind.remove(site)?.();
    } catch (error) {
      reports.log.warn('dispose of a policy failed', { error: errorText(error) });
    }
    reports.forget(site);
  }
}

/** A thrown value by value. Errors of the contract keep their code. */
export function wireThrown(error: unknown): WireThrown {
  const text = errorText(error).slice(0, MOST_TEXT);
  if (!(error instanceof PointsmanError)) return { text, code: null, details: {} };
  try {
    const details = Object.entries(error.details).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.slice(0, MOST_TEXT) : value,
    ]);
    return { text, code: String(error.code), details: Object.fromEntries(details) };
  } catch {
    // It carries the brand and is none all the same.
    return { text, code: null, details: {} };
  }
}
