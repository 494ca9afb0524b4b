// A runtime for definitions at hand, without a configuration: for tests of policies and for embedders. The same preparation, creation
// and stage as under a host.
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import {
  type Clock,
  type HintPolicyDefinition,
  type Logger,
  type Partition,
  PointsmanError,
  type Role,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { roundRobin } from '../policies/index.ts';
import { PolicyCatalog, type Preparation, type Prepared } from './catalog.ts';
import type { HintFleet } from './copy-locations.ts';
import { type AnyDefinition, checkDefinition } from './definition-check.ts';
import type { ResolvedHint } from './hint-resolution.ts';
import { createRole, quietly } from './role-creation.ts';
import { roleRuntimeOf } from './role-runtime.ts';
import type { HintBooking, HintStageResult, RoleRuntime } from './types.ts';
import { hintStageOf } from './waiting-hint-stage.ts';

/** A definition with the parameters its YAML would give it. */
export interface SoloPolicy<D> {
  readonly definition: D;
  readonly parameters?: unknown;
}

/** What a solo runtime is made of. */
export interface SoloOptions {
  /** Default: round-robin. */
  readonly selection?: SoloPolicy<WorkerSelectionPolicyDefinition>;
  /** In list order; names default to the types. */
  readonly hints?: readonly (SoloPolicy<HintPolicyDefinition> & { readonly name?: string })[];
  readonly partition: Partition;
  readonly role: Role;
  readonly blockSize: number;
  /** What becomes of a booking whose committed copy cannot be sent; default `degrade`. */
  readonly onCommitFailure?: 'degrade' | 'release';
  readonly clock: Clock;
  readonly seed: number;
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly fleet: HintFleet;
}

/**
 * Prepares and creates.
 * @throws PointsmanError PM_PLUGIN_INVALID, PM_POLICY_PARAMETERS, PM_PLUGIN_THREW.
 */
export async function createSoloRuntime(options: SoloOptions): Promise<RoleRuntime> {
  const { created, ports, resolved, site } = await createSolo(options);
  const stage = hintStageOf(created.hints, { ...ports, fleet: options.fleet });
  return roleRuntimeOf(resolved, created, site, ports, stage);
}

/** Hint policies created once. */
export interface SoloHints {
  /** One booking; what is wrong with an output is logged each time. Null where a policy runs in a thread. */
  run(booking: HintBooking): HintStageResult | null;
  dispose(): Promise<void>;
}

/** Prepares and creates the hint policies. @throws as {@link createSoloRuntime}. */
export async function createSoloHints(options: SoloOptions): Promise<SoloHints> {
  const { created, ports } = await createSolo(options);
  return {
    run(booking) {
      // A stage says once what is wrong; who looks at every booking wants to hear it of each.
      const stage = hintStageOf(created.hints, { ...ports, fleet: options.fleet });
      return 'start' in stage ? null : stage.run(booking);
    },
    async dispose() {
      for (const dispose of created.disposers) await quietly(dispose, options.log);
    },
  };
}

async function createSolo(options: SoloOptions) {
  const { role, partition, blockSize, clock, seed, log, onCommitFailure = 'degrade' } = options;
  const { definition, parameters } = options.selection ?? { definition: roundRobin };
  const selection = await prepareSolo(definition, parameters, (catalog) =>
    catalog.selections.get(definition.type),
  );
  const hints: ResolvedHint[] = [];
  for (const hint of options.hints ?? []) {
    const { type } = hint.definition;
    const prepared = await prepareSolo(hint.definition, hint.parameters, (catalog) =>
      catalog.hints.get(type),
    );
    hints.push({ name: hint.name ?? type, prepared, listed: true, path: [] });
  }
  const resolved = { role, selection, instance: null, hints, dormantHints: [], path: [], onCommitFailure };
  const ports = { clock, seed, log, metrics: options.metrics ?? NO_METRICS, shared: new Map() };
  const site = { partition, blockSize };
  return { resolved, created: createRole(resolved, site, ports), site, ports };
}

/**
 * Reads the parameters of a definition as a catalog that holds it alone does; `find` looks it up among its own kind.
 * @throws PointsmanError PM_PLUGIN_INVALID, PM_POLICY_PARAMETERS.
 */
export async function prepareSolo<P extends Prepared<never>>(
  definition: AnyDefinition,
  parameters: unknown,
  find: (catalog: PolicyCatalog) => { prepare(given: unknown): Promise<Preparation<P>> } | undefined,
): Promise<P> {
  const checked = checkDefinition(definition, `definition ${String(definition.type)}`);
  if (typeof checked === 'string') throw new PointsmanError('PM_PLUGIN_INVALID', checked);
  const catalog = new PolicyCatalog();
  catalog.add(checked, { name: 'the definition at hand', version: 'solo' });
  const entry = find(catalog);
  if (entry === undefined) {
    const { kind } = checked['~pointsman'];
    throw new PointsmanError(
      'PM_PLUGIN_INVALID',
      `${checked.type} is a ${kind} definition, which does not fit here`,
    );
  }
  const preparation = await entry.prepare(parameters);
  if (preparation.faults === null) return preparation.prepared;
  const [fault] = preparation.faults;
  const where = ['parameters', ...(fault?.path ?? [])].join('.');
  throw new PointsmanError('PM_POLICY_PARAMETERS', `${checked.type}: ${where}: ${fault?.message}`);
}
