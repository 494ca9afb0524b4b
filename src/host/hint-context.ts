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
  WorkerTiming,
} from '../plugin/index.ts';
import { frozenSession } from './frozen-session.ts';
import type { CreatedHint } from './role-creation.ts';
import type { HintBooking } from './types.ts';

/** A context with any of the inputs. */
export type AnyHintContext = HintContextBase &
  Partial<Merge<HintInputs[keyof HintInputs]>> &
  Partial<CommittedHintContext>;

/** Which inputs a policy declared, each looked up once. */
export interface HintReads {
  readonly cache: boolean;
  readonly load: boolean;
  readonly timing: boolean;
  readonly copyLocations: boolean;
  readonly lineage: boolean;
  readonly residency: boolean;
}

/** The inputs in a list. */
export function readsOf(inputs: readonly string[]): HintReads {
  return {
    cache: inputs.includes('cache'),
    load: inputs.includes('load'),
    timing: inputs.includes('timing'),
    copyLocations: inputs.includes('kv-copy-locations'),
    lineage: inputs.includes('session-lineage'),
    residency: inputs.includes('residency'),
  };
}

/**
 * Makes the contexts of the policies of a role: each gets its own, frozen with all it holds, so that one cannot mislead the next. Parts
 * that are the same from booking to booking are made once.
 */
export class HintContexts {
  #partition: Readonly<Partition> = Object.freeze({ model: '', routingGroup: '' });
  readonly #workers: (Readonly<WorkerRank> | undefined)[] = [];

  /** @param capabilities actions that the rank accepts; null = it did not say */
  of(
    { reads, seesCommits }: Pick<CreatedHint, 'reads' | 'seesCommits'>,
    booking: HintBooking,
    capabilities: ReadonlySet<string> | null,
    copyLocations: KvCopyLocations | null,
    committedKvCopy: CommittedKvCopy | null,
  ): Readonly<AnyHintContext> {
    const context: { -readonly [K in keyof AnyHintContext]: AnyHintContext[K] } = {
      requestId: booking.requestId,
      worker: this.#workerOf(booking),
      role: booking.role,
      partition: this.#partitionOf(booking.partition),
      promptTokens: booking.promptTokens,
      blockSize: booking.blockSize,
      session: frozenSession(booking.session),
      // A copy each: the set in the fleet's record, and what the next policy sees, must survive a policy that writes to it.
      capabilities: capabilities === null ? null : new Set(capabilities),
    };
    if (reads.cache) context.cache = cacheRow(booking);
    if (reads.load) context.load = loadRow(booking);
    if (reads.timing) context.timing = timingOf(booking);
    if (copyLocations !== null && reads.copyLocations) context.copyLocations = copyLocations;
    if (reads.lineage) context.lineage = booking.lineage ?? null;
    if (reads.residency) context.residency = booking.residency ?? null;
    if (seesCommits) context.committedKvCopy = committedKvCopy;
    return Object.freeze(context);
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

/** Times of the booked rank's kind; null where nobody selected. */
function timingOf({ selected }: HintBooking): WorkerTiming | null {
  if (selected === undefined) return null;
  const { row, table } = selected;
  return table.timings[table.timingKind[row] ?? 0] ?? null;
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
