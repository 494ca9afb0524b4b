// What a walk carries of the queue: what a request counted for, and what need not be computed again when its turn comes.
import type { PromptHashes } from '../kv/index.ts';
import type { PointsmanError } from '../plugin/index.ts';

/** How a request passed the queue. */
export interface QueueFacts {
  readonly policyClass: string;
  /** Bucket of uncached tokens that its class stands for; null = its class has none. */
  readonly bucket: string | null;
  /** What its turn cost, in tokens; null = it went on without one, and nobody counted. */
  readonly costTokens: number | null;
  /** Since when it waited, ms of the clock; null = it went on at once. */
  readonly queuedSince: number | null;
}

/** What becomes of a request that comes to the queue. */
export type QueueOutcome =
  /** `facts` null = its model has no queue. */
  | { readonly kind: 'goes'; readonly facts: QueueFacts | null }
  | { readonly kind: 'waits' }
  | { readonly kind: 'refused'; readonly error: PointsmanError };

/** Hashes of a prompt and what they were made with: under the same they hold later, too. */
export interface KnownHashes {
  readonly hashes: PromptHashes;
  readonly blockSize: number;
  readonly bigrams: boolean;
}

/** Their bytes; 0 without any. */
export function hashBytes(known: KnownHashes | null): number {
  return known === null ? 0 : known.hashes.local.byteLength + known.hashes.sequence.byteLength;
}
