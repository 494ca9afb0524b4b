// Calls the `create` of every policy of a resolved role for one partition, in process or in its thread.
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
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import { BUILT_IN_VERSION, type Prepared } from './catalog.ts';
import { type CreatedSelection, checkHintPolicy, checkSelection } from './created-policy.ts';
import { type HintReads, readsOf } from './hint-context.ts';
import type { IsolatedPolicy, ThreadSite } from './isolation/isolated-policy.ts';
import type { PolicyThreads, ThreadPlan } from './isolation/thread-instances.ts';
import { pluginClock } from './plugin-clock.ts';
import type { PluginGuard, PluginGuards } from './plugin-guard.ts';
import { pluginLog } from './plugin-log.ts';
import { openMeter, type PluginMeter } from './plugin-meters.ts';
import type { ResolvedRole } from './role-resolution.ts';
import { deriveSeed } from './seeds.ts';

/** What creation needs from outside. */
export interface CreationPorts {
  readonly clock: Clock;
  readonly seed: number;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Instances with scope `shared`, by what was prepared. */
  readonly shared: Map<Prepared, SharedPolicy>;
  /** Guards of plugins; absent = none is guarded. */
  readonly guards?: PluginGuards;
  /** What bookings hold; absent = the policies live as long as their owner says. */
  readonly hold?: GenerationHold;
  /** Threads of plugins, started; absent = all run in process. */
  readonly threads?: PolicyThreads;
  /** Absent = nothing of it. */
  readonly keeps?: KeptFacts;
}

/** Which facts the configuration lets the router keep for policies that declare them. */
export interface KeptFacts {
  readonly lineage: boolean;
  readonly residency: boolean;
}

/** A created policy with scope `shared`. */
export interface SharedPolicy {
  readonly created: unknown;
  readonly meter: PluginMeter;
}

/** Where policies are created for. */
export interface CreationSite {
  readonly partition: Partition;
  readonly blockSize: number;
}

/** A created hint policy with what the stage needs to know of it. */
export type CreatedHint = InProcessHint | ThreadHint;

/** One that runs on the router's thread. */
export interface InProcessHint extends HintFacts {
  readonly kind: 'in-process';
  readonly policy: AnyHintPolicy;
}

/** One that runs in a thread of its own. */
export interface ThreadHint extends HintFacts {
  readonly kind: 'thread';
  readonly policy: IsolatedPolicy;
}

interface HintFacts {
  readonly name: string;
  readonly type: string;
  readonly inputs: readonly string[];
  readonly reads: HintReads;
  readonly actions: ReadonlySet<string> | null;
  /** Whether its context has `committedKvCopy`. */
  readonly seesCommits: boolean;
  /** Whether it is the one that sends committed copies. */
  readonly sends: boolean;
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
        create(
          resolved.selection,
          { part: 'selection', name: selectionName, label: selectionLabel },
          { resolved, site, ports, disposers },
        ),
      ),
      selectionLabel,
      resolved.selection.commits,
    );
    if (resolved.selection.scope === 'partition') disposers.unshift(selection.dispose);
    const hints = resolved.hints.map(({ name, prepared, thread = null }): CreatedHint => {
      const label = `hint policy ${name}`;
      const guard = guardOf(prepared, 'hint', name, resolved, ports);
      const { type, inputs, actions, seesCommits, sends } = prepared;
      const facts = { name, type, inputs, reads: readsOf(inputs), actions, seesCommits, sends, guard };
      if (thread !== null && ports.threads !== undefined) {
        const policy = createInThread(prepared, thread, hintPart(name), resolved, site, ports, ports.threads);
        if (prepared.scope === 'partition') disposers.unshift(() => policy.dispose());
        return { ...facts, kind: 'thread', policy };
      }
      const created = noted(guard, () =>
        create(prepared, { part: hintPart(name), name, label }, { resolved, site, ports, disposers }),
      );
      const policy = checkHintPolicy(created, label);
      if (prepared.scope === 'partition') disposers.unshift(() => policy.dispose?.());
      return { ...facts, kind: 'in-process', policy };
    });
    return { selection, selectionGuard, hints, disposers };
  } catch (failure) {
    for (const dispose of disposers) quietly(dispose, ports.log);
    throw failure;
  }
}

