// What became of the hint actions that went out: with the response head, later by event, or never.
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { HintStageResult } from '../host/index.ts';
import type { Metrics, SentHintRecord, StoredDecision } from '../observe/index.ts';
import type { KvHint, KvHintAction } from '../plugin/index.ts';
import { jsonBytes } from './hint-size.ts';
import type { LateHintOutcome } from './types.ts';

/** One envelope under way. */
export class SentHints {
  readonly messageId: string;
  readonly #decision: StoredDecision | null;
  readonly #metrics: Metrics;
  /** Ids and `type@version`s of the actions, few in an envelope; not the actions, whose payloads may be large. */
  readonly #ids: readonly string[];
  readonly #types: readonly string[];
  /** Bit n: somebody reported on action n. An envelope has no more than a word has bits. */
  #reported = 0;

  constructor(hint: KvHint, decision: StoredDecision | null, metrics: Metrics) {
    this.messageId = hint.message_id;
    this.#decision = decision;
    this.#metrics = metrics;
    this.#ids = hint.actions.map((action) => action.action_id);
    this.#types = hint.actions.map(typeOf);
  }

  /**
   * Takes a report; one on an action that was not sent is ignored. A later report replaces an earlier one, except that what was
   * deferred may be told of before the deferral itself arrives.
   */
  report(
    actionId: string,
    outcome: NonNullable<SentHintRecord['outcome']>,
    blocksDone: number | null,
    reason: string | null,
  ): void {
    const at = this.#ids.indexOf(actionId);
    const type = this.#types[at];
    if (type === undefined || (outcome === 'deferred' && (this.#reported & (1 << at)) !== 0)) return;
    this.#reported |= 1 << at;
    this.#decision?.hintOutcome(actionId, outcome, blocksDone, reason);
    this.#metrics.count('pointsman_hint_outcomes_total', { type, outcome });
  }

  /** Outcomes that came with the head of the answer. */
  reportAll(outcomes: readonly ReportedHintOutcome[]): void {
    for (const { actionId, outcome, blocksDone, reason } of outcomes)
      this.report(actionId, outcome, blocksDone, reason);
  }

  /** The request ended: what was not reported on counts as unreported until something is heard. */
  ended(): void {
    for (let at = 0; at < this.#ids.length; at += 1) {
      if ((this.#reported & (1 << at)) === 0) this.report(this.#ids[at]!, 'unreported', null, null);
    }
  }
}

/** Envelopes by message id, those of ended requests among them for a while, because engines report late. */
export class HintOutcomes {
  readonly #byMessage = new Map<string, SentHints>();
  /** The envelopes that ended last, in a ring: a set would look through the places of all it let go of for its oldest. */
  readonly #ended: (SentHints | undefined)[] = [];
  readonly #endedLimit: number;
  #next = 0;

  /** @param endedLimit how many envelopes of ended requests can still be reported on. */
  constructor(endedLimit = 1024) {
    this.#endedLimit = endedLimit;
  }

  /** Envelopes that a report would reach. */
  get size(): number {
    return this.#byMessage.size;
  }

  /** An envelope goes out. Of two with the same message id the newer gets the reports. */
  sent(hints: SentHints): void {
    this.#byMessage.set(hints.messageId, hints);
  }

  /** The request of an envelope ended. */
  ended(hints: SentHints): void {
    hints.ended();
    if (this.#byMessage.get(hints.messageId) !== hints) return;
    const oldest = this.#ended[this.#next];
    if (oldest !== undefined && this.#byMessage.get(oldest.messageId) === oldest)
      this.#byMessage.delete(oldest.messageId);
    this.#ended[this.#next] = hints;
    this.#next = (this.#next + 1) % this.#endedLimit;
  }

  /** Takes a late report. */
  report({ messageId, actionId, outcome, reason, blocks }: LateHintOutcome): void {
    this.#byMessage.get(messageId)?.report(actionId, outcome, blocks, reason);
  }
}

/** Actions of an envelope as the decision record lists them. */
export function sentHintRecords(result: HintStageResult): SentHintRecord[] {
  const actions = result.hint?.actions ?? [];
  return actions.map((action, index) => ({
    action_id: action.action_id,
    type: typeOf(action),
    policy: result.actionPolicies[index] ?? 'incoming',
    bytes: jsonBytes(action.payload),
    outcome: null,
    reason: null,
    blocks_done: null,
  }));
}

function typeOf({ action_type, action_version }: KvHintAction): string {
  return `${action_type}@${action_version}`;
}
