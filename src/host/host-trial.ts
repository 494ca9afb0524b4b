// Tries out what a configuration resolved to before anything is served: every `create` once for every partition, in process and in
// threads, and disposes it again.
import type { RouterConfig } from '../config/index.ts';
import type { Partition, Role } from '../plugin/index.ts';
import type { ResolvedClassifier } from './classifier-resolution.ts';
import type { ClassifierFleet } from './classifier-site.ts';
import type { GenerationSites } from './generation-host.ts';
import { type ThreadInstances, TRIED_ELSEWHERE } from './isolation/thread-instances.ts';
import { type ProblemList, reportCreation } from './problem-list.ts';
import { type CreationPorts, type CreationSite, createRole, quietly } from './role-creation.ts';
import type { ResolvedRole } from './role-resolution.ts';
import { needsOf } from './role-runtime.ts';
import { startThreads } from './thread-start.ts';
import { disposedInTime } from './time-limit.ts';
import type { RoleNeeds } from './types.ts';

/** What is tried. */
export interface TrialParts {
  readonly config: Pick<RouterConfig, 'models'>;
  readonly roles: ReadonlyMap<Role, ResolvedRole>;
  readonly classifier: ResolvedClassifier | null;
  readonly ports: CreationPorts;
  /** Null = there are no workers to see. */
  readonly fleet: ClassifierFleet | null;
  /** Null = isolated plugins run in process. */
  readonly threads: ThreadInstances | null;
  /** Sites beyond the configured ones that are to be created right afterwards: what threads say of them is wanted first. */
  readonly awaited: GenerationSites;
}

/** Stands in for the partitions when a configuration names no model yet. */
const TRIAL_SITE: CreationSite = { partition: { model: 'default', routingGroup: 'default' }, blockSize: 16 };

/** The trial of one host. */
export class HostTrial {
  readonly #parts: TrialParts;
  readonly #sites: readonly CreationSite[];
  /** What disposing takes. */
  readonly #disposals: unknown[] = [];

  constructor(parts: TrialParts) {
    this.#parts = parts;
    this.#sites = configuredSites(parts.config);
  }

  /** Those whose policies are tried. */
  partitions(): readonly Partition[] {
    return this.#sites.map(({ partition }) => partition);
  }

  /** Starts the threads of isolated plugins and lets each create its policies once, as {@link tryRoles} does of the others. */
  async startThreads(problems: ProblemList): Promise<void> {
    const { config, roles, classifier, ports, fleet, threads, awaited } = this.#parts;
    const sitesOf = (role: Role): readonly CreationSite[] => [
      ...this.#sites,
      ...awaited.runtimes.filter((site) => site.role === role && !this.#isConfigured(site)),
    ];
    const { seed, log } = ports;
    await startThreads(
      {
        roles: [...roles.values()],
        sitesOf,
        classifier,
        classified: [...this.partitions(), ...awaited.classified.filter((one) => !this.#hasPartition(one))],
        threads,
        fleet,
        blockSizeOf: ({ model }) => config.models.get(model)?.blockSize ?? null,
        seed,
        log,
      },
      problems,
    );
  }

  /** Creates every role for every configured partition, reports what fails, and disposes it again. */
  tryRoles(problems: ProblemList): ReadonlyMap<Role, RoleNeeds> {
    const needs = new Map<Role, RoleNeeds>();
    const { roles, threads } = this.#parts;
    const ports = threads === null ? this.#parts.ports : { ...this.#parts.ports, threads: TRIED_ELSEWHERE };
    for (const [role, resolved] of roles) {
      for (const site of this.#sites) {
        try {
          const created = createRole(resolved, site, ports);
          needs.set(role, needsOf(created, ports.keeps));
          for (const dispose of created.disposers) this.#disposals.push(quietly(dispose, ports.log));
        } catch (thrown) {
          reportCreation(problems, resolved.path, thrown);
          break;
        }
      }
    }
    return needs;
  }

  /** Waits until nothing of the trial is left; what serves may need what it held. */
  async disposed(): Promise<void> {
    const disposals = this.#disposals.splice(0);
    if (!disposals.some((one) => one instanceof Promise)) return;
    const { clock, log } = this.#parts.ports;
    await disposedInTime(clock, log, Promise.all(disposals));
  }

  #isConfigured({ partition, blockSize }: CreationSite): boolean {
    return this.#sites.some((site) => site.blockSize === blockSize && isSame(site.partition, partition));
  }

  #hasPartition(partition: Partition): boolean {
    return this.#sites.some((site) => isSame(site.partition, partition));
  }
}

function isSame(one: Partition, other: Partition): boolean {
  return one.model === other.model && one.routingGroup === other.routingGroup;
}

function configuredSites({ models }: Pick<RouterConfig, 'models'>): readonly CreationSite[] {
  const sites = new Map<string, CreationSite>();
  for (const model of models.values()) {
    const partition = { model: model.name, routingGroup: model.routingGroup };
    sites.set(JSON.stringify(partition), { partition, blockSize: model.blockSize ?? TRIAL_SITE.blockSize });
  }
  return sites.size > 0 ? [...sites.values()] : [TRIAL_SITE];
}
