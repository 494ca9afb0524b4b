// A small router for `doctor`: the real fleet, index, event streams and parity monitor, fed by prompts of its own instead of traffic.
import type { RouterConfig, WorkerConfig } from '../config/index.ts';
import { createHttpProbe, createHttpTransport, DIALECTS, type HttpTransport } from '../engines/index.ts';
import { createKvEventApplier, type KvEventApplier } from '../events/index.ts';
import { BlockSizes, Fleet, parseCapabilities, type Worker, workerSpecOf } from '../fleet/index.ts';
import { type BlockHasher, blockHashSeed, createBlockHasher, createPrefixIndex } from '../kv/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { type EvidenceNeeded, ParityMonitor } from '../parity/index.ts';
import { type Clock, errorText, NO_LOG, type WorkerId } from '../plugin/index.ts';
import type { TokenFacts } from '../tokens/index.ts';
import type { ProbeSender } from './doctor-prompts.ts';
import { EventSubscriptions } from './event-subscriptions.ts';
import { idsDifferOf, streamOf } from './watch-parity.ts';

/** Memory for what engines announce meanwhile, their history included. */
const INDEX_BYTES = 64 * 1024 * 1024;

/** An engine's account of itself may take so long, ms. */
const ASK_MS = 5_000;

/** What the doctor works with. */
export interface DoctorFleet extends ProbeSender {
  readonly config: RouterConfig;
  readonly fleet: Fleet;
  readonly hasher: BlockHasher;
  readonly blockSizes: BlockSizes;
  readonly events: KvEventApplier;
  readonly subscriptions: EventSubscriptions;
  readonly monitor: ParityMonitor;
  readonly transport: HttpTransport;
  readonly clock: Clock;
  /** Workers that do not answer, and why. */
  readonly silent: ReadonlyMap<WorkerId, string>;
  close(): void;
}

/** How a fleet is watched. */
export interface DoctorFleetOptions {
  readonly clock: Clock;
  readonly needed: EvidenceNeeded;
  readonly settleMs: number;
  /** Of a model's tokenizer here; null = there is none. */
  readonly factsOf: (model: string) => TokenFacts | null;
}

/** The dialect that a worker speaks, by its own account where it gave one. */
export function dialectOf({ engine = null, spec }: Pick<Worker, 'engine' | 'spec'>): string {
  return engine?.dialect ?? spec.dialect;
}

/** Takes in the workers of a configuration, asks them what they are, and subscribes to their events. */
export async function doctorFleet(
  config: RouterConfig,
  { clock, factsOf, needed, settleMs }: DoctorFleetOptions,
): Promise<DoctorFleet> {
  const hasher = createBlockHasher();
  const fleet = new Fleet({ routingGroupOf: (model) => config.models.get(model)?.routingGroup ?? 'default' });
  const blockSizes = new BlockSizes(
    fleet,
    (model) => config.models.get(model)?.blockSize ?? null,
    (model) => config.models.get(model)?.eagle ?? null,
  );
  const index = createPrefixIndex({ hasher, maxBytes: INDEX_BYTES });
  const silent = new Map<WorkerId, string>();
  const computed = new Map<WorkerId, number>();
  // What it hears of events and the streams that feed it know each other.
  const parts: { events: KvEventApplier | null; subscriptions: EventSubscriptions | null } = {
    events: null,
    subscriptions: null,
  };
  const monitor = new ParityMonitor({
    fleet,
    hasher,
    index,
    blockSizeOf: (slot) => blockSizes.ofSlot(slot),
    pairsOf: (slot) => blockSizes.pairsOfSlot(slot) ?? false,
    dialectOf,
    stream: (worker, rank) => streamOf(parts.subscriptions?.status() ?? null, worker, rank),
    feed: (slot) => parts.events?.feed(slot) ?? null,
    replayOf: (slot) => parts.events?.replayOf(slot) ?? null,
    answers: (id) => !silent.has(id),
    unheard: (id) => computed.get(id) ?? 0,
    idsDiffer: idsDifferOf(factsOf),
    needed,
    settleMs,
    clock,
    metrics: NO_METRICS,
  });
  const events = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    isOwner: (owner) => fleet.slotWorkerId(owner) !== null,
    blockSizeOf: (owner) => blockSizes.ofSlot(owner),
    learnBlockSize: (owner, blockSize) => blockSizes.learn(owner, blockSize),
    tokenPairs: {
      of: (owner) => blockSizes.pairsOfSlot(owner),
      learn: (owner, pairs) => blockSizes.learnPairs(owner, pairs),
    },
    placeholderOf(owner) {
      const worker = fleet.workerOfSlot(owner);
      return worker === null ? null : (config.models.get(worker.spec.model)?.imageTokenId ?? null);
    },
    ownerOfRank(owner, rank) {
      const worker = fleet.slotWorkerId(owner);
      const slot = worker === null ? -1 : fleet.slotOf(worker, rank);
      return slot < 0 ? null : slot;
    },
    watch: monitor,
    metrics: NO_METRICS,
    clock,
  });
  parts.events = events;
  const subscriptions = new EventSubscriptions({ fleet, sink: events, clock, log: NO_LOG });
  parts.subscriptions = subscriptions;
  const transport = createHttpTransport({ dialects: DIALECTS, metrics: NO_METRICS });
  await Promise.all(config.workers.map((worker) => admit(fleet, worker, hasher, silent, clock)));
  subscriptions.start();
  return {
    ...{
      config,
      fleet,
      hasher,
      blockSizes,
      events,
      subscriptions,
      monitor,
      transport,
      clock,
      silent,
    },
    computed: (id) => void computed.set(id, (computed.get(id) ?? 0) + 1),
    close() {
      subscriptions.close();
      monitor.close();
      for (const { slots } of fleet.workers()) for (const slot of slots) events.forget(slot);
      transport.close();
    },
  };
}

async function admit(
  fleet: Fleet,
  config: WorkerConfig,
  hasher: BlockHasher,
  silent: Map<WorkerId, string>,
  clock: Clock,
): Promise<void> {
  const { capabilities } = config;
  const worker = fleet.add(
    workerSpecOf(config, hasher),
    typeof capabilities === 'string' ? null : parseCapabilities(capabilities),
  );
  const problem = await ask(fleet, worker, capabilities === 'ask', clock);
  if (problem !== null) silent.set(worker.spec.id, problem);
}

/** Null = it answered. */
async function ask(fleet: Fleet, worker: Worker, asks: boolean, clock: Clock): Promise<string | null> {
  const probe = createHttpProbe({ asks: () => asks, clock, log: NO_LOG });
  const limit = new AbortController();
  const cancel = clock.schedule(ASK_MS, () => limit.abort(new Error(`no answer within ${ASK_MS / 1000} s`)));
  try {
    const found = await probe(worker, { askCapabilities: true, signal: limit.signal });
    if (!found.healthy) return 'GET /health gets no good answer, or its dialect is not known';
    if (found.capabilities !== undefined) fleet.setCapabilities(worker.spec.id, found.capabilities);
    if (found.engine !== undefined) fleet.setEngine(worker.spec.id, found.engine);
    return null;
  } catch (thrown) {
    return errorText(thrown);
  } finally {
    cancel();
  }
}
