// Tiers as bits of a mask: bit i stands for TIERS[i], so that the lowest set bit is the tier nearest to compute.
import { TIERS, type Tier } from './types.ts';

/** Bits of a mask of tiers. */
export const TIER_BITS: number = TIERS.length;

/** The mask of every tier. */
export const ALL_TIERS: number = 2 ** TIER_BITS - 1;

const BITS: Readonly<Record<Tier, number>> = { device: 1, host: 2, disk: 4, external: 8 };
const INDEXES: Readonly<Record<Tier, number>> = { device: 0, host: 1, disk: 2, external: 3 };

/** The bit of one tier. */
export function tierBit(tier: Tier): number {
  return BITS[tier];
}

/** The place of one tier in `TIERS`. */
export function tierIndex(tier: Tier): number {
  return INDEXES[tier];
}

/** The mask of a list of tiers, in whatever order they are listed. */
export function tierMask(tiers: readonly Tier[]): number {
  let mask = 0;
  for (const tier of tiers) mask |= BITS[tier];
  return mask;
}

/** How many tiers are in a mask. */
export function tierCount(mask: number): number {
  return (mask & 1) + ((mask >> 1) & 1) + ((mask >> 2) & 1) + (mask >> 3);
}
