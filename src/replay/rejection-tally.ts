// Hint actions that engines refused during a run, by the policy that sent them: engines know an action by its id alone.
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { DecisionRecord } from '../observe/index.ts';
import type { KvHint } from '../plugin/index.ts';
import type { HintRejection } from './types.ts';

/** Counts them. */
export class RejectionTally {
  /** Policies of the actions under way, by message and action id. */
  readonly #senders = new Map<string, ReadonlyMap<string, string>>();
  readonly #counts = new Map<string, { -readonly [K in keyof HintRejection]: HintRejection[K] }>();

  /** Notes who sent what. */
  booked({ hints }: DecisionRecord): void {
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
      if (outcome !== 'rejected') continue;
      const sent = actions.find(({ action_id }) => action_id === actionId);
      const policy = senders?.get(actionId) ?? '';
      const action = sent === undefined ? '' : `${sent.action_type}@${sent.action_version}`;
      const key = JSON.stringify([policy, action, reason]);
      const known = this.#counts.get(key);
      if (known === undefined) this.#counts.set(key, { policy, action, reason, count: 1 });
      else known.count += 1;
    }
  }

  /** In the order of their first appearance; null when there are none. */
  report(): readonly HintRejection[] | null {
    return this.#counts.size === 0 ? null : [...this.#counts.values()].map((one) => ({ ...one }));
  }
}
