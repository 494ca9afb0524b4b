// How a request classifier refuses a request, as opposed to failing: errors with a brand of their own, so that one thrown with
// another copy of the package is known.
import { PointsmanError } from './errors.ts';

const CAPACITY: unique symbol = Symbol.for('pointsman.refusal.capacity-exhausted') as never;
const RATE: unique symbol = Symbol.for('pointsman.refusal.rate-limited') as never;

/**
 * Thrown by `classify`: there is no room for this request now. The client gets `limits.overload_status` (429) with `Retry-After: 1`.
 *
 * @example
 * throw new CapacityExhausted('tenant a has 8 requests under way');
 */
export class CapacityExhausted extends PointsmanError {
  /** @param message what the client reads, at most 256 characters of it; never a secret. */
  constructor(message: string = 'there is no room for this request now; send it again later') {
    super('PM_CLASSIFIER_CAPACITY', message);
    this.name = 'CapacityExhausted';
    Object.defineProperty(this, CAPACITY, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isMarked(value, CAPACITY);
  }
}

/**
 * Thrown by `classify`: its sender has used up its share. The client gets 429 with `Retry-After`.
 *
 * @example
 * throw new RateLimited(2.5, 'tenant a may go on in 3 s');
 */
export class RateLimited extends PointsmanError {
  /** Seconds until it is worth trying again. */
  readonly retryAfterSeconds: number;

  /**
   * @param retryAfterSeconds sent rounded up to whole seconds, from 1 to 86,400; what is no positive number counts as 1
   * @param message as of {@link CapacityExhausted}
   */
  constructor(
    retryAfterSeconds: number,
    message: string = 'this sender has used up its share; send the request again later',
  ) {
    super('PM_CLASSIFIER_RATE_LIMITED', message);
    this.name = 'RateLimited';
    this.retryAfterSeconds = retryAfterSeconds;
    Object.defineProperty(this, RATE, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isMarked(value, RATE);
  }
}

function isMarked(value: unknown, mark: symbol): boolean {
  try {
    return typeof value === 'object' && value !== null && mark in value;
  } catch {
    // A proxy that refuses to be looked at.
    return false;
  }
}
