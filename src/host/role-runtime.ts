// Creates the policies of a resolved role for one partition and makes of them what scheduling calls.
import type { Metrics } from '../observe/index.ts';
import {
  type AnyCreateContext,
  type AnyHintPolicy,
  type Clock,
  errorText,
  type Logger,
  type Partition,
  PointsmanError,
  seededRng,
  type WorkerInput,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import { BUILT_IN_VERSION, type Prepared } from './catalog.ts';
import { type CreatedSelection, checkHintPolicy, checkSelection } from './created-policy.ts';
import { guardedSelection } from './guarded-selection.ts';
import type { PluginGuard, PluginGuards } from './plugin-guard.ts';
import type { ResolvedRole } from './role-resolution.ts';
import { deriveSeed, seedOfU64 } from './seeds.ts';
import { SelectionPipeline } from './selection-pipeline.ts';
import type { CommitSetting, HintStage, RoleNeeds, RoleRuntime } from './types.ts';

/** What creation needs from outside. */
export interface CreationPorts {
  readonly clock: Clock;
  readonly seed: number;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Instances with scope `shared`, by what was prepared. */
  readonly shared: Map<Prepared, unknown>;
  /** Guards of plugins; absent = none is guarded. */
  readonly guards?: PluginGuards;
  /** What bookings hold; absent = the policies live as long as their owner says. */
  readonly hold?: GenerationHold;
}

/** Where policies are created for. */
export interface CreationSite {
  readonly partition: Partition;
  readonly blockSize: number;
}

/** A created hint policy with what the stage needs to know of it. */
export interface CreatedHint {
  readonly name: string;
  readonly type: string;
  readonly inputs: readonly string[];
  readonly actions: ReadonlySet<string> | null;
  /** Whether its context has `committedKvCopy`. */
  readonly seesCommits: boolean;
  /** Whether it is the one that sends committed copies. */
  readonly sends: boolean;
  readonly policy: AnyHintPolicy;
  /** Null for built-in policies, and where nothing is guarded. */
  readonly guard: PluginGuard | null;
}

/** The policies of one role in one partition. */
export interface CreatedRole {
  readonly selection: CreatedSelection;
  /** As of {@link CreatedHint}. */
  readonly selectionGuard: PluginGuard | null;
  readonly hints: readonly CreatedHint[];
  /** Disposes what was created for this partition alone, hints first. */
  readonly disposers: readonly (() => unknown)[];
}

/**
 * Calls every `create` of a role. When one fails, those before it are disposed again.
 * @throws PointsmanError PM_PLUGIN_THREW, PM_PLUGIN_INVALID.
 */
export function createRole(resolved: ResolvedRole, site: CreationSite, ports: CreationPorts): CreatedRole {
  const disposers: (() => unknown)[] = [];
  try {
    const selectionName = resolved.instance ?? resolved.selection.type;
    const selectionGuard = guardOf(resolved.selection, 'selection', selectionName, resolved, ports);
    const selectionLabel = `worker-selection policy ${resolved.selection.type}`;
    const selection = checkSelection(
      noted(selectionGuard, () =>
        create(resolved.selection, 'selection', selectionLabel, resolved, site, ports),
      ),
      selectionLabel,
      resolved.selection.commits,
    );
    if (resolved.selection.scope === 'partition') disposers.unshift(selection.dispose);
    const hints = resolved.hints.map(({ name, prepared }): CreatedHint => {
      const label = `hint policy ${name}`;
      const guard = guardOf(prepared, 'hint', name, resolved, ports);
      const created = noted(guard, () => create(prepared, `hint ${name}`, label, resolved, site, ports));
      const policy = checkHintPolicy(created, label);
      if (prepared.scope === 'partition') disposers.unshift(() => policy.dispose?.());
      const { type, inputs, actions, seesCommits, sends } = prepared;
      return { name, type, inputs, actions, seesCommits, sends, policy, guard };
    });
    return { selection, selectionGuard, hints, disposers };
  } catch (failure) {
    for (const dispose of disposers) quietly(dispose, ports.log);
    throw failure;
  }
}

/** What a role needs prepared, from the declarations of its policies. */
export function needsOf(created: CreatedRole): RoleNeeds {
  const { selection, hints } = created;
  const parts = [...selection.filters, ...selection.scorers, selection.picker, selection.cost];
  const inputs = new Set<WorkerInput>(parts.flatMap((part) => part?.inputs ?? []));
  const hinted = new Set(hints.flatMap((hint) => hint.inputs));
  const copies = inputs.has('kv-copy-locations') || selection.commits;
  const copyLocations = hinted.has('kv-copy-locations') || hints.some((hint) => hint.sends);
  return {
    // Copy locations are read from the same match as the cache columns, so they start the index too.
    cache: inputs.has('cache') || hinted.has('cache') || copies || copyLocations,
    load: inputs.has('load') || hinted.has('load'),
    preferredTaint: inputs.has('preferred-taint'),
    occupancy: inputs.has('occupancy'),
    copies,
    copyLocations,
  };
}

/** Nobody but the log would tell the author; what is thrown is logged where it is caught. Once per code, the counter goes on. */
const CONTRACT_BREACHES: ReadonlySet<string> = new Set([
  'PM_PLUGIN_INVALID',
  'PM_SELECTION_INVALID_PICK',
  'PM_SELECTION_NON_FINITE_COST',
]);

/** Makes the runtime of a created role. */
export function roleRuntimeOf(
  resolved: ResolvedRole,
  created: CreatedRole,
  site: CreationSite,
  ports: CreationPorts,
  hintStage: HintStage | null,
): RoleRuntime {
  const { selection: prepared } = resolved;
  const { cost } = created.selection;
  const seed =
    cost?.seed == null
      ? deriveSeed(ports.seed, ...siteLabels(resolved, site), 'choice')
      : seedOfU64(cost.seed);
  const pipeline = new SelectionPipeline({
    ...created.selection,
    policy: prepared.type,
    role: resolved.role,
    exclusiveAffinity: prepared.exclusiveAffinity,
    rng: seededRng(seed),
    log: ports.log,
  });
  const complained = new Set<string>();
  const select: RoleRuntime['select'] = (table, facts) => {
    try {
      return pipeline.select(table, facts);
    } catch (thrown) {
      const code = thrown instanceof PointsmanError ? thrown.code : 'PM_PLUGIN_THREW';
      ports.metrics.count('pointsman_selection_failures_total', { policy: prepared.type, code });
      if (CONTRACT_BREACHES.has(code) && !complained.has(code)) {
        complained.add(code);
        const fields = { policy: prepared.type, role: resolved.role, code, error: errorText(thrown) };
        ports.log.error('worker-selection policy broke its contract', fields);
      }
      throw thrown;
    }
  };
  const guard = created.selectionGuard;
  return {
    policy: { type: prepared.type, instance: resolved.instance, version: prepared.origin.version },
    needs: needsOf(created),
    costWeights: cost?.weights ?? null,
    select:
      guard === null
        ? select
        : guardedSelection(select, guard, { policy: prepared.type, role: resolved.role }),
    hintStage,
    refusesWhenTripped: ports.guards?.refusesSelection ?? false,
    commits: commitSetting(resolved, created),
    hold: ports.hold ?? null,
  };
}

function commitSetting(
  { onCommitFailure }: ResolvedRole,
  { selection, hints }: CreatedRole,
): CommitSetting | null {
  if (!selection.commits) return null;
  const sender = hints.find((hint) => hint.sends);
  return { onFailure: onCommitFailure, senderActions: sender?.actions ?? null };
}

/** Runs a disposer; what it throws is logged, as nothing can be done about it. */
export function quietly(dispose: () => unknown, log: Logger): unknown {
  const complain = (thrown: unknown): void =>
    log.warn('dispose of a policy failed', { error: String(thrown) });
  try {
    const result = dispose();
    return result instanceof Promise ? result.catch(complain) : undefined;
  } catch (thrown) {
    complain(thrown);
    return undefined;
  }
}

function create(
  prepared: Prepared,
  part: string,
  label: string,
  resolved: ResolvedRole,
  site: CreationSite,
  ports: CreationPorts,
): unknown {
  const isShared = prepared.scope === 'shared';
  if (isShared && ports.shared.has(prepared)) return ports.shared.get(prepared);
  const labels = isShared ? ['shared', prepared.type, part] : [...siteLabels(resolved, site), part];
  const base = {
    parameters: undefined,
    clock: ports.clock,
    rng: seededRng(deriveSeed(ports.seed, ...labels)),
    log: ports.log,
  };
  const context = isShared
    ? base
    : { ...base, partition: site.partition, role: resolved.role, blockSize: site.blockSize };
  let created: unknown;
  try {
    // A shared policy gets no partition, as its own type of `create` says.
    created = prepared.create(context as AnyCreateContext);
  } catch (thrown) {
    throw new PointsmanError('PM_PLUGIN_THREW', `create of ${label} threw for role ${resolved.role}`, {
      cause: thrown,
      details: { policy: prepared.type, role: resolved.role, component: 'create' },
    });
  }
  if (isShared) ports.shared.set(prepared, created);
  return created;
}

/** Built-in policies are the host's own code. */
function guardOf(
  prepared: Prepared,
  part: 'selection' | 'hint',
  plugin: string,
  { role }: ResolvedRole,
  { guards }: CreationPorts,
): PluginGuard | null {
  if (guards === undefined || prepared.origin.version === BUILT_IN_VERSION) return null;
  return guards.of({ role, part, plugin }, prepared.origin);
}

function noted<T>(guard: PluginGuard | null, call: () => T): T {
  guard?.note();
  try {
    return call();
  } finally {
    guard?.unnote();
  }
}

function siteLabels(resolved: ResolvedRole, site: CreationSite): readonly string[] {
  return [site.partition.model, site.partition.routingGroup, resolved.role];
}
