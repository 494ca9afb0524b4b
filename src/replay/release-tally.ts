// Blocks that engines gave up because a `kv.evict` of a hint said so: told with the answer's head, or in the events when the action was
// to wait for the request's end.
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import type { KvHint } from '../plugin/index.ts';

/** Counts them. */
export class ReleaseTally {
  /** Evictions whose outcome is still to come, by message and action id. */
  readonly #awaited = new Set<string>();
  #blocks = 0;

  get blocks(): number {
    return this.#blocks;
  }

  /** The engine's answer to an envelope. */
  answered({ actions, message_id }: KvHint, outcomes: readonly ReportedHintOutcome[]): void {
    for (const { action_id, action_type } of actions) {
      if (action_type !== 'kv.evict') continue;
      const told = outcomes.find(({ actionId }) => actionId === action_id);
      if (told === undefined || told.outcome === 'deferred') this.#awaited.add(keyOf(message_id, action_id));
      else this.#blocks += told.blocksDone ?? 0;
    }
  }

  /** KV events of an engine. */
  events(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind !== 'hint-outcome') continue;
      if (this.#awaited.delete(keyOf(event.messageId, event.actionId))) this.#blocks += event.blocks ?? 0;
    }
  }
}

function keyOf(messageId: string, actionId: string): string {
  return JSON.stringify([messageId, actionId]);
}
