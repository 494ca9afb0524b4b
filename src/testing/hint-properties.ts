// The properties a host expects of every hint policy, tried on bookings made at random.
import { exactJsonStringify, type HintPolicyDefinition, type Rng, seededRng } from '../plugin/index.ts';
import { type HintTrialResult, openHintPolicy, type TrialBooking } from './hint-trial.ts';
import { overBudget, type PropertyFault } from './properties.ts';

/**
 * - `valid`: nothing is thrown, and no output is dropped as malformed, undeclared or too much; also without a session, without
 *   peers, for a one-token prompt. That a rank does not take an action is no fault.
 * - `repeatable`: the same booking gives the same actions.
 * - `within-budget`: the median call takes at most 1 ms.
 */
export type HintProperty = 'valid' | 'repeatable' | 'within-budget';

/** What {@link checkHintPolicy} works with. */
export interface HintCheck {
  /** As in YAML. */
  readonly parameters?: unknown;
  /** What every booking has; the rest varies. */
  readonly context?: TrialBooking;
  /** Which to check; default all. */
  readonly properties?: readonly HintProperty[];
  /** Bookings to try; default 100. */
  readonly trials?: number;
  /** Default 1. */
  readonly seed?: number;
}

const ALL: readonly HintProperty[] = ['valid', 'repeatable', 'within-budget'];

/**
 * Checks the properties; answers those that do not hold, each at most once, so an empty list when all is well.
 *
 * @throws PointsmanError PM_POLICY_PARAMETERS, PM_PLUGIN_INVALID, PM_PLUGIN_THREW (from `create`).
 * @example
 * expect(await checkHintPolicy(fetchLong)).toEqual([]);
 */
export async function checkHintPolicy(
  definition: HintPolicyDefinition,
  check: HintCheck = {},
): Promise<readonly PropertyFault<HintProperty>[]> {
  const { context: given = {}, parameters, properties = ALL, seed = 1, trials = 100 } = check;
  const rng = seededRng(seed);
  const faults = new Map<HintProperty, string>();
  const tell = (property: HintProperty, message: string | null): void => {
    if (message !== null && properties.includes(property) && !faults.has(property))
      faults.set(property, message);
  };
  const commits = (definition.commitments ?? []).includes('kv-copy');
  for (let trial = 0; trial < trials; trial += 1) {
    const booking = { ...randomBooking(rng, trial, commits), ...given };
    const once = (await openHintPolicy(definition, { parameters, context: booking })).book();
    tell('valid', invalid(once, booking));
    const again = (await openHintPolicy(definition, { parameters, context: booking })).book();
    if (exactJsonStringify(plain(once)) === exactJsonStringify(plain(again))) continue;
    tell('repeatable', `the same booking gave other actions${forInput(booking)}`);
  }
  if (properties.includes('within-budget')) {
    const booking = { ...randomBooking(rng, 1, commits), copySources: sources(rng, 512), ...given };
    const { book } = await openHintPolicy(definition, { parameters, context: booking });
    tell(
      'within-budget',
      overBudget(() => book()),
    );
  }
  return [...faults].map(([property, message]) => ({ property, message }));
}

function invalid({ dropped, error }: HintTrialResult, booking: TrialBooking): string | null {
  if (dropped === null || dropped === 'unsupported_action') return null;
  return `the output was dropped (${dropped}${error === null ? '' : `: ${error}`})${forInput(booking)}`;
}

function randomBooking(rng: Rng, trial: number, commits: boolean): TrialBooking {
  const promptTokens = trial === 0 ? 1 : 1 + rng.integer(4_096);
  const blocks = Math.floor(promptTokens / 16);
  const copySources = sources(rng, blocks);
  return {
    requestId: `r${trial}`,
    worker: { workerId: BigInt(100 + rng.integer(8)), rank: rng.integer(2) },
    promptTokens,
    blockSize: 16,
    session: rng.integer(2) === 0 ? null : { sessionId: `s${rng.integer(4)}`, agentHeaders: {} },
    localPrefixBlocks: copySources.length === 0 ? 0 : rng.integer(copySources[0]!.blockHashes.length),
    copySources,
    cache: { deviceBlocks: rng.integer(blocks + 1), cachedTokens: rng.integer(promptTokens + 1) },
    // Nothing is known of a rank that has just come.
    ...(rng.integer(4) === 0
      ? {}
      : { load: { activePrefillTokens: rng.integer(100_000), activeRequests: rng.integer(512) } }),
    // Selection commits only what adds blocks, and the first source always does.
    ...(commits && copySources.length > 0 && rng.integer(2) === 0 ? { committedSource: 0 } : {}),
  };
}

/** Up to three peers with leading blocks of the prompt, hashes over the whole range of a u64. */
function sources(rng: Rng, blocks: number): NonNullable<TrialBooking['copySources']> {
  if (blocks === 0) return [];
  return Array.from({ length: rng.integer(4) }, (_, peer) => ({
    source: { workerId: BigInt(peer + 1), rank: 0 },
    blockHashes: Array.from({ length: 1 + rng.integer(blocks) }, () => hash(rng)),
  }));
}

function hash(rng: Rng): bigint {
  return (BigInt(rng.integer(2 ** 32)) << 32n) | BigInt(rng.integer(2 ** 32));
}

/** A form that can be compared: typed arrays as lists. */
function plain({ actions }: HintTrialResult): unknown {
  return JSON.parse(
    JSON.stringify(actions, (_, value: unknown) => {
      if (value instanceof BigUint64Array) return [...value].map(String);
      return typeof value === 'bigint' ? String(value) : value;
    }),
  );
}

function forInput(booking: TrialBooking): string {
  return ` for ${exactJsonStringify(booking)}`;
}
