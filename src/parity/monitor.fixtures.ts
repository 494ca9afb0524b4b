// A monitor over the real index and event application, with engines that say what a test tells them to.
import { createKvEventApplier, type EventFeed, encodeEventBatch, type KvEvent } from '../events/index.ts';
import { BlockSizes, Fleet } from '../fleet/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex } from '../kv/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { ParityMonitor } from './parity-monitor.ts';
import type { AnsweredRequest } from './parity-types.ts';
import { NEEDED_LISTENING } from './rank-findings.ts';

export const BLOCK = 4;

/** A store of blocks of {@link BLOCK} tokens, unless said otherwise. */
export function stored(
  external: readonly number[],
  tokens: readonly number[],
  more: Partial<Extract<KvEvent, { kind: 'stored' }>> = {},
): KvEvent {
  return {
    kind: 'stored',
    external: Uint32Array.from(external.flatMap((value) => [value, 9])),
    parent: null,
    tokenIds: Uint32Array.from(tokens),
    blockSize: BLOCK,
    tier: 'device',
    loraName: null,
    cacheSalt: null,
    sessionId: null,
    ...more,
  };
}

/** Workers 1, 2, … of one rank each, of a model with blocks of {@link BLOCK} tokens. */
export function monitored(workers = 1, blockSize: number | null = BLOCK) {
  const clock = new ManualClock(1_000_000);
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const blockSizes = new BlockSizes(fleet, () => blockSize);
  const unheard = new Map<bigint, number>();
  const estimated: { worker: bigint; misleads: boolean }[] = [];
  const streams = { connected: true, replay: 'tcp://e:2' as string | null };
  let feedOf: (slot: number) => EventFeed | null = () => null;
  const monitor: ParityMonitor = new ParityMonitor({
    fleet,
    hasher,
    index,
    blockSizeOf: (slot) => blockSizes.ofSlot(slot),
    pairsOf: () => false,
    dialectOf: ({ spec }) => spec.dialect,
    stream: () => ({ endpoint: 'tcp://e:1', ...streams }),
    feed: (slot) => feedOf(slot),
    replayOf: () => null,
    answers: () => true,
    unheard: (id) => unheard.get(id) ?? 0,
    asksIds: () => true,
    idsDiffer: (_model, router, engine) =>
      router.length === engine.length ? null : `${router.length} here, ${engine.length} there`,
    needed: NEEDED_LISTENING,
    settleMs: 10,
    changed: ({ spec, slots }) =>
      estimated.push({ worker: spec.id, misleads: monitor.misleads(slots[0] ?? -1) }),
    clock,
    metrics: NO_METRICS,
  });
  const applier = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    blockSizeOf: (slot) => blockSizes.ofSlot(slot),
    learnBlockSize: (slot, size) => blockSizes.learn(slot, size),
    watch: monitor,
    clock,
    metrics: NO_METRICS,
  });
  feedOf = (slot) => applier.feed(slot);
  for (let id = 1; id <= workers; id += 1) {
    fleet.add({
      id: BigInt(id),
      model: 'm',
      url: `http://e${id}`,
      dialect: 'vllm',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
    });
  }
  const slotOf = (worker: number): number => fleet.worker(BigInt(worker))?.slots[0] ?? -1;
  const sequences = new Map<number, number>();
  return {
    ...{ clock, fleet, index, monitor, unheard, streams, estimated, slotOf },
    /** An engine publishes one batch, of rank 0 unless a number before the events says otherwise. */
    says(worker: number, ...said: readonly (KvEvent | number)[]): void {
      const events = said.filter((one) => typeof one !== 'number');
      const rank = said.find((one) => typeof one === 'number') ?? 0;
      const sequence = sequences.get(worker) ?? 0;
      sequences.set(worker, sequence + 1);
      const payload = encodeEventBatch({ timestamp: clock.now() / 1000, rank, events });
      applier.onBatch(slotOf(worker), sequence, payload);
    },
    /** A worker answered a prompt; it is judged at once. */
    answered(worker: number, tokens: readonly number[], more: Partial<AnsweredRequest> = {}): void {
      monitor.answered({
        worker: BigInt(worker),
        slot: slotOf(worker),
        tokens: Uint32Array.from(tokens),
        isExact: true,
        blockSize: blockSize ?? BLOCK,
        loraName: null,
        cacheSalt: null,
        predictedTokens: 0,
        promptTokens: tokens.length,
        cachedTokens: 0,
        sentAt: clock.now(),
        ...more,
      });
      clock.advanceTo(clock.now() + 10);
    },
    codes: (worker = 1): string[] =>
      monitor
        .findings()
        .filter((one) => one.worker === BigInt(worker))
        .map(({ code }) => code),
    sentences: (): string[] => monitor.findings().map(({ sentence }) => sentence),
  };
}
