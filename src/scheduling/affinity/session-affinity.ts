// Keeps the requests of a session on one worker: who is bound where, under the settings in force.
import type { SessionAffinitySettings } from '../../config/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import { targetConflict } from './affinity-errors.ts';
import { type AffinityRequest, affinityKey, canBeKey } from './affinity-key.ts';
import { AffinityTable, agrees } from './affinity-table.ts';
import { type AffinityCount, type BindingOwner, SessionBinding } from './session-binding.ts';
import type { AffinityTarget } from './types.ts';

/** What a request gets. */
export type TakenAffinity =
  | { readonly kind: 'bound'; readonly binding: SessionBinding }
  /** Another request makes the binding; `cancel` ends the wait. */
  | { readonly kind: 'waits'; readonly cancel: () => void }
  /** It has no session, or none that is bound. */
  | { readonly kind: 'free' };

/** What affinity works with. */
export interface AffinityPorts {
  readonly clock: Clock;
  readonly metrics: Metrics;
}

const FREE: TakenAffinity = { kind: 'free' };
/** For want of these a preference is done without. */
const DISPENSABLE: readonly string[] = ['PM_AFFINITY_FULL', 'PM_AFFINITY_ID'];

/** The sessions of one router. */
export class SessionAffinity {
  readonly #metrics: Metrics;
  readonly #table: AffinityTable;
  #settings: SessionAffinitySettings;

  constructor({ clock, metrics }: AffinityPorts, settings: SessionAffinitySettings) {
    this.#metrics = metrics;
    this.#settings = settings;
    this.#table = new AffinityTable({
      clock,
      limits: () => this.#settings,
      expired: (count) => metrics.count('pointsman_session_bindings_expired_total', {}, count),
    });
    metrics.gauge('pointsman_session_bindings', () => this.#table.size);
    metrics.gauge('pointsman_session_binding_waits', () => this.#table.waiting);
  }

  /** Whether sessions are bound at all. */
  get active(): boolean {
    return this.#settings.mode !== 'off';
  }

  /** Bindings, those included that are being made. */
  get size(): number {
    return this.#table.size;
  }

  /** Requests that wait for a binding. */
  get waiting(): number {
    return this.#table.waiting;
  }

  /** Takes other settings, all of them from the next request on; those under way keep their mode. */
  set(settings: SessionAffinitySettings): void {
    this.#settings = settings;
  }

  /**
   * Takes part in the binding of a request's session, before it is placed.
   * @param waitedMs how long it waited for another one to make the binding; null = it did not.
   * @param ready called once, later, when a request that waits may ask again.
   * @throws PM_AFFINITY_CONFLICT, PM_AFFINITY_FULL, PM_AFFINITY_ID; where a worker is only preferred such a request goes on without.
   */
  take(request: AffinityRequest, waitedMs: number | null, ready: () => void): TakenAffinity {
    const { groupsSubagents, mode } = this.#settings;
    const { constraints, session } = request;
    if (mode === 'off' || session === null) return FREE;
    try {
      const key = affinityKey(request, session, groupsSubagents);
      const asked = mode === 'hard' ? constraints.pinnedWorker : null;
      const acquired = this.#table.acquire(key, asked, ready);
      if (acquired.kind === 'waits') {
        this.#count(request, 'waited');
        return acquired;
      }
      const { hold } = acquired;
      return {
        kind: 'bound',
        binding: new SessionBinding(this.#owner, request, mode, hold.target, hold, waitedMs),
      };
    } catch (thrown) {
      const isDispensable = thrown instanceof PointsmanError && DISPENSABLE.includes(thrown.code);
      if (mode === 'hard' || !isDispensable) throw thrown;
      this.#count(request, 'unbound');
      return FREE;
    }
  }

  /**
   * Looks at the binding of a request's session, for a choice without a booking: nothing is held.
   * @returns null where there is none.
   * @throws PM_AFFINITY_CONFLICT as of {@link take}
   */
  look(request: AffinityRequest): SessionBinding | null {
    const { groupsSubagents, mode } = this.#settings;
    const { constraints, session } = request;
    // An id that cannot be a key is refused where the request is booked.
    if (mode === 'off' || session === null || !canBeKey(session)) return null;
    const key = affinityKey(request, session, groupsSubagents);
    const target = this.#table.query(key);
    if (target === null) return null;
    const asked = constraints.pinnedWorker;
    if (mode === 'hard' && asked !== null && !agrees(target, asked)) throw targetConflict(target, asked);
    return new SessionBinding(this.#owner, request, mode, target, null, null);
  }

  /** The worker that a request of a session bound hard must go to; null = any. O(1), and nothing is held. */
  exactTarget(request: AffinityRequest): AffinityTarget | null {
    const { groupsSubagents, mode } = this.#settings;
    const { constraints, session } = request;
    if (mode !== 'hard' || session === null || constraints.pinnedWorker !== null || !canBeKey(session))
      return null;
    return this.#table.query(affinityKey(request, session, groupsSubagents));
  }

  /** Ends the timers. */
  close(): void {
    this.#table.close();
  }

  readonly #owner: BindingOwner = {
    count: (request, outcome) => this.#count(request, outcome),
    forget: (request, target) => {
      const { session } = request;
      const { groupsSubagents } = this.#settings;
      return session !== null && this.#table.forget(affinityKey(request, session, groupsSubagents), target);
    },
  };

  #count({ partition, role }: AffinityRequest, outcome: AffinityCount): void {
    this.#metrics.count('pointsman_session_affinity_total', { model: partition.model, role, outcome });
  }
}
