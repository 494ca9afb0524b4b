// For whom a thread has policies, and what these report: each has a meter as in process, which ends with the policy, so with its thread.
import { openMeter, type PluginMeter } from '../plugin-meters.ts';
import type { ThreadSite } from './isolated-policy.ts';
import type { FromThread } from './messages.ts';
import type { KeeperOptions } from './thread-keeper.ts';

interface KeptSite {
  readonly site: ThreadSite;
  /** Of the policy in the present thread; null = there is none. */
  meter: PluginMeter | null;
}

/** The sites of one thread, and of those after it. */
export class KeptSites {
  readonly #options: KeeperOptions;
  readonly #sites = new Map<number, KeptSite>();
  /** Being disposed in the thread; what their disposers report still counts. */
  readonly #leaving = new Map<number, KeptSite>();

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sites.size;
  }

  has(id: number): boolean {
    return this.#sites.has(id);
  }

  entries(): readonly (readonly [number, ThreadSite])[] {
    return [...this.#sites].map(([id, { site }]) => [id, site]);
  }

  add(id: number, site: ThreadSite): void {
    this.#sites.set(id, { site, meter: null });
  }

  /** Its policy is about to be created. */
  created(id: number): void {
    const kept = this.#sites.get(id);
    if (kept === undefined) return;
    const { metrics, log, name, start } = this.#options;
    kept.meter = openMeter(kept.site.place === null ? start.type : name, metrics, log);
  }

  /** Its policy is about to be disposed; answers whether there is one. */
  leave(id: number): boolean {
    const kept = this.#sites.get(id);
    if (kept === undefined) return false;
    this.#sites.delete(id);
    this.#leaving.set(id, kept);
    return true;
  }

  /** Its policy was disposed; answers whether it was leaving. */
  left(id: number): boolean {
    const kept = this.#leaving.get(id);
    if (kept !== undefined) closeMeter(kept);
    return this.#leaving.delete(id);
  }

  allLeft(): void {
    for (const id of [...this.#leaving.keys()]) this.left(id);
  }

  /** All policies are gone with their thread. */
  threadLost(): void {
    for (const kept of this.#sites.values()) closeMeter(kept);
    this.allLeft();
  }

  /** Numbers of the policies, under the same caps as in process. */
  report({ readings, complaints }: Extract<FromThread, { kind: 'numbers' }>): void {
    for (const [site, which, name, label, value] of readings) {
      const metrics = this.#meterOf(site)?.metrics;
      if (which === 'count') metrics?.count(name, value, label);
      else metrics?.gauge(name, value, label);
    }
    for (const [site, rule] of complaints) this.#meterOf(site)?.complain(rule);
  }

  #meterOf(id: number): PluginMeter | null {
    return (this.#sites.get(id) ?? this.#leaving.get(id))?.meter ?? null;
  }
}

function closeMeter(kept: KeptSite): void {
  kept.meter?.close();
  kept.meter = null;
}
