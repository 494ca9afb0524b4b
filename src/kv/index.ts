// Identity and residency of KV blocks: hashing and the prefix index.
export type { BlockHasher, HashPairs, PromptHashes, U64 } from './hashing/types.ts';
export {
  type DumpedBlock,
  type DumpPage,
  type OwnerSlot,
  type PrefixIndex,
  type PrefixIndexStats,
  type PrefixMatch,
  type StoreOutcome,
  TIERS,
  type Tier,
} from './residency/types.ts';
