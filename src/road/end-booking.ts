// The end of a booking: load and policies let go, beliefs corrected, the report counted, the record completed.
import type { EngineReport } from '../engines/index.ts';
import type { ReleaseReason } from '../observe/index.ts';
import type { ErrorCode } from '../plugin/index.ts';
import { isChoiceOnly, promptTokensOf } from './caller-part.ts';
import { countReport, reportRecord } from './count-report.ts';
import type { ExchangeBooking } from './exchange-booking.ts';
import { reportedBlocks } from './prediction.ts';
import { computesPrompt, isAside } from './request-leg.ts';
import type { RoadState } from './road-state.ts';
import type { SentHints } from './sent-hints.ts';
import type { RoadRequest } from './types.ts';

/** Status that stands in the record for a request whose client went away; nobody is answered with it. */
export const CLIENT_GONE = 499;

/** Status that stands in the record of a booking given up for its commit; its request goes on with another. */
const COMMIT_RELEASED = 409;

/** What is known of an exchange at its end. */
export interface BookingEnd {
  readonly request: RoadRequest;
  readonly reason: ReleaseReason;
  readonly status: number;
  /** Why it failed; null = it did not. */
  readonly code: ErrorCode | null;
  /** Tries of the request before this one. */
  readonly retries: number;
  /** The engine's; null = it did not finish. */
  readonly report: EngineReport | null;
  /** Whether any token of output came. */
  readonly generated: boolean;
  /** Tokens of output that came. */
  readonly outputTokens: number;
  readonly hints: SentHints | null;
  readonly predictedTokens: number | null;
  /** Lets go of what is waited for; null = nothing is. */
  readonly stopWaiting: (() => void) | null;
}

/** Ends a booking; call once. */
export function endBooking(state: RoadState, booking: ExchangeBooking, end: BookingEnd): void {
  const { scheduler, decisions, hintOutcomes, beliefs, clock } = state;
  const { request, reason, status, retries, report, hints } = end;
  const now = clock.now();
  const { outputTokens } = end;
  if (status < 400 && report !== null)
    scheduler.answered(booking.attempt, report.outputTokens ?? outputTokens);
  scheduler.release(booking.attempt);
  // With its first token the prompt was computed, and that was told.
  if (!end.generated) state.loadFell(booking.workerId);
  booking.hold?.release();
  booking.binding?.ended(end.code);
  end.stopWaiting?.();
  const computed = end.generated || (report !== null && status < 400);
  const cachedBlocks = reportedBlocks(
    report?.cachedTokens ?? null,
    promptTokensOf(request),
    booking.blockSize,
  );
  beliefs?.ended(booking.attempt, { computed, cachedBlocks }, now);
  if (hints !== null) hintOutcomes.ended(hints);
  // An engine that refused has computed nothing.
  if (report !== null && computed && computesPrompt(request.leg))
    countReport(state, request, booking, end.predictedTokens, report);
  if (booking.decision === null) return;
  booking.decision.released(reason, now);
  decisions?.complete(booking.decision, {
    status,
    retries,
    finish: report?.finishReason ?? null,
    endMs: now,
    report: report === null ? null : reportRecord(report),
  });
}

/** Ends a booking of which nothing was dispatched, as its committed copy cannot be sent; call once. */
export function endUnsentBooking(
  { scheduler, decisions, clock, loadFell }: RoadState,
  booking: ExchangeBooking,
): void {
  const now = clock.now();
  scheduler.release(booking.attempt);
  loadFell(booking.workerId);
  booking.hold?.release();
  if (booking.decision === null) return;
  booking.decision.released('commit_failed', now);
  decisions?.complete(booking.decision, { status: COMMIT_RELEASED, finish: null, endMs: now, report: null });
}

/** A request, or a try of it, is over; `goesOn` = another try follows. With its final request a session ends, whatever became of that. */
export function leaveRoad(state: RoadState, request: RoadRequest, goesOn: boolean): void {
  if (isAside(request)) return;
  state.underWay -= 1;
  if (!goesOn && !isChoiceOnly(request)) state.sessions?.ended(request);
}
