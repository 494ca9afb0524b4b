// Identity and residency of KV blocks: hashing, the prefix index, and which blocks sessions have.

export {
  ApproximateResidency,
  type ApproximateResidencyOptions,
  type ApproximateResidencyStats,
  type PromptEnd,
} from './approximate/approximate-residency.ts';
export { type BlockHashScope, blockHashSeed } from './hashing/block-hash-seed.ts';
export { createBlockHasher } from './hashing/block-hasher.ts';
export { type BlockForm, hashBlocks } from './hashing/hash-blocks.ts';
export {
  isDigestId,
  type MultimodalItems,
  multimodalHash,
} from './hashing/multimodal.ts';
export { createReferenceHasher } from './hashing/reference-hasher.ts';
export { ROUTER_SEED } from './hashing/router-seed.ts';
export type { BlockHasher, HashPairs, PromptHashes, U64 } from './hashing/types.ts';
export {
  fromBigUint64Array,
  hashAt,
  u64FromBigInt,
  u64ToBigInt,
} from './hashing/u64.ts';
export { U64Map, type U64MapVisitor } from './hashing/u64-map.ts';
export { runtimeWebAssembly, type WasmMemory, type WasmModule } from './hashing/wasm-api.ts';
export { KEYLESS_PREFIX, type KeylessLimits, KeylessSessions } from './keyless/keyless-sessions.ts';
export {
  type SessionOwner,
  sessionKey,
  sessionKeyPrefix,
  sessionKeyWithin,
  sessionNamespace,
  sessionTenant,
} from './lineage/session-key.ts';
export { SessionPrefixIndex } from './lineage/session-prefix-index.ts';
export {
  SessionUpdates,
  type SessionUpdatesOptions,
  type SessionUpdatesStats,
} from './lineage/session-updates.ts';
export type {
  LineageBlock,
  LineageLimits,
  LineageNodeId,
  LineageOutcome,
  LineageStats,
  OwnerFrontier,
  SessionKey,
} from './lineage/types.ts';
export { createPrefixIndex } from './residency/extent-index.ts';
export { deviceDepth, matchedRow } from './residency/matched-depth.ts';
export type { PrefixIndexOptions } from './residency/prefix-index-options.ts';
export {
  type CopyableIndex,
  type DeviceFollower,
  type DumpedBlock,
  type DumpPage,
  type FollowedIndex,
  MOST_BEFORE,
  type OwnerSlot,
  type PrefixIndex,
  type PrefixIndexStats,
  type PrefixMatch,
  type StoreOutcome,
  TIERS,
  type Tier,
} from './residency/types.ts';
export { type ReadOwner, ROW, type SnapshotOwner } from './snapshot/layout.ts';
export { OrderedRuns, type SnapshotRun } from './snapshot/ordered-runs.ts';
export { type RestoredRows, restoreSnapshot } from './snapshot/restore-snapshot.ts';
export { readSnapshot, type Snapshot, type SnapshotRows } from './snapshot/snapshot-reader.ts';
export { type SnapshotSource, SnapshotWriter } from './snapshot/snapshot-writer.ts';
