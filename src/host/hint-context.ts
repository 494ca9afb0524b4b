// Builds what one hint policy sees of a booking: the base facts and exactly the inputs it declared.
import type {
  CacheColumns,
  CommittedHintContext,
  CommittedKvCopy,
  HintContextBase,
  HintInputs,
  KvCopyLocations,
  LoadColumns,
  Merge,
  Partition,
  Row,
  WorkerRank,
} from '../plugin/index.ts';
import { frozenSession } from './frozen-session.ts';
import type { CreatedHint } from './role-creation.ts';
import type { HintBooking } from './types.ts';

/** A context with any of the inputs. */
export type AnyHintContext = HintContextBase &
  Partial<Merge<HintInputs[keyof HintInputs]>> &
  Partial<CommittedHintContext>;

/**
 * Makes the facts that every policy of a booking gets; frozen, so that one policy cannot mislead the next. Frozen parts that are
 * the same from booking to booking are made once.
 */
export class BaseContexts {
  #partition: Readonly<Partition> = Object.freeze({ model: '', routingGroup: '' });
  readonly #workers: (Readonly<WorkerRank> | undefined)[] = [];

  of(booking: HintBooking, capabilities: ReadonlySet<string> | null): Readonly<HintContextBase> {
    return Object.freeze({
      requestId: booking.requestId,
      worker: this.#workerOf(booking),
      role: booking.role,
      partition: this.#partitionOf(booking.partition),
      promptTokens: booking.promptTokens,
      blockSize: booking.blockSize,
      session: frozenSession(booking.session),
      capabilities,
    });
  }

  #workerOf({ slot, workerId, rank }: HintBooking): Readonly<WorkerRank> {
    const known = this.#workers[slot];
    if (known !== undefined && known.workerId === workerId && known.rank === rank) return known;
    const made = Object.freeze({ workerId, rank });
    this.#workers[slot] = made;
    return made;
  }

  #partitionOf({ model, routingGroup }: Partition): Readonly<Partition> {
    const known = this.#partition;
    if (known.model === model && known.routingGroup === routingGroup) return known;
    this.#partition = Object.freeze({ model, routingGroup });
    return this.#partition;
  }
}

/** Adds declared inputs, what a policy could write to, and the committed copy for those who declare the commitment. */
export function contextFor(
  base: Readonly<HintContextBase>,
  { inputs, seesCommits }: Pick<CreatedHint, 'inputs' | 'seesCommits'>,
  booking: HintBooking,
  copyLocations: KvCopyLocations | null,
  committedKvCopy: CommittedKvCopy | null,
): Readonly<AnyHintContext> {
  const { capabilities } = base;
  if (inputs.length === 0 && !seesCommits && capabilities === null) return base;
  // Member by member: spreading costs several times as much.
  const context: { -readonly [K in keyof AnyHintContext]: AnyHintContext[K] } = {
    requestId: base.requestId,
    worker: base.worker,
    role: base.role,
    partition: base.partition,
    promptTokens: base.promptTokens,
    blockSize: base.blockSize,
    session: base.session,
    // A copy each: the set in the fleet's record, and what the next policy sees, must survive a policy that writes to it.
    capabilities: capabilities === null ? null : new Set(capabilities),
  };
  if (inputs.includes('cache')) context.cache = cacheRow(booking);
  if (inputs.includes('load')) context.load = loadRow(booking);
  if (copyLocations !== null && inputs.includes('kv-copy-locations')) context.copyLocations = copyLocations;
  if (inputs.includes('session-lineage')) context.lineage = booking.lineage ?? null;
  if (inputs.includes('residency')) context.residency = booking.residency ?? null;
  if (seesCommits) context.committedKvCopy = committedKvCopy;
  return Object.freeze(context);
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
