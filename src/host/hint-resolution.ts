// Finds the hint policies of a role: those it lists, or those whose default hosts match its worker-selection policy.
import {
  type ConfigPath,
  type HintEntry,
  nameList,
  type RoleSelectionEntry,
  type RouterConfig,
} from '../config/index.ts';
import type { Role } from '../plugin/index.ts';
import type { CatalogEntry, PolicyCatalog, PreparedHint, PreparedSelection } from './catalog.ts';
import type { ThreadPlan } from './isolation/thread-instances.ts';
import type { Preparations } from './preparations.ts';
import type { ProblemList } from './problem-list.ts';
import { defaultThreadPlan, threadPlanOf } from './thread-plans.ts';
import { insteadOf } from './unknown-type.ts';

/** A hint policy of a role. */
export interface ResolvedHint {
  readonly name: string;
  readonly prepared: PreparedHint;
  /** Whether the role lists it; else it runs by its default hosts. */
  readonly listed: boolean;
  readonly path: ConfigPath;
  /** The thread it is to run in; null or absent = it runs in process. */
  readonly thread?: ThreadPlan | null;
}

/** Resolves hints of one configuration; problems go to the list. */
export class HintResolver {
  readonly #catalog: PolicyCatalog;
  readonly #problems: ProblemList;
  readonly #preparations: Preparations;

  constructor(catalog: PolicyCatalog, problems: ProblemList, preparations: Preparations) {
    this.#catalog = catalog;
    this.#problems = problems;
    this.#preparations = preparations;
  }

  /** Listed hints in list order, else default ones in registration order; appended ones last. `selection` is null when the role has none. */
  async resolve(
    role: Role,
    entry: RoleSelectionEntry | undefined,
    selection: Pick<PreparedSelection, 'type' | 'commits'> | null,
  ): Promise<readonly ResolvedHint[]> {
    let hints: readonly ResolvedHint[] = [];
    if (entry?.hints) hints = await this.#listedHints(entry.hints);
    else if (selection !== null)
      hints = await this.#defaultHints(selection.type, entry?.path ?? ['worker_selection']);
    if (entry === undefined) return hints;
    const appended = await this.#listedHints(entry.appendedHints);
    if (appended.length > 0) {
      const types = new Set(appended.map(({ prepared }) => prepared.type));
      hints = [...hints.filter(({ listed, prepared }) => listed || !types.has(prepared.type)), ...appended];
    }
    // Two senders of committed copies are an error, which says the same and more.
    const twoSenders = selection?.commits === true && hints.filter((hint) => hint.prepared.sends).length > 1;
    if (!twoSenders) this.#warnTwoFetchers(role, entry, hints);
    return hints;
  }

  /** One error for all roles that list hints where none can run. */
  checkKvPath(config: RouterConfig, roles: readonly Role[]): void {
    const { mode } = config.router;
    if (mode === 'kv') return;
    const listing = roles.filter((role) => {
      const entry = config.workerSelection[role];
      return (entry?.hints?.length ?? 0) + (entry?.appendedHints.length ?? 0) > 0;
    });
    const first = config.workerSelection[listing[0] ?? 'aggregated'];
    if (listing.length === 0 || first === undefined) return;
    this.#problems.error(
      'PM_ROUTER_MODE',
      first.hintsPath ?? [...first.path, 'hints'],
      'key',
      `hints for ${listing.join(', ')} run only on the KV path, but router mode ${mode} routes without it; use router mode kv, or remove those roles' hints`,
    );
  }

  async #listedHints(entries: readonly HintEntry[]): Promise<readonly ResolvedHint[]> {
    const hints: ResolvedHint[] = [];
    for (const listed of entries) {
      const { type, name, parameters, path } = listed;
      const entry = this.#catalog.hints.get(type);
      if (entry === undefined) {
        this.#unknownHint(type, [...path, 'type']);
        continue;
      }
      const preparation = await this.#preparations.of(entry, parameters);
      if (preparation.faults) this.#problems.parameters('error', path, preparation.faults, type);
      else {
        const { prepared } = preparation;
        hints.push({
          name,
          prepared,
          listed: true,
          path,
          thread: threadPlanOf(listed, prepared, this.#problems),
        });
      }
    }
    return hints;
  }

  #unknownHint(type: string, path: ConfigPath): void {
    const known = [...this.#catalog.hints.keys()];
    const message = this.#catalog.selections.has(type)
      ? `${type} is a worker-selection policy, not a hint policy; known hint policies: ${nameList(known)}`
      : `unknown hint policy "${type}"; ${insteadOf(type, this.#catalog, known)}`;
    this.#problems.error('PM_POLICY_UNKNOWN', path, 'value', message);
  }

  /** Hint policies whose default hosts match the type of the role's policy, in registration order. */
  async #defaultHints(selectionType: string, path: ConfigPath): Promise<readonly ResolvedHint[]> {
    const hints: ResolvedHint[] = [];
    for (const entry of this.#catalog.hints.values()) {
      if (!runsByDefault(entry, selectionType)) continue;
      const preparation = await this.#preparations.of(entry, {});
      if (preparation.faults) {
        const [fault] = preparation.faults;
        const message = `${entry.type} of ${entry.origin.name} runs under ${selectionType} by default, but does not take empty parameters: ${fault?.message}`;
        this.#problems.error('PM_PLUGIN_INVALID', path, 'key', message);
      } else {
        const { prepared } = preparation;
        const thread = defaultThreadPlan(prepared);
        hints.push({ name: entry.type, prepared, listed: false, path, thread });
      }
    }
    return hints;
  }

  /** Engines read only the first `kv.fetch` of an envelope. */
  #warnTwoFetchers(role: Role, entry: RoleSelectionEntry, hints: readonly ResolvedHint[]): void {
    const fetchers = hints.filter(({ prepared }) =>
      [...(prepared.actions ?? [])].some((action) => action.startsWith('kv.fetch@')),
    );
    if (fetchers.length < 2) return;
    const names = fetchers.map((hint) => hint.name).join(' and ');
    this.#problems.warning(
      'PM_POLICY_AMBIGUOUS',
      entry.hintsPath ?? [...entry.path, 'hints'],
      'key',
      `${names} of role ${role} may both send kv.fetch, and engines read only the first; keep one`,
    );
  }
}

function runsByDefault(entry: CatalogEntry<PreparedHint>, selectionType: string): boolean {
  return entry.defaultHosts.some(
    (host) => host === 'any-worker-selection' || host.workerSelection === selectionType,
  );
}
