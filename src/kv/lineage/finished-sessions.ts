// Sessions that were said to be over, for a while: engines tell of stored blocks later than clients of the end, and a session must not come
// back to life by that.
import type { SessionKey } from './types.ts';

/** As many ends as engines that know sessions remember. */
const MOST = 8192;

/** The sessions that ended last. */
export class FinishedSessions {
  readonly #keys = new Set<SessionKey>();

  has(session: SessionKey): boolean {
    return this.#keys.has(session);
  }

  /** Notes an end; with too many the earliest is forgotten. */
  add(session: SessionKey): void {
    this.#keys.delete(session);
    this.#keys.add(session);
    if (this.#keys.size <= MOST) return;
    for (const earliest of this.#keys) {
      this.#keys.delete(earliest);
      return;
    }
  }

  /** The session goes on after all. */
  delete(session: SessionKey): void {
    if (this.#keys.size > 0) this.#keys.delete(session);
  }
}
