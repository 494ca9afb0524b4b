// What an exchange knows of its booking.
import type { GenerationHold } from '../host/index.ts';
import type { OwnerSlot, PromptHashes } from '../kv/index.ts';
import type { StoredDecision } from '../observe/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import type { RoadState } from './road-state.ts';

/** What booking tells an exchange. */
export interface ExchangeBooking {
  readonly attempt: number;
  readonly workerId: WorkerId;
  readonly slot: OwnerSlot;
  readonly blockSize: number;
  /** Of the prompt's full blocks; null = not known. */
  readonly hashes: PromptHashes | null;
  readonly decision: StoredDecision | null;
  /** Cached tokens expected; null = no prediction. */
  readonly predictedTokens: number | null;
  /** Of these, tokens in host memory. */
  readonly predictedHostTokens: number;
  /** The policies that made the booking, held until it is released; null or absent = nothing to hold. */
  readonly hold?: GenerationHold | null;
}

/** The request goes to the booked rank next: from now on it is believed to hold the prompt. */
export function noteSent({ beliefs, clock }: RoadState, booking: ExchangeBooking): void {
  const { attempt, hashes, slot } = booking;
  if (hashes !== null) beliefs?.sent(slot, attempt, hashes.local, hashes.sequence, clock.now());
}
