// What the queue asks of fleet and loads: whether those that could take a request are busy with prompts, and how much of its prompt any
// of them has cached. Whether a worker is over a busy threshold of its model is another matter, and not asked here.
import { type Fleet, maxNumBatchedTokensOf, type PartitionCandidates } from '../fleet/index.ts';
import type { RoleRuntime } from '../host/index.ts';
import type { OwnerSlot, PrefixMatch } from '../kv/index.ts';
import type { Partition, Role } from '../plugin/index.ts';
import { type EligibilityRules, exclusionOf, rulesOf } from './eligibility.ts';
import type { QueueClass } from './queue/index.ts';
import type { SlotLoads } from './slot-loads.ts';
import type { PlacementConstraints } from './types.ts';

/** Tokens per pass of a rank that does not say. */
const UNKNOWN_CAPACITY = 10_000_000;

/** Ratios are written with few decimals: 19 of 20 workers are 0.95 of them. */
const ROUNDING = 1e-9;

/** A request as far as the gate looks at it. */
export interface GatedRequest {
  readonly partition: Partition;
  readonly role: Role;
  readonly constraints: PlacementConstraints;
  /** LoRA adapter that it asks for; null = none. */
  readonly loraName: string | null;
  /** There = its caller carries it to the worker, so those that callers registered count. */
  readonly caller?: object | null;
}

/** Whose workers are asked for. */
type GatedPartition = Pick<GatedRequest, 'partition' | 'role' | 'caller'>;

/** What the gate reads. */
export interface GateParts {
  readonly fleet: Fleet;
  readonly loads: Pick<SlotLoads, 'prefillTokensOn' | 'activePrefillTokens'>;
  /** What a block in host memory and on disk is worth in blocks on the device, where the policy does not say. */
  readonly weights: () => { readonly host: number; readonly disk: number };
}

/** Answers the queue's questions. */
export class QueueGate {
  readonly #parts: GateParts;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** Workers that serve a model in a role, without those that are gone; limits are per worker. */
  workersOf(of: GatedPartition): number {
    const { fleet } = this.#parts;
    const { slots } = this.#candidates(of);
    let workers = 0;
    let last: unknown = null;
    for (const slot of slots) {
      const worker = fleet.workerOfSlot(slot);
      if (worker === null || worker === last) continue;
      last = worker;
      if (worker.state !== 'gone') workers += 1;
    }
    return workers;
  }

  /** Prompt tokens of the prompts that those who serve a model in a role compute now, each in full until its first token. */
  prefillTokensOf(of: GatedPartition): number {
    let tokens = 0;
    for (const slot of this.#candidates(of).slots) {
      tokens += this.#parts.loads.activePrefillTokens[slot] ?? 0;
    }
    return tokens;
  }

  /**
   * Whether a request of a class has to wait: all ranks it may go to have more prompt tokens to compute than the class allows, or those
   * of `busyWorkerRatio` of the workers have. Never where no rank may take it: then selection says why.
   */
  isBusy(queueClass: QueueClass, request: GatedRequest): boolean {
    const { fleet } = this.#parts;
    const { slots, ranks } = this.#candidates(request);
    const rules = rulesOf(request.constraints, request.loraName);
    const ratio = queueClass.busyWorkerRatio;
    let workers = 0;
    let busy = 0;
    // The ranks of a worker stand together.
    for (let at = 0; at < slots.length; ) {
      const worker = fleet.workerOfSlot(slots[at]!);
      let eligible = false;
      let free = false;
      do {
        if (exclusionOf(worker, ranks[at]!, rules) < 0) {
          eligible = true;
          free ||= !this.#isRankBusy(queueClass, slots[at]!);
        }
        at += 1;
      } while (at < slots.length && fleet.workerOfSlot(slots[at]!) === worker);
      if (!eligible) continue;
      if (free && ratio === null) return false;
      workers += 1;
      if (!free) busy += 1;
    }
    return workers > 0 && busy >= (ratio ?? 1) * workers - ROUNDING;
  }

  /**
   * The most tokens of a prompt that any rank has cached which may take the request, at most all: by tiers as for the default cost.
   * @param match what the index found; null = no index was asked, 0.
   */
  bestCached(
    request: GatedRequest,
    match: PrefixMatch | null,
    runtime: Pick<RoleRuntime, 'costWeights'>,
    blockSize: number,
    promptTokens: number,
  ): number {
    if (match === null || match.count === 0) return 0;
    const rules = rulesOf(request.constraints, request.loraName);
    const { host: usualHost, disk: usualDisk } = this.#parts.weights();
    const hostWeight = runtime.costWeights?.host_cache_hit_weight ?? usualHost;
    const diskWeight = runtime.costWeights?.disk_cache_hit_weight ?? usualDisk;
    const [device, host, disk, external] = match.depthPerTier;
    let most = 0;
    for (let found = 0; found < match.count; found += 1) {
      const onDisk = (disk?.[found] ?? 0) + (external?.[found] ?? 0);
      const blocks = (device?.[found] ?? 0) + (host?.[found] ?? 0) * hostWeight + onDisk * diskWeight;
      if (blocks > most && this.#mayTake(match.owners[found] ?? -1, request, rules)) most = blocks;
    }
    return Math.min(promptTokens, Math.round(most * blockSize));
  }

  #candidates({ partition, role, caller }: GatedPartition): PartitionCandidates {
    return this.#parts.fleet.candidates(partition, role, isCarried(caller));
  }

  /** Of other models and roles, too, the index knows who holds what. */
  #mayTake(slot: OwnerSlot, { partition, role, caller }: GatedRequest, rules: EligibilityRules): boolean {
    const { fleet } = this.#parts;
    const worker = fleet.workerOfSlot(slot);
    if (worker === null) return false;
    const { spec } = worker;
    if (
      spec.model !== partition.model ||
      fleet.groupOf(spec) !== partition.routingGroup ||
      spec.role !== role
    )
      return false;
    if (spec.registered === true && !isCarried(caller)) return false;
    return exclusionOf(worker, fleet.slotRank(slot), rules) < 0;
  }

  #isRankBusy(
    { prefillBusyThreshold: tokens, prefillBusyThresholdFrac: share }: QueueClass,
    slot: OwnerSlot,
  ): boolean {
    const active = this.#parts.loads.prefillTokensOn(slot);
    if (tokens !== null && active > tokens) return true;
    if (share === null) return false;
    const worker = this.#parts.fleet.workerOfSlot(slot);
    const perPass = (worker && maxNumBatchedTokensOf(worker)) ?? UNKNOWN_CAPACITY;
    return active > share * perPass;
  }
}

function isCarried(caller: object | null | undefined): boolean {
  return caller !== undefined && caller !== null;
}
