// Keeps the session prefix index fed and shows it to policies: what leaves devices and what engines store for sessions comes from the
// events, what a rank holds of a session's prompt and the end of a session from the road.
import type { RouterConfig } from '../config/index.ts';
import type { SessionStore } from '../events/index.ts';
import type { Fleet } from '../fleet/index.ts';
import { LineageView, ResidencyView, type RoleResolution, SessionKeys } from '../host/index.ts';
import {
  deviceDepth,
  type FollowedIndex,
  type OwnerSlot,
  type PrefixMatch,
  type PromptHashes,
  type SessionOwner,
  SessionPrefixIndex,
  SessionUpdates,
  sessionTenant,
} from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { BlockResidency, Clock, Partition, Role, SessionLineage } from '../plugin/index.ts';
import type { SessionPorts, SessionRequest, SessionScope } from '../road/index.ts';
import { LineageCounts, showLineage } from './lineage-metrics.ts';

/** What the feeds work on. */
export interface SessionFeedsOptions {
  readonly fleet: Pick<
    Fleet,
    'candidates' | 'groupOf' | 'slotOf' | 'slotRank' | 'slotWorkerId' | 'workerOfSlot'
  >;
  readonly residency: FollowedIndex;
  /** What the policies in force ask for; another array when others are. */
  readonly host: { resolution(): readonly Pick<RoleResolution, 'provisions'>[] };
  readonly limits: Pick<RouterConfig['limits'], 'lineageBytes' | 'lineageSessions' | 'lineageTtlMs'>;
  /** Whether engines tell what they hold; else nobody knows where blocks lie. */
  readonly useKvEvents: boolean;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** The index with its queue. */
interface Kept {
  readonly index: SessionPrefixIndex;
  readonly updates: SessionUpdates;
}

/** What policies of a role are shown of the sessions of one scope. */
interface ShownLineage {
  readonly keys: SessionKeys;
  readonly role: Role;
  readonly view: LineageView;
}

/** What is kept of sessions: nothing while no policy asks for it. */
export class SessionFeeds implements SessionPorts {
  readonly #options: SessionFeedsOptions;
  readonly #residency: ResidencyView;
  #asked: readonly unknown[] | null = null;
  #kept: Kept | null = null;
  /** By slot + 1, of the scope that asked last; the first for choices. */
  #views: (ShownLineage | undefined)[] = [];
  #keys: SessionKeys | null = null;
  /** Whether a request named its tenant. */
  #hasTenants = false;

  constructor(options: SessionFeedsOptions) {
    const { fleet, metrics, residency } = options;
    this.#options = options;
    this.#residency = new ResidencyView({
      fleet,
      residency,
      isApproximate: (slot) => this.#isApproximate(slot),
    });
    showLineage(metrics, () => this.#kept);
    this.#follow();
  }

  /** Whether lineages are kept. */
  get keeps(): boolean {
    return this.#kept !== null;
  }

  /** Begins or ends to keep them, where other policies are in force. */
  #follow(): Kept | null {
    const { clock, host, limits, metrics, residency } = this.#options;
    const resolution = host.resolution();
    if (resolution === this.#asked) return this.#kept;
    this.#asked = resolution;
    if (!resolution.some(({ provisions }) => provisions.lineage === 'yes')) {
      residency.follow(null);
      this.#kept = null;
      this.#views = [];
    } else if (this.#kept === null) {
      const index = new SessionPrefixIndex(clock, {
        maxBytes: limits.lineageBytes,
        maxSessions: limits.lineageSessions,
        timeToLiveMs: limits.lineageTtlMs || null,
      });
      const later = (work: () => void): void => {
        clock.schedule(0, () => {
          work();
          counts.add(index.stats(), updates.stats());
        });
      };
      const counts = new LineageCounts(metrics);
      const updates = new SessionUpdates({ index, residency, later });
      this.#kept = { index, updates };
      residency.follow({
        left: (owner, hashes) => updates.removed(owner, hashes),
        cleared: (owner) => updates.cleared(owner),
      });
    }
    return this.#kept;
  }

  /** Events of a rank are lost: it may hold less than is known, and a lineage must not be too long. */
  missed(owner: OwnerSlot): void {
    this.#kept?.updates.cleared(owner);
  }

  /** An engine stored blocks for a session. */
  stored(owner: OwnerSlot, { sessionId, cacheSalt, external }: SessionStore): void {
    const kept = this.#follow();
    const worker = kept === null ? null : this.#options.fleet.workerOfSlot(owner);
    if (kept === null || worker === null) return;
    const { spec } = worker;
    const partition = { model: spec.model, routingGroup: this.#options.fleet.groupOf(spec) };
    // An engine knows no tenants: where there are any, its word alone could be of anybody's session, whatever the salt.
    if (this.#hasTenants) return;
    const key = this.#keysOf({ partition, cacheSalt }).of(sessionId);
    const chain = key === null ? null : this.#options.residency.heldChain(owner, external);
    if (key !== null && chain !== null) kept.updates.stored(key, owner, chain.parent, chain.hashes);
  }

  lineageFor(scope: SessionScope, slot: OwnerSlot | null): SessionLineage | null {
    const { fleet, residency } = this.#options;
    const kept = this.#follow();
    if (kept === null || (slot !== null && this.#isApproximate(slot))) return null;
    const at = 1 + (slot ?? -1);
    const known = this.#views[at];
    if (known?.role === scope.role && known.keys.areOf(scope.partition, sessionTenant(scope))) {
      LineageView.begin(known.view);
      return known.view;
    }
    const source = { lineage: kept.index, residency, fleet };
    const { partition, role } = scope;
    const keys = this.#keysOf(scope);
    const view = new LineageView(source, keys, slot, () => fleet.candidates(partition, role, true).slots);
    while (this.#views.length < at) this.#views.push(undefined);
    this.#views[at] = { keys, role, view };
    return view;
  }

  residencyFor(slot: OwnerSlot): BlockResidency | null {
    return this.#options.useKvEvents && !this.#isApproximate(slot) ? this.#residency : null;
  }

  booked(
    request: SessionRequest,
    slot: OwnerSlot,
    match: PrefixMatch | null,
    hashes: PromptHashes | null,
  ): void {
    const kept = this.#follow();
    const { session, tenant = null } = request;
    // Also while nothing is kept: its engine may tell of it later.
    if (tenant !== null) this.#hasTenants = true;
    if (kept === null || session === null || this.#isApproximate(slot)) return;
    const key = this.#keysOf(request).of(session.sessionId);
    if (key === null) return;
    const depth = match === null || hashes === null ? 0 : deviceDepth(match, slot);
    const chain = hashes === null ? NOTHING : hashes.sequence.subarray(0, 2 * depth);
    kept.updates.matched(key, slot, kept.updates.versionOf(slot), chain);
  }

  ended(request: SessionRequest): void {
    const { session } = request;
    if (this.#kept === null || session?.sessionFinal !== true) return;
    const key = this.#keysOf(request).of(session.sessionId);
    if (key !== null) this.#kept.updates.finished(key);
  }

  #keysOf(scope: SessionOwner & { readonly partition: Partition }): SessionKeys {
    const { partition } = scope;
    const tenant = sessionTenant(scope);
    if (this.#keys?.areOf(partition, tenant) !== true) this.#keys = new SessionKeys(partition, tenant);
    return this.#keys;
  }

  #isApproximate(slot: OwnerSlot): boolean {
    const { fleet } = this.#options;
    return fleet.workerOfSlot(slot)?.approximate?.get(fleet.slotRank(slot)) !== undefined;
  }
}

const NOTHING = new Uint32Array(0);
