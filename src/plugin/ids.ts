// Identities that cross every border of the router. All are full 64-bit values: never a JS number.

declare const workerIdBrand: unique symbol;
declare const blockHashBrand: unique symbol;

/** A worker's id: any u64, given in the configuration or derived from its url. */
export type WorkerId = bigint & { readonly [workerIdBrand]?: true };

/** A block hash as the engine concerned announced it in its KV events: any u64. */
export type BlockHash = bigint & { readonly [blockHashBrand]?: true };

/** One data-parallel rank of one worker: the unit that owns KV blocks and receives requests. */
export interface WorkerRank {
  readonly workerId: WorkerId;
  /** Global data-parallel rank, 0-based. */
  readonly rank: number;
}

/** Every role, in the order that tables list them; frozen, as the router goes through it too. */
export const ROLES: readonly ['aggregated', 'prefill', 'decode', 'encode'] = Object.freeze([
  'aggregated',
  'prefill',
  'decode',
  'encode',
] as const);

/** What a worker serves: `aggregated` does prefill and decode. */
export type Role = (typeof ROLES)[number];

/** Workers are chosen within one partition: one model in one routing group. */
export interface Partition {
  readonly model: string;
  readonly routingGroup: string;
}
