// Says in the log when engines turn a policy's actions down: once per policy, action and reason, as the counter tells how often.
import type { Logger } from '../plugin/index.ts';

/** Engines choose the reason's words: of more than so many combinations nothing is said. */
const MOST_COMPLAINTS = 256;

/** What was said so far. */
export class HintRejections {
  readonly #log: Logger;
  readonly #made = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param reason the engine's word, fit for a record; null = it gave none. */
  rejected(policy: string, action: string, reason: string | null): void {
    const key = `${policy}\n${action}\n${reason}`;
    if (this.#made.has(key) || this.#made.size >= MOST_COMPLAINTS) return;
    this.#made.add(key);
    this.#log.warn('an engine rejects an action of a hint policy', { policy, action, reason });
  }
}
