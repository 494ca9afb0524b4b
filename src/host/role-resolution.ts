// From configuration to policies: per role which worker-selection policy decides and which hint policies follow. Pure lookup and
// parameter parsing; nothing is created yet. Every problem goes to the list, none stops the others from being found.
import {
  type ConfigPath,
  didYouMean,
  type InstanceEntry,
  nameList,
  type RoleSelectionEntry,
  type RouterConfig,
} from '../config/index.ts';
import { type Clock, ROLES, type Role } from '../plugin/index.ts';
import { DEFAULT_POLICY } from './builtin-policies.ts';
import type { PolicyCatalog, Preparation, PreparedSelection } from './catalog.ts';
import { checkOneSender } from './commitments.ts';
import { HintResolver, type ResolvedHint } from './hint-resolution.ts';
import { Preparations } from './preparations.ts';
import type { ProblemList } from './problem-list.ts';
import { insteadOf } from './unknown-type.ts';

/** A role with its policies found and their parameters parsed. */
export interface ResolvedRole {
  readonly role: Role;
  readonly selection: PreparedSelection;
  readonly instance: string | null;
  readonly hints: readonly ResolvedHint[];
  /** Hint policies that would run by default but do not, as the role is off the KV path. */
  readonly dormantHints: readonly string[];
  readonly path: ConfigPath;
  /** What becomes of a booking whose committed copy cannot be sent. */
  readonly onCommitFailure: 'degrade' | 'release';
}

interface ChosenSelection {
  readonly prepared: PreparedSelection;
  readonly instance: string | null;
}

const NO_PATH: ConfigPath = ['worker_selection'];

/** Resolves all roles of one configuration. */
export class RoleResolver {
  readonly #config: RouterConfig;
  readonly #catalog: PolicyCatalog;
  readonly #problems: ProblemList;
  readonly #preparations: Preparations;
  readonly #hints: HintResolver;
  /** Named instances, each parsed once however many roles use it. */
  readonly #instances = new Map<string, Preparation<PreparedSelection> | null>();
  readonly #usedInstances = new Set<string>();

  constructor(config: RouterConfig, catalog: PolicyCatalog, problems: ProblemList, clock: Clock) {
    this.#config = config;
    this.#catalog = catalog;
    this.#problems = problems;
    this.#preparations = new Preparations(clock);
    this.#hints = new HintResolver(catalog, problems, this.#preparations);
  }

  /** Resolves; a role with problems is missing from the answer. */
  async resolve(): Promise<readonly ResolvedRole[]> {
    await this.#prepareInstances();
    const roles: ResolvedRole[] = [];
    for (const role of ROLES) {
      const resolved = await this.#resolveRole(role);
      if (resolved !== null) roles.push(resolved);
    }
    this.#hints.checkKvPath(this.#config, ROLES);
    this.#reportUnusedInstances();
    return roles;
  }

