// What an exchange knows of its booking.
import type { GenerationHold } from '../host/index.ts';
import type { OwnerSlot, PromptHashes } from '../kv/index.ts';
import type { StoredDecision } from '../observe/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import type { SessionBinding } from '../scheduling/index.ts';
import { isOneOfTwo } from './request-leg.ts';
import type { RoadState } from './road-state.ts';
import type { RoadRequest } from './types.ts';

/** What booking tells an exchange. */
export interface ExchangeBooking {
  readonly attempt: number;
  readonly workerId: WorkerId;
  readonly rank: number;
  readonly slot: OwnerSlot;
  readonly blockSize: number;
  /** Of the prompt's full blocks; null = not known. */
  readonly hashes: PromptHashes | null;
  readonly decision: StoredDecision | null;
  /** Cached tokens expected; null = no prediction. */
  readonly predictedTokens: number | null;
  /** Of these, tokens in host memory. */
  readonly predictedHostTokens: number;
  /** ms of the clock; absent = nobody asks. */
  readonly bookedAt?: number;
  /** The policies that made the booking, held until it is released; null or absent = nothing to hold. */
  readonly hold?: GenerationHold | null;
  /** The binding of its session; null or absent = it has none. */
  readonly binding?: SessionBinding | null;
}

/** Whether a request that failed may be tried on another worker. */
export function mayGoElsewhere(request: RoadRequest, booking: ExchangeBooking | null): boolean {
  return !isOneOfTwo(request) && booking?.binding?.exact !== true;
}

/** The request goes to the booked rank next: from now on it is believed to hold the prompt. */
export function noteSent({ beliefs, clock }: RoadState, booking: ExchangeBooking): void {
  const { attempt, hashes, slot } = booking;
  if (hashes !== null) beliefs?.sent(slot, attempt, hashes.local, hashes.sequence, clock.now());
}
