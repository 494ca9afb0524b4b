// What a walk carries from one step to the next.
import type { StoredDecision } from '../observe/index.ts';
import type { commitFor } from './commits.ts';
import type { Exchange } from './exchange.ts';
import type { HeldRequest } from './first-worker-hold.ts';

/** What all bookings of a request share. */
export type Walk = HeldRequest<Exchange>;

/** What is known of a booking when its hint stage answers, then or later. */
export interface StagedBooking {
  readonly exchange: Exchange;
  readonly decision: StoredDecision | null;
  readonly predictedTokens: number | null;
  readonly policy: string;
  /** Of its envelope, where no caller named another. */
  readonly messageId: string;
  readonly promptTokens: number;
  readonly blockSize: number;
  readonly commit: ReturnType<typeof commitFor>;
  readonly startedMicros: number;
}
