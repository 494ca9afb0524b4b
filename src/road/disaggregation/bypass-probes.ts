// Looks at what would be chosen for both legs of a request, booking nothing, and asks the bypass rules. What goes wrong in deciding
// leaves the request on its usual way.

import type { ConditionalDisaggregation } from '../../config/index.ts';
import { maxNumBatchedTokensOf, totalKvBlocksOf } from '../../fleet/index.ts';
import { PointsmanError, type WorkerRank } from '../../plugin/index.ts';
import type { Placement } from '../../scheduling/index.ts';
import { placementRequest } from '../placement-request.ts';
import { type LookupDeps, PromptLookups } from '../prompt-lookup.ts';
import type { RoadDeps } from '../road-deps.ts';
import type { RoadRequest } from '../types.ts';
import { type BypassReason, bypassReason, type PrefillFacts } from './bypass-rules.ts';

/** A prompt that stays with this decode rank. */
export interface Bypass {
  readonly reason: BypassReason;
  readonly rank: WorkerRank;
}

/** What probes work with. */
type ProbeDeps = LookupDeps & Pick<RoadDeps, 'scheduler' | 'mode' | 'sessions' | 'affinity'>;

/** Decides about bypasses. */
export class BypassProbes {
  readonly #deps: ProbeDeps;
  readonly #lookups: PromptLookups;

  constructor(deps: ProbeDeps) {
    this.#deps = deps;
    this.#lookups = new PromptLookups(deps);
  }

  /** Null = the prompt goes to a prefill worker. @param legs what would be sent: to a prefill worker, or to a decode worker alone. */
  decide(
    rules: ConditionalDisaggregation,
    request: RoadRequest,
    legs: { readonly prefill: RoadRequest; readonly local: RoadRequest },
  ): Bypass | null {
    const skipped =
      this.#deps.mode !== 'kv' ||
      (request.constraints.pinnedPrefill ?? null) !== null ||
      request.tokens.length === 0;
    if (skipped) return null;
    try {
      return this.#decide(rules, request, legs);
    } catch {
      return null;
    }
  }

  #decide(
    rules: ConditionalDisaggregation,
    request: RoadRequest,
    legs: { readonly prefill: RoadRequest; readonly local: RoadRequest },
  ): Bypass | null {
    const { fleet } = this.#deps;
    const placement = this.#probe(legs.local);
    // One reused object: read before the next probe.
    const { rank, row, slot, table, workerId } = placement;
    const decodeBlocks = (table.activeDecodeBlocks[row] ?? 0) + (table.additionalBlocks[row] ?? 0);
    const worker = fleet.workerOfSlot(slot);
    const totalKvBlocks = worker && totalKvBlocksOf(worker);
    const reason = bypassReason(rules, {
      promptTokens: request.tokens.length,
      cachedTokens: table.cachedTokens[row] ?? 0,
      decodeBlocks,
      totalKvBlocks,
      prefill: rules.policy === 'isl_bounding' ? { kind: 'unknown' } : this.#prefillFacts(legs.prefill),
    });
    return reason && { reason, rank: { workerId, rank } };
  }

  #prefillFacts(request: RoadRequest): PrefillFacts {
    try {
      const { row, slot, table } = this.#probe(request);
      const worker = this.#deps.fleet.workerOfSlot(slot);
      const most = worker && maxNumBatchedTokensOf(worker);
      return {
        kind: 'chosen',
        activeTokens: table.activePrefillTokens[row] ?? 0,
        maxNumBatchedTokens: most,
      };
    } catch (thrown) {
      const overloaded = thrown instanceof PointsmanError && thrown.code === 'PM_SELECTION_OVERLOADED';
      return { kind: overloaded ? 'overloaded' : 'unknown' };
    }
  }

  #probe(leg: RoadRequest): Placement {
    const lookup = this.#lookups.of(leg);
    const placing = placementRequest(leg, null, lookup, false, this.#deps.sessions ?? null);
    return this.#deps.scheduler.choose(this.#deps.affinity?.look(leg)?.placing(placing) ?? placing);
  }
}
