// An envelope in the making: what a policy may still put in, what was taken of whom, and what is counted and logged of the rest.
import type { Metrics } from '../observe/index.ts';
import { type KvHint, type KvHintAction, type Logger, MAX_HINT_ACTIONS } from '../plugin/index.ts';
import {
  type CheckedAction,
  type DropReason,
  judgeOutput,
  type NamedActions,
  type OutputLimits,
  refusalText,
} from './hint-output.ts';
import { MAX_ENVELOPE_BYTES } from './hint-payload.ts';
import type { CommitFailure, CommitOutcome, CopyCommit, HintPolicyResult, HintStageResult } from './types.ts';

/** Name under which a trusted caller's envelope stands in records. */
export const INCOMING = 'incoming';

/** What a policy's output came to: its actions, or why there are none. */
export type Verdict = readonly CheckedAction[] | DropReason;

/** Ids of an envelope's actions in their order. */
const ACTION_IDS: readonly string[] = Array.from({ length: MAX_HINT_ACTIONS }, (_, at) => `a${at + 1}`);

/** Room of an empty envelope. */
export const WHOLE_ROOM: Pick<OutputLimits, 'room' | 'roomBytes'> = {
  room: MAX_HINT_ACTIONS,
  roomBytes: MAX_ENVELOPE_BYTES,
};

