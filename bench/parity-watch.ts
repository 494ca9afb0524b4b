// What the passive parity watch costs per stored block: the same batches applied with and without it, in turns.
import { createKvEventApplier, encodeEventBatch } from '../src/events/index.ts';
import { BlockSizes, Fleet } from '../src/fleet/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex } from '../src/kv/index.ts';
import { NO_METRICS } from '../src/observe/index.ts';
import { NEEDED_LISTENING, ParityMonitor } from '../src/parity/index.ts';
import { ManualClock } from '../src/plugin/index.ts';

const BATCHES = 2000;
const BLOCKS = 16;
const SIZE = 16;
const ROUNDS = 15;

const payloads = Array.from({ length: BATCHES }, (_, nth) => {
  const external = new Uint32Array(2 * BLOCKS).map((_value, at) =>
    at % 2 === 0 ? nth * BLOCKS + at / 2 + 1 : 9,
  );
  const tokenIds = new Uint32Array(BLOCKS * SIZE).map((_value, at) => (nth * 7919 + at * 31) >>> 0);
  const scope = { parent: null, tier: 'device', loraName: null, cacheSalt: null, sessionId: null } as const;
  const event = { kind: 'stored', external, tokenIds, blockSize: SIZE, ...scope } as const;
  return encodeEventBatch({ timestamp: 1, rank: 0, events: [event] });
});

function round(isWatched: boolean): number {
  const clock = new ManualClock(1000);
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const blockSizes = new BlockSizes(fleet, () => SIZE);
  const worker = fleet.add({
    ...{ id: 1n, model: 'm', url: 'http://e', dialect: 'vllm', role: 'aggregated' as const },
    ...{ ranks: { first: 0, count: 1 }, kvEvents: new Map(), maxNumBatchedTokens: null },
    ...{ totalKvBlocks: null, taints: [], topology: {} },
  });
  const monitor = new ParityMonitor({
    ...{ fleet, hasher, index, clock, metrics: NO_METRICS, needed: NEEDED_LISTENING, settleMs: 250 },
    blockSizeOf: () => SIZE,
    pairsOf: () => false,
    dialectOf: () => 'vllm',
    stream: () => null,
    feed: () => null,
    replayOf: () => null,
    answers: () => true,
    unheard: () => 0,
  });
  const applier = createKvEventApplier({
    ...{ index, hasher, blockHashSeed, clock, metrics: NO_METRICS },
    blockSizeOf: (slot) => blockSizes.ofSlot(slot),
    learnBlockSize: () => undefined,
    ...(isWatched ? { watch: monitor } : {}),
  });
  const slot = worker.slots[0] ?? 0;
  const from = performance.now();
  for (const [sequence, payload] of payloads.entries()) applier.onBatch(slot, sequence, payload);
  return ((performance.now() - from) * 1e6) / (BATCHES * BLOCKS);
}

const ratios: number[] = [];
let least = Number.POSITIVE_INFINITY;
round(true);
round(false);
for (let nth = 0; nth < ROUNDS; nth += 1) {
  const without = round(false);
  ratios.push(round(true) / without);
  least = Math.min(least, without);
}
ratios.sort((a, b) => a - b);
console.log(JSON.stringify({ ratio: ratios[ROUNDS >> 1], nsPerBlockWithout: Math.round(least), ratios }));
