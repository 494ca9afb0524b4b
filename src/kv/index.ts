// Identity and residency of KV blocks: hashing and the prefix index.
export type { BlockHasher, HashPairs, PromptHashes, U64 } from './hashing/types.ts';
export {
  fromBigUint64Array,
  hashAt,
  toBigUint64Array,
  u64Add,
  u64Equal,
  u64FromBigInt,
  u64ToBigInt,
} from './hashing/u64.ts';
export { U64Map, type U64MapVisitor } from './hashing/u64-map.ts';
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