/** Says once per policy and reason what goes wrong; the counter tells how often. */
export class HintComplaints {
  readonly #log: Logger;
  readonly #made = new Set<string>();
  readonly #named: NamedActions = { names: [], fault: '' };

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Judges an output, of a policy or of a trusted caller; the log hears what was wrong with it. */
  judgeOutput(output: unknown, limits: OutputLimits, policy: string = INCOMING): Verdict {
    const verdict = judgeOutput(output, limits, this.#named);
    if (typeof verdict === 'string') {
      this.complain(policy, verdict, refusalText(verdict, this.#named, limits));
    }
    return verdict;
  }

  complain(policy: string, reason: DropReason, error: string | null): void {
    const key = `${policy}\u0000${reason}`;
    if (this.#made.has(key)) return;
    this.#made.add(key);
    this.#log.warn('the actions of a hint policy were dropped', { policy, reason, error });
  }
}

/** The draft of one booking. */
export class HintDraft {
  readonly #metrics: Metrics;
  readonly #complaints: HintComplaints;
  // Null = none yet: lists are made with their first entry, as one that begins empty takes room for many.
  #actions: KvHintAction[] | null = null;
  #actionPolicies: string[] | null = null;
  #policies: HintPolicyResult[] | null = null;
  /** Of all payloads so far. */
  #bytes = 0;

  constructor(metrics: Metrics, complaints: HintComplaints) {
    this.#metrics = metrics;
    this.#complaints = complaints;
  }

  /** What the envelope still takes. Written out: spreading costs more than a policy that asks for nothing. */
  limitsFor(declared: ReadonlySet<string> | null, accepted: ReadonlySet<string> | null): OutputLimits {
    const room = MAX_HINT_ACTIONS - this.#taken;
    return { room, roomBytes: MAX_ENVELOPE_BYTES - this.#bytes, declared, accepted };
  }

  /** Notes that a policy was not called. */
  skip(name: string, reason: 'tripped' | 'restarting'): void {
    this.#note({ name, result: 'skipped', reason, us: 0 });
  }

  /**
   * Enters a verdict; answers whether the output was taken. One judged by more room than is left is dropped for it.
   * @param offered what may be why it has no actions; null = not known
   */
  settle(name: string, judged: Verdict, micros: number, offered: 'no_copy_source' | null = null): boolean {
    const verdict = typeof judged === 'string' || this.#fits(judged) ? judged : 'no_room';
    if (typeof verdict === 'string') {
      const failed = verdict === 'threw' ? { error_code: 'PM_PLUGIN_THREW' } : {};
      this.#note({ name, result: 'dropped', reason: verdict, ...failed, us: micros });
      this.#metrics.count('pointsman_hint_outputs_dropped_total', { policy: name, reason: verdict });
      this.#complaints.complain(name, verdict, null);
      return false;
    }
    if (verdict.length === 0) {
      this.#note(
        offered === null
          ? { name, result: 'nothing', us: micros }
          : { name, result: 'nothing', reason: offered, us: micros },
      );
      return false;
    }
    for (const action of verdict) this.#enter(action, name);
    this.#note({ name, result: 'sent', actions: verdict.length, us: micros });
    this.#metrics.count('pointsman_hint_actions_total', { policy: name }, verdict.length);
    return true;
  }

  /** A trusted caller's actions come first, under the same rules as a policy's. Answers whether they were taken. */
  takeIncoming(incoming: KvHint, accepted: ReadonlySet<string> | null): boolean {
    const output = incoming.actions.map(({ action_type: type, action_version: version, payload }) => ({
      type,
      version,
      payload,
    }));
    return this.settle(INCOMING, this.#complaints.judgeOutput(output, this.limitsFor(null, accepted)), 0);
  }

  /** @param messageId null = nothing is sent, whatever the draft holds. */
  result(messageId: string | null, commit: CommitOutcome | null): HintStageResult {
    const actions = this.#actions;
    return {
      hint:
        messageId === null || actions === null
          ? null
          : { protocol_version: '0.1', message_id: messageId, actions },
      capable: true,
      policies: this.#policies ?? [],
      actionPolicies: this.#actionPolicies ?? [],
      commit,
    };
  }

  /** Actions in the envelope so far. */
  get #taken(): number {
    return this.#actions?.length ?? 0;
  }

  #note(result: HintPolicyResult): void {
    if (this.#policies === null) this.#policies = [result];
    else this.#policies.push(result);
  }

  /** Member by member: spreading costs several times as much. */
  #enter({ type, version, payload, bytes }: CheckedAction, policy: string): void {
    this.#bytes += bytes;
    const id = ACTION_IDS[this.#taken]!;
    const action = { action_id: id, action_type: type, action_version: version, payload };
    if (this.#actions === null) this.#actions = [action];
    else this.#actions.push(action);
    if (this.#actionPolicies === null) this.#actionPolicies = [policy];
    else this.#actionPolicies.push(policy);
  }

  #fits(actions: readonly CheckedAction[]): boolean {
    let bytes = this.#bytes;
    for (const action of actions) bytes += action.bytes;
    return this.#taken + actions.length <= MAX_HINT_ACTIONS && bytes <= MAX_ENVELOPE_BYTES;
  }
}

/** Whether a verdict is the policy's own fault: not when others took the room, or when the rank does not take the action. */
export function isFailure(verdict: Verdict, room: number): boolean {
  if (typeof verdict !== 'string' || verdict === 'unsupported_action') return false;
  return verdict !== 'no_room' || room === MAX_HINT_ACTIONS;
}

/** A commit that failed before a source was looked for. */
export function failedCommit(
  { prefixBlocks, additionalBlocks }: CopyCommit,
  failure: CommitFailure,
): CommitOutcome {
  return { source: null, prefixBlocks, additionalBlocks, failure };
}

/** Result for a rank that takes no hints. */
export function notCapable(commit: CopyCommit | null): HintStageResult {
  return commit === null ? NOT_CAPABLE : { ...NOT_CAPABLE, commit: failedCommit(commit, 'not_capable') };
}

const NOT_CAPABLE: HintStageResult = Object.freeze({
  hint: null,
  capable: false,
  policies: [],
  actionPolicies: [],
});

/** Result for a rank that takes hints when nobody has any. */
export const NOTHING_TO_RUN: HintStageResult = Object.freeze({ ...NOT_CAPABLE, capable: true, commit: null });
