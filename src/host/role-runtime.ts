// Makes of a role's created policies what scheduling calls.
import { errorText, PointsmanError, seededRng, type WorkerInput } from '../plugin/index.ts';
import type { CreatedSelection } from './created-policy.ts';
import { guardedSelection } from './guarded-selection.ts';
import {
  type CreatedRole,
  type CreationPorts,
  type CreationSite,
  type KeptFacts,
  siteLabels,
} from './role-creation.ts';
import type { ResolvedRole } from './role-resolution.ts';
import { deriveSeed, seedOfU64 } from './seeds.ts';
import { SelectionPipeline } from './selection-pipeline.ts';
import type { CommitSetting, HintStage, RoleNeeds, RoleRuntime, ThreadedHintStage } from './types.ts';

/** Inputs of a selection policy that come of who holds a prompt, or make it so. */
const MATCH_INPUTS: readonly WorkerInput[] = ['cache', 'kv-copy-locations', 'session-lineage'];

/** Whether a selection policy itself reads who holds a prompt. */
function selectionReadsMatch({ commits, cost, filters, picker, scorers }: CreatedSelection): boolean {
  const inputs = [...filters, ...scorers, picker, cost].flatMap((part) => part?.inputs ?? []);
  return commits || MATCH_INPUTS.some((input) => inputs.includes(input));
}

const KEEPS_NOTHING: KeptFacts = { lineage: false, residency: false };

/** What a role needs prepared, from the declarations of its policies. */
export function needsOf(created: CreatedRole, keeps: KeptFacts = KEEPS_NOTHING): RoleNeeds {
  const { selection, hints } = created;
  const parts = [...selection.filters, ...selection.scorers, selection.picker, selection.cost];
  const inputs = new Set<WorkerInput>(parts.flatMap((part) => part?.inputs ?? []));
  const hinted = new Set(hints.flatMap((hint) => hint.inputs));
  const copies = inputs.has('kv-copy-locations') || selection.commits;
  const lineage = inputs.has('session-lineage') || hinted.has('session-lineage');
  const residency = hinted.has('residency');
  const copyLocations = hinted.has('kv-copy-locations') || hints.some((hint) => hint.sends);
  return {
    // Copy locations are read from the same match as the cache columns, and sessions and tiers from the index, so they start it too.
    cache:
      inputs.has('cache') ||
      hinted.has('cache') ||
      copies ||
      copyLocations ||
      (lineage && keeps.lineage) ||
      (residency && keeps.residency),
    load: inputs.has('load') || hinted.has('load'),
    preferredTaint: inputs.has('preferred-taint'),
    occupancy: inputs.has('occupancy'),
    inFlight: inputs.has('in-flight-blocks'),
    phases: inputs.has('request-phases'),
    cachePressure: inputs.has('cache-pressure'),
    outputLength: inputs.has('output-length'),
    timing: inputs.has('timing') || hinted.has('timing'),
    copies,
    copyLocations,
    lineage,
    residency,
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
  stage: HintStage | ThreadedHintStage | null,
): RoleRuntime {
  const { selection: prepared } = resolved;
  const { cost } = created.selection;
  // The record takes costs apart by the weights of the plain default cost.
  const costWeights = cost?.component === 'linear-cost' && !cost.inFlight ? cost.weights : null;
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
  const failed = (thrown: unknown): void => {
    const code = thrown instanceof PointsmanError ? thrown.code : 'PM_PLUGIN_THREW';
    ports.metrics.count('pointsman_selection_failures_total', { policy: prepared.type, code });
    if (CONTRACT_BREACHES.has(code) && !complained.has(code)) {
      complained.add(code);
      const fields = { policy: prepared.type, role: resolved.role, code, error: errorText(thrown) };
      ports.log.error('worker-selection policy broke its contract', fields);
    }
  };
  const select: RoleRuntime['select'] = (table, facts) => {
    try {
      return pipeline.select(table, facts);
    } catch (thrown) {
      failed(thrown);
      throw thrown;
    }
  };
  const guard = created.selectionGuard;
  return {
    policy: { type: prepared.type, instance: resolved.instance, version: prepared.origin.version },
    needs: needsOf(created, ports.keeps),
    matchForHintsAlone: !selectionReadsMatch(created.selection),
    costWeights,
    timeCost: cost?.component === 'time-cost' ? cost : null,
    select:
      guard === null
        ? select
        : guardedSelection(select, guard, { policy: prepared.type, role: resolved.role }),
    hintStage: stage === null || 'start' in stage ? null : stage,
    threadedHints: stage !== null && 'start' in stage ? stage : null,
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
  const guard = sender?.guard ?? null;
  const thread = sender?.kind === 'thread' ? sender.policy : null;
  return {
    onFailure: onCommitFailure,
    senderActions: sender?.actions ?? null,
    senderIsSkipped: () => thread?.ready === false || (guard !== null && !guard.wouldAdmit()),
  };
}
