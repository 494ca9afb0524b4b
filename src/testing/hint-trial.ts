// Drives a hint policy through the router's own hint stage with a booking written by hand.
import { createSoloHints, type HintBooking, type HintFleet, type HintPolicyResult } from '../host/index.ts';
import {
  type BlockResidency,
  type CacheColumns,
  type HintPolicyDefinition,
  type KvHintAction,
  type LoadColumns,
  ManualClock,
  type MeasuredLink,
  NO_LOG,
  type Partition,
  type Role,
  type Row,
  type SessionLineage,
  type WorkerRank,
  type WorkerTiming,
} from '../plugin/index.ts';
import { sessionOfTrial, type TrialSession } from './trial-session.ts';
import { trialTable } from './trial-table.ts';

const DEFAULT_ENDPOINT = 'tcp://source:1';

/** A rank that holds leading blocks of the prompt on its device. */
export interface TrialCopySource {
  readonly source: WorkerRank;
  /** Its own hashes of the prompt's first blocks. */
  readonly blockHashes: readonly bigint[];
  /** Default: `tcp://source:1`. */
  readonly controlEndpoint?: string;
  /** What was measured of copies from it; default null: nothing. */
  readonly link?: MeasuredLink | null;
}

/** A booking; everything has a default. */
export interface TrialBooking {
  readonly requestId?: string;
  /** The booked rank; default worker 1, rank 0. */
  readonly worker?: WorkerRank;
  readonly role?: Role;
  readonly partition?: Partition;
  /** Default 2,048. */
  readonly promptTokens?: number;
  /** Tokens per block; default 16. */
  readonly blockSize?: number;
  /** Default none. */
  readonly session?: TrialSession | null;
  /**
   * `type@version`s the rank accepts. Null (default) = it did not say, and any is taken: give the set of your engine to see what it
   * would refuse.
   */
  readonly capabilities?: readonly string[] | null;
  /** Whether the rank takes hints at all; default true. */
  readonly routerHint?: boolean;
  /** What the booked rank had cached of the prompt at selection; what is left out is 0. */
  readonly cache?: Partial<Row<CacheColumns>>;
  /** Its load at selection; what is left out is 0, and it counts as observed when given. */
  readonly load?: Partial<Row<LoadColumns>>;
  /** How long its kind takes; what is left out is 0. */
  readonly timing?: Partial<WorkerTiming>;
  /** Device blocks of the prompt that the booked rank holds; default 0. */
  readonly localPrefixBlocks?: number;
  /** Others that hold the prompt's blocks. */
  readonly copySources?: readonly TrialCopySource[];
  /** Position in `copySources` of the copy that selection committed; default none. */
  readonly committedSource?: number;
  /** Absent = switched off: `context.lineage` is null. */
  readonly lineage?: SessionLineage;
  /** Absent = switched off: `context.residency` is null. */
  readonly residency?: BlockResidency;
}

/** What {@link testHintPolicy} works with. */
export interface HintTrial {
  /** As in YAML. */
  readonly parameters?: unknown;
  readonly context?: TrialBooking;
}

/** What the stage made of the policy's output. */
export interface HintTrialResult {
  /** The numbered actions that would be sent. */
  readonly actions: readonly KvHintAction[];
  /** Why the output was dropped, or null. */
  readonly dropped:
    | 'threw'
    | 'malformed'
    | 'no_room'
    | 'undeclared_action'
    | 'unsupported_action'
    | 'promise'
    | null;
  /** What it threw, or which action was refused and what would have been taken, in words; null when there is nothing to say. */
  readonly error: string | null;
  /** False when the booked rank takes no hints, so that the policy did not run. */
  readonly ran: boolean;
}

/**
 * Runs a hint policy once, with a fresh instance, under the rules of the router's stage: whole or nothing, at most 32 actions, payloads checked and copied.
 *
 * @throws PointsmanError PM_POLICY_PARAMETERS, PM_PLUGIN_INVALID, PM_PLUGIN_THREW (from `create`).
 * @example
 * const { actions, dropped } = await testHintPolicy(mark, { context: { promptTokens: 100 } });
 * expect(dropped).toBeNull();
 * expect(actions[0]?.payload).toEqual({ tokens: 100 });
 */
export async function testHintPolicy(
  definition: HintPolicyDefinition,
  trial: HintTrial = {},
): Promise<HintTrialResult> {
  return (await openHintPolicy(definition, trial)).book();
}

/** A hint policy created once, for any number of bookings: what it keeps from one to the next is there. */
export interface OpenHintPolicy {
  /**
   * Runs it for one more booking.
   * @param context what is left out is as the trial's `context` says; role, partition and block size are the instance's
   */
  book(context?: Omit<TrialBooking, 'role' | 'partition' | 'blockSize'>): HintTrialResult;
  /** Time as the policy sees it, from 0; its timers fire when the test moves it. */
  readonly clock: ManualClock;
  /** Calls its `dispose`. */
  dispose(): Promise<void>;
}

/**
 * Creates a hint policy once, as a router does per partition and role, for policies that keep something between bookings.
 *
 * @param trial its `context` is what every booking has
 * @throws PointsmanError as {@link testHintPolicy}.
 * @example
 * const { book } = await openHintPolicy(oncePerSession);
 * expect(book({ session: { sessionId: 'a' } }).actions).toHaveLength(1);
 * expect(book({ session: { sessionId: 'a' } }).actions).toEqual([]);
 */
