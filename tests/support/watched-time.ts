// Virtual time whose planned engine wake-ups can be seen.
import { VirtualTime } from '../../src/simulator/index.ts';

/** Notes what engines and timers wait for; arrivals and messages between engines are left out. */
export class WatchedTime extends VirtualTime {
  readonly #waiting = new Set<{ readonly at: number }>();

  /** Times of all planned wake-ups, ascending. */
  wakeUps(): number[] {
    return [...this.#waiting].map(({ at }) => at).sort((a, b) => a - b);
  }

  override plan(at: number, kind: Parameters<VirtualTime['plan']>[1], callback: () => void): () => void {
    if (kind === 'arrival' || kind === 'message') return super.plan(at, kind, callback);
    const entry = { at: Math.max(at, this.now()) };
    this.#waiting.add(entry);
    const cancel = super.plan(at, kind, () => {
      this.#waiting.delete(entry);
      callback();
    });
    return () => {
      this.#waiting.delete(entry);
      cancel();
    };
  }

  /** By `plan`, so that it is noted too. */
  override recurring(
    kind: Parameters<VirtualTime['plan']>[1],
    callback: () => void,
  ): ReturnType<VirtualTime['recurring']> {
    let cancel = (): void => {};
    return {
      cancel: () => cancel(),
      plan: (at) => {
        cancel();
        cancel = this.plan(at, kind, callback);
      },
    };
  }
}
