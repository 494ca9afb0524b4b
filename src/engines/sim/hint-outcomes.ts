// Reads the `x-kv-hint-outcomes` response header (docs/simulated-engine.md, Outcomes). What cannot be read counts as not
// reported: an outcome is information, never a reason to fail a request.

import { MAX_HINT_ACTIONS } from '../../plugin/index.ts';
import { countOrNull, isJsonObject } from '../json-value.ts';
import type { ReportedHintOutcome } from '../types.ts';

/** Header with the immediate outcomes of an envelope's actions. */
export const OUTCOMES_HEADER = 'x-kv-hint-outcomes';

/** Engines send at most this many bytes. */
const MAX_BYTES = 8 * 1024;
const KINDS: ReadonlySet<string> = new Set(['accepted', 'clipped', 'deferred', 'rejected', 'missing']);

/** Outcomes in the header's order; empty when the header is absent or unreadable, or says counts only. */
export function readHintOutcomes(header: string | undefined): readonly ReportedHintOutcome[] {
  if (header === undefined || header.length > MAX_BYTES) return [];
  let parsed: unknown;
  try {
    parsed = JSON.parse(header);
  } catch {
    return [];
  }
  const list = isJsonObject(parsed) ? parsed.outcomes : undefined;
  if (!Array.isArray(list)) return [];
  const outcomes: ReportedHintOutcome[] = [];
  for (const entry of list.slice(0, MAX_HINT_ACTIONS)) {
    const outcome = readOutcome(entry);
    if (outcome !== null) outcomes.push(outcome);
  }
  return outcomes;
}

function readOutcome(entry: unknown): ReportedHintOutcome | null {
  if (!isJsonObject(entry) || typeof entry.action_id !== 'string' || !isKind(entry.outcome)) return null;
  return {
    actionId: entry.action_id,
    outcome: entry.outcome,
    reason: typeof entry.reason === 'string' ? entry.reason : null,
    blocksAsked: countOrNull(entry.blocks_asked),
    blocksDone: countOrNull(entry.blocks_done),
    bytes: countOrNull(entry.bytes),
    ms: msOrNull(entry.ms),
  };
}

function msOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

function isKind(value: unknown): value is ReportedHintOutcome['outcome'] {
  return typeof value === 'string' && KINDS.has(value);
}