  async #prepareInstances(): Promise<void> {
    for (const instance of this.#config.instances) {
      const entry = this.#catalog.selections.get(instance.type);
      this.#instances.set(
        instance.name,
        entry ? await this.#preparations.of(entry, instance.parameters) : null,
      );
    }
  }

  async #resolveRole(role: Role): Promise<ResolvedRole | null> {
    const entry = this.#config.workerSelection[role];
    const chosen = await this.#chooseSelection(role, entry);
    const hints = await this.#hints.resolve(role, entry, chosen?.prepared ?? null);
    if (chosen === null) return null;
    const onKvPath = this.#config.router.mode === 'kv';
    // A hint that could not be read has its own error, and might have been the sender.
    const allRead = hints.length >= (entry?.hints?.length ?? 0);
    const path = entry?.path ?? NO_PATH;
    if (onKvPath && allRead) {
      const lists = entry?.hints != null;
      checkOneSender({ role, selection: chosen.prepared, hints, path }, lists, this.#problems);
    }
    return {
      role,
      selection: chosen.prepared,
      instance: chosen.instance,
      hints: onKvPath ? hints : [],
      dormantHints: onKvPath ? [] : hints.map((hint) => hint.name),
      path,
      onCommitFailure: entry?.onCommitFailure ?? 'degrade',
    };
  }

  async #chooseSelection(role: Role, entry: RoleSelectionEntry | undefined): Promise<ChosenSelection | null> {
    const { mode } = this.#config.router;
    const fallback = mode === 'kv' ? DEFAULT_POLICY : mode;
    if (entry === undefined) return this.#byType(fallback, {}, NO_PATH, role);
    const { policy, path, parameters } = entry;
    let chosen: ChosenSelection | null;
    if (policy.kind === 'type') chosen = await this.#byType(policy.type, parameters, path, role);
    else if (policy.kind === 'instance') chosen = this.#byInstance(policy.name, [...path, 'instance']);
    else if (policy.name === 'default') chosen = await this.#byType(fallback, {}, path, role);
    else chosen = await this.#byName(policy.name, path, role);
    if (chosen !== null && mode !== 'kv' && chosen.prepared.type !== mode) {
      this.#problems.error(
        'PM_ROUTER_MODE',
        path,
        'value',
        `router mode ${mode} chooses workers itself, so ${role} cannot use ${chosen.prepared.type}; use router mode kv, or remove the entry`,
      );
    }
    return chosen;
  }

  /** A bare string: an instance if one has that name, else a type with `{}`; both is an error. */
  async #byName(name: string, path: ConfigPath, role: Role): Promise<ChosenSelection | null> {
    const isInstance = this.#instances.has(name);
    if (isInstance && this.#catalog.selections.has(name)) {
      this.#problems.error(
        'PM_POLICY_AMBIGUOUS',
        path,
        'value',
        `${name} is the name of an instance and of a type; write { instance: ${name} } or { type: ${name} }`,
      );
      return null;
    }
    return isInstance ? this.#byInstance(name, path) : this.#byType(name, {}, path, role);
  }

  #byInstance(name: string, path: ConfigPath): ChosenSelection | null {
    const configured = this.#config.instances.find((instance) => instance.name === name);
    if (configured === undefined) {
      const known = [...this.#instances.keys()];
      const list = known.length > 0 ? `known instances: ${nameList(known)}` : 'no instances are defined';
      this.#problems.error(
        'PM_POLICY_UNKNOWN',
        path,
        'value',
        `unknown instance "${name}"; ${list}${didYouMean(name, known)}`,
      );
      return null;
    }
    const reported = this.#usedInstances.has(name);
    this.#usedInstances.add(name);
    const preparation = this.#instances.get(name) ?? null;
    if (preparation?.faults === null) return { prepared: preparation.prepared, instance: name };
    if (!reported) this.#reportInstance(configured, preparation, 'error');
    return null;
  }

  async #byType(
    type: string,
    parameters: unknown,
    path: ConfigPath,
    role: Role,
  ): Promise<ChosenSelection | null> {
    const entry = this.#catalog.selections.get(type);
    if (entry === undefined) {
      const isMapping = this.#config.workerSelection[role]?.policy.kind === 'type';
      this.#unknownType(type, isMapping ? [...path, 'type'] : path, 'error');
      return null;
    }
    const preparation = await this.#preparations.of(entry, parameters);
    if (preparation.faults) {
      this.#problems.parameters('error', path, preparation.faults, type);
      return null;
    }
    return { prepared: preparation.prepared, instance: null };
  }

  #unknownType(type: string, path: ConfigPath, severity: 'error' | 'warning'): void {
    const known = [...this.#catalog.selections.keys()];
    const message = this.#catalog.hints.has(type)
      ? `${type} is a hint policy; list it under hints, and choose a worker-selection policy: ${nameList(known)}`
      : `unknown worker-selection policy "${type}"; ${insteadOf(type, this.#catalog, known, [...known, ...this.#instances.keys()])}`;
    this.#problems[severity]('PM_POLICY_UNKNOWN', path, 'value', message);
  }

  /** Instances that no role uses may still be wrong; that is worth a warning, not a refusal. */
  #reportUnusedInstances(): void {
    for (const instance of this.#config.instances) {
      if (this.#usedInstances.has(instance.name)) continue;
      this.#reportInstance(instance, this.#instances.get(instance.name) ?? null, 'warning');
    }
  }

  #reportInstance(
    { type, path }: InstanceEntry,
    preparation: Preparation<PreparedSelection> | null,
    severity: 'error' | 'warning',
  ): void {
    if (preparation === null) this.#unknownType(type, [...path, 'type'], severity);
    else if (preparation.faults) this.#problems.parameters(severity, path, preparation.faults, type);
  }
}
