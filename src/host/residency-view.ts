// Which tier of a worker holds a block, as policies ask it.
import { type FollowedIndex, type OwnerSlot, TIERS, u64FromBigInt } from '../kv/index.ts';
import type { BlockHash, BlockResidency, StorageTier, WorkerId, WorkerRank } from '../plugin/index.ts';

/** What the view reads. */
export interface ResidencySource {
  readonly residency: Pick<FollowedIndex, 'hasRow'>;
  readonly fleet: {
    /** Negative = there is none. */
    slotOf(id: WorkerId, rank: number): OwnerSlot;
  };
  /** Whether what a rank holds is only believed: then nothing is known by its engine's hashes. */
  readonly isApproximate: (slot: OwnerSlot) => boolean;
}

/** One for all policies. */
export class ResidencyView implements BlockResidency {
  readonly #source: ResidencySource;

  constructor(source: ResidencySource) {
    this.#source = source;
    Object.freeze(this);
  }

  tierOf({ workerId, rank }: WorkerRank, hash: BlockHash): StorageTier | null {
    const { fleet, isApproximate, residency } = this.#source;
    const slot = fleet.slotOf(workerId, rank);
    if (slot < 0 || isApproximate(slot)) return null;
    const external = u64FromBigInt(hash);
    return TIERS.find((tier) => residency.hasRow(slot, tier, external)) ?? null;
  }
}
