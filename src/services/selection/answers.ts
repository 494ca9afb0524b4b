// What clients are told of a choice, in the names of the wire.
import type { Fleet } from '../../fleet/index.ts';
import type { PrefixMatch } from '../../kv/index.ts';
import type { PromptLookup } from '../../road/index.ts';
import type { Placement, SlotLoads } from '../../scheduling/index.ts';

/** What a worker has of a prompt, in tokens; each tier includes those before it, and each is the most of any rank. */
export interface Overlap {
  readonly longest_matched: number;
  readonly gpu: number;
  /** On the device, by rank. */
  readonly dp: Readonly<Record<string, number>>;
  readonly cpu: number;
  readonly disk: number;
}

/** A choice. */
export interface ChosenAnswer {
  readonly worker_id: bigint;
  readonly dp_rank: number;
  readonly endpoint: string;
  readonly block_size: number;
  readonly overlap: Overlap;
  /** Prompt tokens that the worker has to compute. */
  readonly effective_prefill_tokens: number;
  /** Blocks in use with this request, its whole prompt counted once more, as in the Rust service. */
  readonly potential_decode_blocks: number;
}

/** Load of one worker rank. */
export interface LoadRow {
  readonly worker_id: bigint;
  readonly dp_rank: number;
  readonly potential_prefill_tokens: number;
  readonly potential_decode_blocks: number;
  readonly active_requests: number;
}

/** Reads a choice; what it reads from is reused. */
export function chosenAnswer(
  fleet: Fleet,
  { blockSize, match }: PromptLookup,
  placement: Placement,
  promptTokens: number,
): ChosenAnswer {
  const { rank, row, table, workerId } = placement;
  return {
    worker_id: workerId,
    dp_rank: rank,
    endpoint: fleet.worker(workerId)?.spec.url ?? '',
    block_size: blockSize,
    overlap: overlapOf(fleet, match, blockSize, workerId, rank),
    effective_prefill_tokens: Math.max(0, promptTokens - (table.cachedTokens[row] ?? 0)),
    potential_decode_blocks:
      (table.activeDecodeBlocks[row] ?? 0) + placement.decodeBlocks + Math.ceil(promptTokens / blockSize),
  };
}

function overlapOf(
  fleet: Fleet,
  match: PrefixMatch | null,
  blockSize: number,
  workerId: bigint,
  rank: number,
): Overlap {
  const dp: Record<string, number> = { [rank]: 0 };
  let [gpu, cpu, disk] = [0, 0, 0];
  for (let found = 0; match !== null && found < match.count; found += 1) {
    const slot = match.owners[found] ?? -1;
    if (fleet.slotWorkerId(slot) !== workerId) continue;
    const [device, host, onDisk, external] = match.depthPerTier;
    const onDevice = (device?.[found] ?? 0) * blockSize;
    const withHost = onDevice + (host?.[found] ?? 0) * blockSize;
    const all = withHost + ((onDisk?.[found] ?? 0) + (external?.[found] ?? 0)) * blockSize;
    if (onDevice > 0) dp[fleet.slotRank(slot)] = onDevice;
    gpu = Math.max(gpu, onDevice);
    cpu = Math.max(cpu, withHost);
    disk = Math.max(disk, all);
  }
  return { longest_matched: disk, gpu, dp, cpu, disk };
}

/** What is booked on every rank of some workers. */
export function loadRows(
  workers: readonly {
    readonly spec: { readonly id: bigint; readonly ranks: { readonly first: number } };
    readonly slots: readonly number[];
  }[],
  loads: SlotLoads,
): LoadRow[] {
  return workers.flatMap(({ slots, spec }) =>
    slots.map((slot, index) => {
      const { decodeBlocks, prefillTokens, requests } = loads.bookedOn(slot);
      return {
        worker_id: spec.id,
        dp_rank: spec.ranks.first + index,
        potential_prefill_tokens: prefillTokens,
        potential_decode_blocks: decodeBlocks,
        active_requests: requests,
      };
    }),
  );
}
