// What plugins do at load and at the end may take time, but not forever: a start must end with an error, and a stop must end.
import { type Clock, errorText, type Logger, PointsmanError } from '../plugin/index.ts';

/** A module's import, its register function, and each check of parameters get this long, in ms. */
export const LOAD_LIMIT_MS = 30_000;

/** All disposers together get this long, in ms. */
export const DISPOSE_LIMIT_MS = 5_000;

/**
 * The promise, unless it takes longer than `limitMs`; then nobody waits for it any more, whatever comes of it.
 * @param what names what is waited for, as the subject of the error's sentence.
 * @throws PointsmanError PM_PLUGIN_LOAD when the time is over.
 */
export function withinLimit<T>(
  clock: Clock,
  limitMs: number,
  what: string,
  promise: T | PromiseLike<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.schedule(limitMs, () => {
      reject(
        new PointsmanError(
          'PM_PLUGIN_LOAD',
          `${what} did not end within ${limitMs / 1000} s; it waits for something that does not come`,
        ),
      );
    });
    Promise.resolve(promise).then(
      (value) => {
        cancel();
        resolve(value);
      },
      (thrown: unknown) => {
        cancel();
        reject(thrown);
      },
    );
  });
}

/** Waits for disposers, but not beyond {@link DISPOSE_LIMIT_MS}: the log says so, and the wait ends. */
export async function disposedInTime(clock: Clock, log: Logger, disposing: Promise<unknown>): Promise<void> {
  await withinLimit(clock, DISPOSE_LIMIT_MS, 'disposing the policies', disposing).catch((thrown: unknown) =>
    log.warn(errorText(thrown)),
  );
}
