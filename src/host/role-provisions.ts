// What the router prepares for a role because its policies ask for it, and what it refrains from: for operators, computed from
// declarations alone.
import type { ConfigPath, RouterConfig } from '../config/index.ts';
import type { ProblemList } from './problem-list.ts';
import type { KeptFacts } from './role-creation.ts';
import type { RoleNeeds } from './types.ts';

/** `no`: nobody asks for it. `disabled`: a policy does, but it is switched off. */
export type Provision = 'yes' | 'no' | 'disabled';

/** What is prepared for one role. */
export interface RoleProvisions {
  /** The prefix index; one for all roles that ask. Without KV events it holds estimates. */
  readonly index: Provision;
  /** Subscriptions to the engines' KV events, which fill the index with what is true. */
  readonly eventSubscription: Provision;
  /** Whether what a prompt matched is kept until its hints are built; only where a worker takes hints. */
  readonly chainRetention: Provision;
  /** Who could copy blocks to whom, for selection or for hints. */
  readonly copyLocations: Provision;
  readonly lineage: Provision;
  readonly residency: Provision;
  /** Whether hint policies run for its bookings. */
  readonly hintStage: Provision;
}

/** What a configuration says of facts that are kept. */
export type KeepingRouter = Pick<RouterConfig['router'], 'useKvEvents' | 'enableSessionPrefixIndex'>;

/** Both rest on what engines tell; where the index holds estimates, nobody knows what engines call the blocks. */
export function keptFacts({ useKvEvents, enableSessionPrefixIndex }: KeepingRouter): KeptFacts {
  return { lineage: useKvEvents && enableSessionPrefixIndex, residency: useKvEvents };
}

/** What a role gets. */
export function provisionsOf(needs: RoleNeeds, router: KeepingRouter, runsHints: boolean): RoleProvisions {
  const provision = (asked: boolean, kept: boolean): Provision =>
    asked ? (kept ? 'yes' : 'disabled') : 'no';
  const ofEvents = (asked: boolean): Provision => provision(asked, router.useKvEvents);
  const kept = keptFacts(router);
  return {
    index: needs.cache ? 'yes' : 'no',
    eventSubscription: ofEvents(needs.cache),
    chainRetention: ofEvents(needs.copyLocations),
    copyLocations: ofEvents(needs.copies || needs.copyLocations),
    lineage: provision(needs.lineage, kept.lineage),
    residency: provision(needs.residency, kept.residency),
    hintStage: runsHints ? 'yes' : 'no',
  };
}

/** Without KV events nobody knows where copies lie, and without a hint policy nobody has any made: then policies that count on them are wrong, silently but for this. */
export function warnOfMissingCopies(
  { path, role }: { readonly role: string; readonly path: ConfigPath },
  { copies, copyLocations }: Pick<RoleNeeds, 'copies' | 'copyLocations'>,
  provisions: Pick<RoleProvisions, 'copyLocations'>,
  problems: ProblemList,
): void {
  const warn = (words: string) => problems.warning('PM_CONFIG_CONFLICT', path, 'key', words);
  if (provisions.copyLocations === 'disabled')
    warn(
      `the policies of role ${role} count on KV copies, but router.use_kv_events: false leaves what workers hold to estimates, so no copy is credited or sent; set it to true, or choose policies without copies`,
    );
  else if (copies && !copyLocations)
    warn(
      `worker selection of role ${role} counts on KV copies, but no hint policy of the role has any made; list kv_fetch in its hints, or choose a policy without copies`,
    );
}
