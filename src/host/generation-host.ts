// A host as one generation of several: what it is made with beside its configuration, and what the next one takes over from it.
import type { Partition, Role } from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import type { Origin } from './catalog.ts';
import type { PluginGuard, ProbationWatch } from './plugin-guard.ts';
import type { ResolvedPluginHost } from './plugin-host.ts';
import type { PluginOutcome } from './plugin-library.ts';
import type { ProblemList } from './problem-list.ts';
import type { CreationSite } from './role-creation.ts';

/** A runtime that was asked for. */
export interface RuntimeSite extends CreationSite {
  readonly role: Role;
}

/** What was asked for. */
export interface GenerationSites {
  readonly runtimes: readonly RuntimeSite[];
  /** Partitions whose requests are classified. */
  readonly classified: readonly Partition[];
}

/** What makes a host one generation of several. */
export interface GenerationParts {
  /** The listed plugins, loaded already; absent = they are loaded here. */
  readonly plugins?: readonly PluginOutcome[];
  /** What to create at once, as requests for it are under way. */
  readonly sites?: GenerationSites;
  /** What bookings hold of it. */
  readonly hold?: GenerationHold;
  readonly probation?: ProbationWatch;
}

/** A type that a listed plugin brought. */
export interface PluginType {
  readonly type: string;
  readonly kind: 'worker-selection' | 'hint-policy' | 'request-classifier';
  readonly origin: Origin;
}

/** A host that can be one generation of several. */
export interface GenerationHost extends ResolvedPluginHost {
  /** What the listed plugins brought, whether used or not. */
  types(): readonly PluginType[];
  /** Everything that was asked for, of partitions that appeared after the start too. */
  sites(): GenerationSites;
  guards(): readonly PluginGuard[];
  /** Creates runtimes and classifiers before they are asked for; reports what fails. */
  createSites(sites: GenerationSites, problems: ProblemList): void;
}
