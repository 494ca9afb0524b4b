// Counts what an engine reported of a request: predicted against reported cached tokens, and what it had to compute.
import type { EngineReport } from '../engines/index.ts';
import type { DecisionRecord } from '../observe/index.ts';
import { promptTokensOf } from './caller-part.ts';
import type { ExchangeBooking } from './exchange-booking.ts';
import type { RoadState } from './road-state.ts';
import type { RoadRequest } from './types.ts';

/** @param predictedTokens cached tokens that were expected; null = no prediction. */
export function countReport(
  { answered, clock, metrics, computedBlocks, labelsOf }: RoadState,
  request: RoadRequest,
  booking: ExchangeBooking,
  predictedTokens: number | null,
  report: EngineReport,
): void {
  const { workerId, blockSize, predictedHostTokens: host, predictedTokens: resident } = booking;
  const promptTokens = report.promptTokens ?? promptTokensOf(request);
  const cachedBlocks = Math.ceil((report.cachedTokens ?? 0) / blockSize);
  computedBlocks?.(workerId, Math.max(0, Math.floor(promptTokens / blockSize) - cachedBlocks));
  const { model: labels, tiers } = labelsOf(request.partition.model);
  metrics.count('pointsman_prompt_tokens_total', labels, promptTokens);
  if (predictedTokens !== null) {
    metrics.count('pointsman_predicted_cached_tokens_total', labels, predictedTokens);
    const name = 'pointsman_predicted_cached_tokens_by_tier_total';
    metrics.count(name, tiers.device, (resident ?? 0) - host);
    metrics.count(name, tiers.host, host);
    metrics.count(name, tiers.hint, predictedTokens - (resident ?? 0));
  }
  if (report.cachedTokens !== null) {
    metrics.count('pointsman_reported_cached_tokens_total', labels, report.cachedTokens);
  }
  if (answered === null || (request.caller ?? null) !== null) return;
  // What a hint was to bring is no matter of what the engine announced.
  const isPlain = predictedTokens === resident;
  answered({
    worker: workerId,
    slot: booking.slot,
    tokens: request.tokens,
    isExact: request.tokensSource !== 'estimate',
    blockSize,
    loraName: request.loraName,
    cacheSalt: request.cacheSalt,
    predictedTokens: isPlain ? predictedTokens : null,
    promptTokens: report.promptTokens,
    cachedTokens: report.cachedTokens,
    sentAt: booking.bookedAt ?? clock.now(),
    engineIds: report.promptTokenIds ?? null,
  });
}

/** What an engine reported, as the record has it. */
export function reportRecord(report: EngineReport): NonNullable<DecisionRecord['report']> {
  return {
    cached_tokens: report.cachedTokens,
    prompt_tokens: report.promptTokens,
    output_tokens: report.outputTokens,
    source: report.source,
  };
}
