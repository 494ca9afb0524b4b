// What is known of a prompt before anyone chooses: its block hashes and who holds them, as far as the role's policies ask.
import type { BlockSizes, Fleet } from '../fleet/index.ts';
import type { RoleRuntime } from '../host/index.ts';
import {
  type BlockHasher,
  hashBlocks,
  type PrefixIndex,
  type PrefixMatch,
  type PromptHashes,
  TIERS,
  type U64,
} from '../kv/index.ts';
import { type Partition, PointsmanError, type Role } from '../plugin/index.ts';
import { promptTokensOf } from './caller-part.ts';
import type { KnownHashes } from './queue-walk.ts';
import type { RoadRequest } from './types.ts';

/** What looking a prompt up takes. */
export interface LookupDeps {
  readonly fleet: Fleet;
  readonly blockSizes: BlockSizes;
  /** Null when no role reads cache facts. */
  readonly index: PrefixIndex | null;
  readonly hasher: BlockHasher;
  /** Seed of local hashes for an adapter and a cache salt. */
  readonly blockHashSeed: (scope: {
    readonly loraName: string | null;
    readonly cacheSalt: string | null;
  }) => U64;
  /** @throws PointsmanError when the role cannot be served. */
  readonly runtimeFor: (partition: Partition, role: Role, blockSize: number) => RoleRuntime;
  /** Microseconds of a running wall clock, for the record only. */
  readonly wallMicros: () => number;
}

/** A prompt looked up. `match` is the index's reused result. */
export interface PromptLookup {
  readonly runtime: RoleRuntime;
  /** Tokens per block. */
  readonly blockSize: number;
  readonly hashes: PromptHashes | null;
  /** By which the booking shares blocks with others: the same, or sequence hashes alone. */
  readonly booked: PromptHashes | null;
  /** Whether they are of the windows of engines that keep pairs of tokens. */
  readonly bigrams: boolean;
  readonly match: PrefixMatch | null;
  readonly hashMicros: number;
  readonly lookupMicros: number;
  /** Wall clock when the lookup was done. */
  readonly doneMicros: number;
}

/** Loads are counted in blocks of this size while a model's own is not known; nothing is hashed or matched then. */
const NOMINAL_BLOCK_SIZE = 16;

/** Looks prompts up. */
export class PromptLookups {
  readonly #deps: LookupDeps;

  constructor(deps: LookupDeps) {
    this.#deps = deps;
  }

  /**
   * @param known hashes from an earlier time; they are taken where they would be computed the same way now.
   * @throws PointsmanError PM_PROMPT_INVALID, or what the role's runtime refuses with.
   */
  of(request: RoadRequest, known: KnownHashes | null = null): PromptLookup {
    const { blockSizes, runtimeFor, hasher, blockHashSeed, index, wallMicros } = this.#deps;
    const { caller = null, partition } = request;
    if (promptTokensOf(request) === 0) {
      throw new PointsmanError('PM_PROMPT_INVALID', 'the prompt has no tokens; send at least one');
    }
    const knownBlockSize = blockSizes.ofModel(partition.model, partition.routingGroup);
    const blockSize = knownBlockSize ?? NOMINAL_BLOCK_SIZE;
    const runtime = runtimeFor(partition, request.role, blockSize);
    const { needs } = runtime;
    const credited = request.leg?.overrides.overlapCredit !== false;
    const asked =
      needs.copyLocations || (needs.lineage && needs.cache) || (credited && (needs.cache || needs.copies));
    const wantsMatch = asked && !(runtime.matchForHintsAlone === true && !this.#anyTakesHints(request));
    const start = wallMicros();
    // A stand-in for an estimated prompt has the right length but not its tokens.
    const exact = knownBlockSize !== null && request.tokensSource !== 'estimate';
    const bigrams = blockSizes.pairsOfModel(partition.model, partition.routingGroup) ?? false;
    const holds = known !== null && known.blockSize === blockSize && known.bigrams === bigrams;
    const compute = (): PromptHashes =>
      holds
        ? known.hashes
        : hashBlocks(hasher, request.tokens, blockSize, blockHashSeed(request), { bigrams });
    const own =
      caller === null && exact && (wantsMatch || needs.load || needs.inFlight || needs.cachePressure)
        ? compute()
        : null;
    const booked = caller?.prompt.hashes ?? own;
    const hashed = wallMicros();
    const hashes = booked !== null && booked.local.length === booked.sequence.length ? booked : null;
    const match =
      wantsMatch && hashes !== null && index !== null && caller?.looksUp !== false
        ? index.find(hashes.local, hashes.sequence, TIERS)
        : null;
    const found = wallMicros();
    return {
      runtime,
      blockSize,
      hashes,
      booked: caller?.sharesBlocks === false ? null : booked,
      bigrams,
      match,
      hashMicros: hashed - start,
      lookupMicros: found - hashed,
      doneMicros: found,
    };
  }

  /** Whether any rank that may get the request takes hints. */
  #anyTakesHints({ caller, partition, role }: RoadRequest): boolean {
    const { fleet } = this.#deps;
    const { ranks, slots } = fleet.candidates(partition, role, (caller ?? null) !== null);
    for (let row = 0; row < slots.length; row += 1) {
      const worker = fleet.workerOfSlot(slots[row]!);
      if (worker?.capabilities?.ranks.get(ranks[row]!)?.routerHint === true) return true;
    }
    return false;
  }
}