/** Runs a disposer; what it throws is logged, as nothing can be done about it. */
export function quietly(dispose: () => unknown, log: Logger): unknown {
  const complain = (thrown: unknown): void =>
    log.warn('dispose of a policy failed', { error: errorText(thrown) });
  try {
    const result = dispose();
    return result instanceof Promise ? result.catch(complain) : undefined;
  } catch (thrown) {
    complain(thrown);
    return undefined;
  }
}

/** What is created, in the words of seeds, metrics and messages. */
interface CreationNames {
  readonly part: string;
  readonly name: string;
  readonly label: string;
}

function create(
  prepared: Prepared,
  { part, name, label }: CreationNames,
  {
    resolved,
    site,
    ports,
    disposers,
  }: {
    readonly resolved: ResolvedRole;
    readonly site: CreationSite;
    readonly ports: CreationPorts;
    readonly disposers: (() => unknown)[];
  },
): unknown {
  const isShared = prepared.scope === 'shared';
  const known = isShared ? ports.shared.get(prepared) : undefined;
  if (known !== undefined) return known.created;
  const meter = openMeter(isShared ? prepared.type : name, ports.metrics, ports.log);
  // It outlives the policy's own dispose, which may report.
  if (!isShared) disposers.unshift(() => meter.close());
  const base = {
    parameters: undefined,
    clock: pluginClock(ports.clock),
    rng: seededRng(instanceSeed(prepared, part, resolved, site, ports)),
    log: pluginLog(ports.log),
    metrics: meter.metrics,
  };
  const context = isShared
    ? base
    : { ...base, partition: site.partition, role: resolved.role, blockSize: site.blockSize };
  let created: unknown;
  try {
    // A shared policy gets no partition, as its own type of `create` says.
    created = prepared.create(context as AnyCreateContext);
  } catch (thrown) {
    if (isShared) meter.close();
    throw new PointsmanError('PM_PLUGIN_THREW', `create of ${label} threw for role ${resolved.role}`, {
      cause: thrown,
      details: { policy: prepared.type, role: resolved.role, component: 'create' },
    });
  }
  if (isShared) ports.shared.set(prepared, { created, meter });
  return created;
}

/** A policy in its thread; one of scope `shared` is made once per prepared instance, as in process. */
function createInThread(
  prepared: Prepared,
  plan: ThreadPlan,
  part: string,
  resolved: ResolvedRole,
  site: CreationSite,
  ports: CreationPorts,
  threads: PolicyThreads,
): IsolatedPolicy {
  const threadSite = threadSiteOf(prepared, part, resolved, site, ports);
  return threads.create(plan, threadSite, prepared.scope === 'shared' ? prepared : null);
}

/** Where and with which seed a policy is created in a thread. */
export function threadSiteOf(
  prepared: Prepared,
  part: string,
  resolved: ResolvedRole,
  { partition, blockSize }: CreationSite,
  ports: Pick<CreationPorts, 'seed'>,
): ThreadSite {
  const seed = instanceSeed(prepared, part, resolved, { partition, blockSize }, ports);
  const place = prepared.scope === 'shared' ? null : { role: resolved.role, partition, blockSize };
  return { seed, place };
}

/** Names a hint policy among the parts of its role, for its seed. */
export function hintPart(name: string): string {
  return `hint ${name}`;
}

/** Seed of an instance's generator, wherever it runs. */
function instanceSeed(
  { scope, type }: Prepared,
  part: string,
  resolved: ResolvedRole,
  site: CreationSite,
  { seed }: Pick<CreationPorts, 'seed'>,
): number {
  return deriveSeed(
    seed,
    ...(scope === 'shared' ? ['shared', type, part] : [...siteLabels(resolved, site), part]),
  );
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

/** Names a partition's role, for seeds. */
export function siteLabels(resolved: ResolvedRole, site: CreationSite): readonly string[] {
  return [site.partition.model, site.partition.routingGroup, resolved.role];
}
