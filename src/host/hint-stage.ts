// Runs the hint policies of a role for one booking and builds the envelope. Fails open: whatever a policy does costs at most its own
// actions, never the booking.
import type { RankCapabilities } from '../fleet/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  type Clock,
  type CommittedKvCopy,
  errorText,
  type HintContextBase,
  type KvHint,
  type KvHintAction,
  type Logger,
  MAX_HINT_ACTIONS,
} from '../plugin/index.ts';
import { BookingCopyLocations, type HintFleet } from './copy-locations.ts';
import { BaseContexts, contextFor } from './hint-context.ts';
import { type CheckedAction, type DropReason, judgeOutput, type OutputLimits } from './hint-output.ts';
import { MAX_ENVELOPE_BYTES } from './hint-payload.ts';
import type { CreatedHint } from './role-runtime.ts';
import type {
  CommitFailure,
  CommitOutcome,
  CopyCommit,
  HintBooking,
  HintPolicyResult,
  HintStage,
  HintStageResult,
} from './types.ts';

/** Name under which a trusted caller's envelope stands in records. */
export const INCOMING = 'incoming';

/** What the stage works with. */
export interface HintStagePorts {
  readonly fleet: HintFleet;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Logger;
}

const NOT_CAPABLE: HintStageResult = Object.freeze({
  hint: null,
  capable: false,
  policies: [],
  actionPolicies: [],
});

const NOTHING_TO_RUN: HintStageResult = Object.freeze({ ...NOT_CAPABLE, capable: true, commit: null });

/** An envelope in the making. */
interface Draft {
  readonly actions: KvHintAction[];
  readonly actionPolicies: string[];
  readonly policies: HintPolicyResult[];
  /** Of all payloads so far. */
  bytes: number;
}

/** What the policies of one run share. */
interface StageRun {
  readonly booking: HintBooking;
  readonly rank: RankCapabilities;
  readonly draft: Draft;
  /** Null where nobody reads them. */
  readonly copyLocations: BookingCopyLocations | null;
  readonly base: Readonly<HintContextBase>;
}

/** The stage of one role in one partition. */
export class RoleHintStage implements HintStage {
  readonly #hints: readonly CreatedHint[];
  readonly #ports: HintStagePorts;
  readonly #complained = new Set<string>();
  readonly #contexts = new BaseContexts();
  readonly #readsCopies: boolean;

  constructor(hints: readonly CreatedHint[], ports: HintStagePorts) {
    this.#hints = hints;
    this.#readsCopies = hints.some(({ inputs }) => inputs.includes('kv-copy-locations'));
    this.#ports = ports;
  }

  get idle(): boolean {
    return this.#hints.length === 0;
  }

  run(booking: HintBooking): HintStageResult {
    const commit = booking.commit ?? null;
    const rank = this.#rankCapabilities(booking);
    if (rank?.routerHint !== true) {
      return commit === null ? NOT_CAPABLE : { ...NOT_CAPABLE, commit: failedCommit(commit, 'not_capable') };
    }
    if (this.idle && commit === null && booking.incomingHint === null) return NOTHING_TO_RUN;
    const draft: Draft = { actions: [], actionPolicies: [], policies: [], bytes: 0 };
    const copyLocations =
      commit !== null || this.#readsCopies ? new BookingCopyLocations(this.#ports.fleet, booking) : null;
    const base = this.#contexts.of(booking, rank.actions);
    const run: StageRun = { booking, rank, draft, copyLocations, base };
    let sender: CreatedHint | null = null;
    let outcome: CommitOutcome | null = null;
    if (commit !== null) {
      // First of all, trusted callers included: engines follow the first fetch they read.
      sender = this.#hints.find((hint) => hint.sends) ?? null;
      outcome = this.#sendCommitted(commit, sender, run);
      if (outcome.failure === 'source_gone') sender = null;
    }
    const givenUp = outcome !== null && outcome.failure !== null && commit?.stopOnFailure === true;
    const incoming = givenUp ? null : booking.incomingHint;
    const kept = incoming !== null && this.#takeIncoming(incoming, rank, draft);
    if (!givenUp) for (const hint of this.#hints) if (hint !== sender) this.#runPolicy(hint, run, null);
    copyLocations?.close();
    return {
      hint:
        draft.actions.length > 0 && !givenUp
          ? envelope(kept ? incoming.message_id : booking.requestId, draft.actions)
          : null,
      capable: true,
      policies: draft.policies,
      actionPolicies: draft.actionPolicies,
      commit: outcome,
    };
  }

  /** Has the sender send a committed copy, its source looked at again. Without a source it has not run yet. */
  #sendCommitted(commit: CopyCommit, sender: CreatedHint | null, run: StageRun): CommitOutcome {
    if (sender === null) return failedCommit(commit, 'no_sender');
    const copy = run.copyLocations?.committed(commit) ?? null;
    if (copy === null) return failedCommit(commit, 'source_gone');
    const failure = this.#runPolicy(sender, run, copy);
    const { source, prefixBlocks, additionalBlocks } = copy;
    return { source, prefixBlocks, additionalBlocks, failure };
  }

