// Builds what one hint policy sees of a booking: the base facts and exactly the inputs it declared.
import type {
  CacheColumns,
  CommittedHintContext,
  CommittedKvCopy,
  HintContextBase,
  HintInputs,
  LoadColumns,
  Row,
} from '../plugin/index.ts';
import type { BookingCopyLocations } from './copy-locations.ts';
import { frozenSession } from './frozen-session.ts';
import type { CreatedHint } from './role-runtime.ts';
import type { HintBooking } from './types.ts';

/** A context with any of the inputs. */
export type AnyHintContext = HintContextBase &
  Partial<HintInputs[keyof HintInputs]> &
  Partial<CommittedHintContext>;

/** The facts that every policy of a booking gets; frozen, so that one policy cannot mislead the next. */
export function baseContext(
  booking: HintBooking,
  capabilities: ReadonlySet<string> | null,
): Readonly<HintContextBase> {
  return Object.freeze({
    requestId: booking.requestId,
    worker: Object.freeze({ workerId: booking.workerId, rank: booking.rank }),
    role: booking.role,
    partition: Object.freeze({ ...booking.partition }),
    promptTokens: booking.promptTokens,
    blockSize: booking.blockSize,
    session: frozenSession(booking.session),
    capabilities,
  });
}

/** Adds declared inputs, what a policy could write to, and the committed copy for those who declare the commitment. */
export function contextFor(
  base: Readonly<HintContextBase>,
  { inputs, seesCommits }: Pick<CreatedHint, 'inputs' | 'seesCommits'>,
  booking: HintBooking,
  copyLocations: BookingCopyLocations,
  committedKvCopy: CommittedKvCopy | null,
): Readonly<AnyHintContext> {
  const { capabilities } = base;
  if (inputs.length === 0 && !seesCommits && capabilities === null) return base;
  return Object.freeze({
    ...base,
    // A copy each: the set in the fleet's record, and what the next policy sees, must survive a policy that writes to it.
    capabilities: capabilities === null ? null : new Set(capabilities),
    ...(inputs.includes('cache') ? { cache: cacheRow(booking) } : {}),
    ...(inputs.includes('load') ? { load: loadRow(booking) } : {}),
    ...(inputs.includes('kv-copy-locations') ? { copyLocations } : {}),
    ...(inputs.includes('session-lineage') ? { lineage: booking.lineage ?? null } : {}),
    ...(inputs.includes('residency') ? { residency: booking.residency ?? null } : {}),
    ...(seesCommits ? { committedKvCopy } : {}),
  });
}

/** What selection saw of the booked rank's cache; zeros where nobody looked. */
function cacheRow({ selected }: HintBooking): Row<CacheColumns> {
  const row = selected?.row ?? 0;
  const table = selected?.table;
  return Object.freeze({
    effectiveOverlapBlocks: table?.effectiveOverlapBlocks[row] ?? 0,
    cachedTokens: table?.cachedTokens[row] ?? 0,
    deviceBlocks: table?.deviceBlocks[row] ?? 0,
    hostBlocks: table?.hostBlocks[row] ?? 0,
    diskBlocks: table?.diskBlocks[row] ?? 0,
    hasTierMatches: table?.hasTierMatches ?? false,
  });
}

/** The booked rank's load as selection saw it; `available` 0 where nobody looked. */
function loadRow({ selected }: HintBooking): Row<LoadColumns> {
  const row = selected?.row ?? 0;
  const table = selected?.table;
  return Object.freeze({
    available: table?.loadAvailable[row] ?? 0,
    activePrefillTokens: table?.activePrefillTokens[row] ?? 0,
    decodeCostBlocks: table?.decodeCostBlocks[row] ?? 0,
    activeRequests: table?.activeRequests[row] ?? 0,
  });
}
