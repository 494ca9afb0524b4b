// How a classification fails, as the client hears of it. Only a refusal carries words of the classifier, as its author meant them for
// the client; all other texts are fixed.
import { CapacityExhausted, PointsmanError, RateLimited } from '../plugin/index.ts';
import { InvalidOverrides } from './classifier-overrides.ts';

const MAX_MESSAGE = 256;
const MAX_RETRY_SECONDS = 86_400;

/** The refusal in what `classify` threw, made anew; null = it failed. Never throws. */
export function refusalOf(thrown: unknown, classifier: string): PointsmanError | null {
  try {
    if (thrown instanceof RateLimited) {
      const seconds: unknown = thrown.retryAfterSeconds;
      const message = messageOf(thrown, 'this sender has used up its share; send the request again later');
      return new PointsmanError('PM_CLASSIFIER_RATE_LIMITED', message, {
        details: { classifier, retry_after: String(wholeSeconds(seconds)) },
      });
    }
    if (thrown instanceof CapacityExhausted) {
      const message = messageOf(thrown, 'there is no room for this request now; send it again later');
      return new PointsmanError('PM_CLASSIFIER_CAPACITY', message, {
        details: { classifier, retry_after: '1' },
      });
    }
  } catch {
    // Poisoned: what cannot be read is no refusal.
  }
  return null;
}

/** The error of a request whose classification failed; its cause is for the log. */
export function classifierFailed(thrown: unknown, classifier: string): PointsmanError {
  const invalid = isInvalid(thrown);
  return new PointsmanError(
    invalid ? 'PM_CLASSIFIER_INVALID' : 'PM_CLASSIFIER_THREW',
    'the request classifier failed, so the request was not routed; send it again',
    { cause: thrown, details: { classifier } },
  );
}

function isInvalid(thrown: unknown): boolean {
  try {
    return thrown instanceof InvalidOverrides;
  } catch {
    // A proxy that refuses to be looked at: whoever made it, we did not.
    return false;
  }
}

/** The classifier took too long. */
export function classifierTimedOut(classifier: string): PointsmanError {
  return new PointsmanError(
    'PM_CLASSIFIER_TIMEOUT',
    'the request waited too long for its classification; send it again',
    { details: { classifier } },
  );
}

/** The classifier is skipped, and requests are refused meanwhile. */
export function classifierTripped(classifier: string): PointsmanError {
  return new PointsmanError(
    'PM_CLASSIFIER_TRIPPED',
    'the request classifier is skipped for a while, and requests are refused until it is back; send the request again later',
    { details: { classifier } },
  );
}

/** Two requests with one id. */
export function duplicateRequest(classifier: string): PointsmanError {
  return new PointsmanError(
    'PM_CLASSIFIER_DUPLICATE_ID',
    'a request with the same id is under way; send it with another id, or when that one has ended',
    { details: { classifier } },
  );
}

/** The router stops, or took another classifier in use, while the request waited. */
export function classifierClosed(): PointsmanError {
  return new PointsmanError('PM_SHUTTING_DOWN', 'this router is stopping; send the request elsewhere');
}

function wholeSeconds(seconds: unknown): number {
  if (typeof seconds !== 'number' || Number.isNaN(seconds)) return 1;
  return Math.min(MAX_RETRY_SECONDS, Math.max(1, Math.ceil(seconds)));
}

function messageOf(thrown: Error, fallback: string): string {
  const message: unknown = thrown.message;
  if (typeof message !== 'string' || message === '') return fallback;
  // Control characters have no place in an answer or a log line.
  return message.slice(0, MAX_MESSAGE).replaceAll(/\p{Cc}/gu, ' ');
}