  #rankCapabilities(booking: HintBooking): RankCapabilities | null {
    const worker = this.#ports.fleet.workerOfSlot(booking.slot);
    return worker?.capabilities?.ranks.get(booking.rank) ?? null;
  }

  /** A trusted caller's actions come first, under the same rules as a policy's. Answers whether they were taken. */
  #takeIncoming(incoming: KvHint, rank: RankCapabilities, draft: Draft): boolean {
    const output = incoming.actions.map(({ action_type: type, action_version: version, payload }) => ({
      type,
      version,
      payload,
    }));
    return this.#settle(INCOMING, judgeOutput(output, limitsOf(draft, null, rank)), draft, 0);
  }

  /** Runs one policy; answers why nothing of it is in the envelope, or null when something is. */
  #runPolicy(
    hint: CreatedHint,
    { booking, rank, draft, copyLocations, base }: StageRun,
    committed: CommittedKvCopy | null,
  ): DropReason | 'nothing' | 'tripped' | null {
    const { clock } = this.#ports;
    const { guard } = hint;
    if (guard?.admits() === false) {
      draft.policies.push({ name: hint.name, result: 'skipped', reason: 'tripped', us: 0 });
      return 'tripped';
    }
    const limits = limitsOf(draft, hint.actions, rank);
    const startedAt = clock.now();
    const guardStartedAt = guard?.begin() ?? 0;
    const context = contextFor(base, hint, booking, copyLocations, committed);
    let verdict: readonly CheckedAction[] | DropReason;
    try {
      const output: unknown = hint.policy.buildHints(context as never);
      verdict = judgeOutput(output, limits);
    } catch (thrown) {
      verdict = 'threw';
      this.#complain(hint.name, verdict, errorText(thrown));
    }
    const micros = (clock.now() - startedAt) * 1000;
    guard?.end(guardStartedAt, isFailure(verdict, limits.room));
    const taken = this.#settle(hint.name, verdict, draft, micros);
    if (taken) return null;
    return typeof verdict === 'string' ? verdict : 'nothing';
  }

  /** Enters a verdict into the draft; answers whether the output was taken. */
  #settle(
    name: string,
    verdict: readonly CheckedAction[] | DropReason,
    draft: Draft,
    micros: number,
  ): boolean {
    const { metrics } = this.#ports;
    if (typeof verdict === 'string') {
      const failed = verdict === 'threw' ? { error_code: 'PM_PLUGIN_THREW' } : {};
      draft.policies.push({ name, result: 'dropped', reason: verdict, ...failed, us: micros });
      metrics.count('pointsman_hint_outputs_dropped_total', { policy: name, reason: verdict });
      this.#complain(name, verdict, null);
      return false;
    }
    if (verdict.length === 0) {
      draft.policies.push({ name, result: 'nothing', us: micros });
      return false;
    }
    for (const { type, version, payload, bytes } of verdict) {
      draft.bytes += bytes;
      const action = { action_type: type, action_version: version, payload };
      draft.actions.push({ action_id: `a${draft.actions.length + 1}`, ...action });
      draft.actionPolicies.push(name);
    }
    draft.policies.push({ name, result: 'sent', actions: verdict.length, us: micros });
    metrics.count('pointsman_hint_actions_total', { policy: name }, verdict.length);
    return true;
  }

  /** Says once per policy and reason what goes wrong; the counter tells how often. */
  #complain(policy: string, reason: DropReason, error: string | null): void {
    const key = `${policy}\u0000${reason}`;
    if (this.#complained.has(key)) return;
    this.#complained.add(key);
    this.#ports.log.warn('the actions of a hint policy were dropped', { policy, reason, error });
  }
}

/** Whether a verdict is the policy's own fault: not when others took the room, or when the rank does not take the action. */
function isFailure(verdict: readonly CheckedAction[] | DropReason, room: number): boolean {
  if (typeof verdict !== 'string' || verdict === 'unsupported_action') return false;
  return verdict !== 'no_room' || room === MAX_HINT_ACTIONS;
}

function failedCommit({ prefixBlocks, additionalBlocks }: CopyCommit, failure: CommitFailure): CommitOutcome {
  return { source: null, prefixBlocks, additionalBlocks, failure };
}

/** Written out: spreading into a literal costs more than the rest of a policy that asks for nothing. */
function limitsOf(
  { actions, bytes }: Draft,
  declared: ReadonlySet<string> | null,
  { actions: accepted }: RankCapabilities,
): OutputLimits {
  return {
    room: MAX_HINT_ACTIONS - actions.length,
    roomBytes: MAX_ENVELOPE_BYTES - bytes,
    declared,
    accepted,
  };
}

function envelope(messageId: string, actions: readonly KvHintAction[]): KvHint {
  return Object.freeze({
    protocol_version: '0.1',
    message_id: messageId,
    actions: Object.freeze(actions.map((action) => Object.freeze(action))),
  });
}
