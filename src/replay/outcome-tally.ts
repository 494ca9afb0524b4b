// What became of the hint actions of a run: as engines answered with the head, and of deferred ones what their events told later.
// Rejections count by the policy that sent the action: engines know it by its id alone.
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { KvEvent, KvHintOutcomeEvent } from '../events/index.ts';
import type { DecisionBooking } from '../observe/index.ts';
import type { KvHint } from '../plugin/index.ts';
import type { HintRejection } from './types.ts';

/** An action, and who sent it. */
type Sent = Pick<HintRejection, 'policy' | 'action'>;

/** Counts them. */
export class OutcomeTally {
  /** Policies of the actions under way, by message and action id. */
  readonly #senders = new Map<string, ReadonlyMap<string, string>>();
  /** Deferred actions that nothing was told of since, by message and action id. */
  readonly #deferred = new Map<string, Sent>();
  readonly #outcomes = new Map<string, number>();
  readonly #rejections = new Map<string, { -readonly [K in keyof HintRejection]: HintRejection[K] }>();

  /** Notes who sent what. */
  booked({ hints }: DecisionBooking): void {
    if (hints === null || hints.sent.length === 0) return;
    this.#senders.set(
      hints.message_id,
      new Map(hints.sent.map(({ action_id, policy }) => [action_id, policy])),
    );
  }

  /** The engine's answer to an envelope. */
  answered({ actions, message_id }: KvHint, outcomes: readonly ReportedHintOutcome[]): void {
    const senders = this.#senders.get(message_id);
    this.#senders.delete(message_id);
    for (const { actionId, outcome, reason } of outcomes) {
      const action = actions.find(({ action_id }) => action_id === actionId);
      const sent = {
        policy: senders?.get(actionId) ?? '',
        action: action === undefined ? '' : `${action.action_type}@${action.action_version}`,
      };
      if (outcome === 'deferred') this.#deferred.set(keyOf(message_id, actionId), sent);
      this.#count(sent, outcome, reason);
    }
  }

  /** KV events of an engine. What is told of a retain once its blocks are kept changes nothing here. */
  events(events: readonly KvEvent[]): void {
    for (const event of events) if (event.kind === 'hint-outcome') this.#late(event);
  }

  /** Actions by outcome, in alphabetical order; `deferred` = nothing was told of them any more. */
  outcomes(): Readonly<Record<string, number>> {
    return Object.fromEntries(
      [...this.#outcomes].filter(([, count]) => count > 0).sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  }

  /** In the order of their first appearance; null when there are none. */
  rejections(): readonly HintRejection[] | null {
    return this.#rejections.size === 0 ? null : [...this.#rejections.values()].map((one) => ({ ...one }));
  }

  #late({ actionId, messageId, outcome, reason }: KvHintOutcomeEvent): void {
    const key = keyOf(messageId, actionId);
    const sent = this.#deferred.get(key);
    if (sent === undefined || outcome === 'deferred') return;
    this.#deferred.delete(key);
    this.#outcomes.set('deferred', (this.#outcomes.get('deferred') ?? 0) - 1);
    this.#count(sent, outcome, reason);
  }

  #count({ action, policy }: Sent, outcome: string, reason: string | null): void {
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    if (outcome !== 'rejected') return;
    const key = JSON.stringify([policy, action, reason]);
    const known = this.#rejections.get(key);
    if (known === undefined) this.#rejections.set(key, { policy, action, reason, count: 1 });
    else known.count += 1;
  }
}

function keyOf(messageId: string, actionId: string): string {
  return JSON.stringify([messageId, actionId]);
}