export async function openHintPolicy(
  definition: HintPolicyDefinition,
  trial: HintTrial = {},
): Promise<OpenHintPolicy> {
  const common = trial.context ?? {};
  const partition = common.partition ?? { model: 'test', routingGroup: 'default' };
  const role = common.role ?? 'aggregated';
  const blockSize = common.blockSize ?? 16;
  const clock = new ManualClock();
  let error: string | null = null;
  let fleet = trialFleet(common, blockSize);
  const hints = await createSoloHints({
    hints: [{ definition, parameters: trial.parameters }],
    partition,
    role,
    blockSize,
    clock,
    seed: 1,
    log: {
      ...NO_LOG,
      // The stage keeps words about an output from records; it says them to the log alone.
      warn: (_, fields) => {
        if (typeof fields?.error === 'string') error = fields.error;
      },
    },
    fleet: { slotRank: (slot) => fleet.slotRank(slot), workerOfSlot: (slot) => fleet.workerOfSlot(slot) },
  });
  return {
    clock,
    book(given = {}) {
      const context = { ...common, ...given };
      fleet = trialFleet(context, blockSize);
      error = null;
      const result = hints.run(bookingOf(context, { partition, role, blockSize }));
      const reason = result?.policies[0]?.reason ?? null;
      return {
        actions: result?.hint?.actions ?? [],
        dropped: isOfTrial(reason) ? reason : null,
        error,
        ran: result?.capable === true,
      };
    },
    dispose: () => hints.dispose(),
  };
}

function bookingOf(
  context: TrialBooking,
  place: Pick<HintBooking, 'partition' | 'role' | 'blockSize'>,
): HintBooking {
  const { workerId, rank } = context.worker ?? { workerId: 1n, rank: 0 };
  return {
    requestId: context.requestId ?? 'test',
    slot: 0,
    workerId,
    rank,
    ...place,
    promptTokens: context.promptTokens ?? 2048,
    session: sessionOfTrial(context.session),
    incomingHint: null,
    ...(context.lineage === undefined ? {} : { lineage: context.lineage }),
    ...(context.residency === undefined ? {} : { residency: context.residency }),
    links: trialLinks(context),
    commit: trialCommit(context),
    selected: {
      row: 0,
      table: trialTable([
        {
          cache: context.cache ?? {},
          ...(context.load && { load: context.load }),
          ...(context.timing && { timing: context.timing }),
        },
      ]),
    },
    ...trialMatch(context),
  };
}

const NOT_OF_TRIAL: ReadonlySet<string> = new Set([
  'tripped',
  'restarting',
  'timed_out',
  'thread_died',
  'no_copy_source',
]);

/** A trial has no breaker that could trip, and runs in process whatever the policy says. */
function isOfTrial(
  reason: HintPolicyResult['reason'] | null,
): reason is NonNullable<HintTrialResult['dropped']> {
  return reason != null && !NOT_OF_TRIAL.has(reason);
}

/** Of sources with the same endpoint the first one's link counts. */
function trialLinks({ copySources = [] }: TrialBooking): NonNullable<HintBooking['links']> {
  return {
    between: (_, asked) =>
      copySources.find(({ controlEndpoint = DEFAULT_ENDPOINT }) => controlEndpoint === asked)?.link ?? null,
  };
}

function trialCommit(context: TrialBooking): NonNullable<HintBooking['commit']> | null {
  const source = context.copySources?.[context.committedSource ?? -1];
  if (source === undefined) return null;
  const prefixBlocks = source.blockHashes.length;
  const additionalBlocks = prefixBlocks - (context.localPrefixBlocks ?? 0);
  const sourceSlot = (context.committedSource ?? 0) + 1;
  return { sourceSlot, prefixBlocks, additionalBlocks, stopOnFailure: false };
}

/** Slot 0 is the booked rank, slot n the n-th copy source. */
function trialFleet(context: TrialBooking, blockSize: number): HintFleet {
  const target = context.worker ?? { workerId: 1n, rank: 0 };
  const peers = [{ source: target, controlEndpoint: null }, ...(context.copySources ?? [])];
  return {
    slotRank: (slot) => peers[slot]?.source.rank ?? -1,
    workerOfSlot(slot) {
      const peer = peers[slot];
      if (peer === undefined) return null;
      const rank = {
        routerHint: context.routerHint ?? true,
        actions: context.capabilities ? new Set(context.capabilities) : null,
        sourceControlEndpoint: peer.controlEndpoint === undefined ? DEFAULT_ENDPOINT : peer.controlEndpoint,
      };
      return {
        spec: { id: peer.source.workerId },
        state: 'ready',
        capabilities: {
          epoch: 'test',
          model: 'test',
          workerType: 'aggregated',
          blockSize,
          hashScheme: 'test',
          reportsOutcomes: false,
          ranks: new Map([[peer.source.rank, rank]]),
        },
      };
    },
  };
}

function trialMatch(context: TrialBooking): Pick<HintBooking, 'match' | 'hashes' | 'index'> {
  const sources = context.copySources ?? [];
  const device = [context.localPrefixBlocks ?? 0, ...sources.map((source) => source.blockHashes.length)];
  const blocks = Math.max(...device);
  const none = new Int32Array(device.length);
  return {
    match: {
      count: device.length,
      owners: Int32Array.from(device, (_, slot) => slot),
      depthPerTier: [Int32Array.from(device), none, none, none],
      version: 1,
    },
    hashes: { blocks, local: new Uint32Array(blocks * 2), sequence: new Uint32Array(blocks * 2) },
    index: {
      externalHashes(owner, _sequence, from, to, out) {
        const hashes = (sources[owner - 1]?.blockHashes ?? []).slice(from, to);
        out.set(hashes);
        return hashes.length;
      },
    },
  };
}
