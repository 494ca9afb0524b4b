// What a walk carries from one step to the next.
import type { Classification } from '../host/index.ts';
import type { StoredDecision } from '../observe/index.ts';
import type { commitFor } from './commits.ts';
import type { Exchange } from './exchange.ts';
import type { RoadRequest } from './types.ts';

/** What all bookings of a request share. */
export interface Walk {
  readonly exchange: Exchange;
  readonly request: RoadRequest;
  readonly classification: Classification | null;
}

/** What is known of a booking when its hint stage answers, then or later. */
export interface StagedBooking {
  readonly exchange: Exchange;
  readonly decision: StoredDecision | null;
  readonly predictedTokens: number | null;
  readonly policy: string;
  readonly requestId: string;
  readonly promptTokens: number;
  readonly blockSize: number;
  readonly commit: ReturnType<typeof commitFor>;
  readonly startedMicros: number;
}
