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

  /** @throws PointsmanError PM_PROMPT_INVALID, or what the role's runtime refuses with. */
  of(request: RoadRequest): PromptLookup {
    const { blockSizes, runtimeFor, hasher, blockHashSeed, index, wallMicros } = this.#deps;
    if (request.tokens.length === 0) {
      throw new PointsmanError('PM_PROMPT_INVALID', 'the prompt has no tokens; send at least one');
    }
    const knownBlockSize = blockSizes.ofModel(request.partition.model);
    const blockSize = knownBlockSize ?? NOMINAL_BLOCK_SIZE;
    const runtime = runtimeFor(request.partition, request.role, blockSize);
    const { needs } = runtime;
    const credited = request.leg?.overrides.overlapCredit !== false;
    const asked = needs.copyLocations || (credited && (needs.cache || needs.copies));
    const wantsMatch = asked && !(runtime.matchForHintsAlone === true && !this.#anyTakesHints(request));
    const start = wallMicros();
    // A stand-in for an estimated prompt has the right length but not its tokens.
    const exact = knownBlockSize !== null && request.tokensSource !== 'estimate';
    const hashes =
      exact && (wantsMatch || needs.load)
        ? hashBlocks(hasher, request.tokens, blockSize, blockHashSeed(request), {
            bigrams: blockSizes.pairsOfModel(request.partition.model) ?? false,
          })
        : null;
    const hashed = wallMicros();
    const match =
      wantsMatch && hashes !== null && index !== null
        ? index.find(hashes.local, hashes.sequence, TIERS)
        : null;
    const found = wallMicros();
    return {
      runtime,
      blockSize,
      hashes,
      match,
      hashMicros: hashed - start,
      lookupMicros: found - hashed,
      doneMicros: found,
    };
  }

  /** Whether any rank that may get the request takes hints. */
  #anyTakesHints({ partition, role }: RoadRequest): boolean {
    const { fleet } = this.#deps;
    const { ranks, slots } = fleet.candidates(partition, role);
    for (let row = 0; row < slots.length; row += 1) {
      const worker = fleet.workerOfSlot(slots[row]!);
      if (worker?.capabilities?.ranks.get(ranks[row]!)?.routerHint === true) return true;
    }
    return false;
  }
}
