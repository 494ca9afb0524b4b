// A whole routing decision, from tokens to a dispatched request and back to an empty booking: 4,096 tokens in blocks of 16, 32
// workers, the default cost, a prefix index with 240,000 stored blocks. Beside it the part nobody can avoid: hashing the
// prompt with its copies. The road runs as in a router; only the engines are a transport that answers at once.
import type { EngineExchange, EngineSink } from '../src/engines/index.ts';
import { BlockSizes, Fleet } from '../src/fleet/index.ts';
import { createSoloRuntime } from '../src/host/index.ts';
import {
  blockHashSeed,
  createBlockHasher,
  createPrefixIndex,
  type PrefixIndex,
  ROUTER_SEED,
  TIERS,
} from '../src/kv/index.ts';
import { DecisionRing, NO_METRICS } from '../src/observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  ManualClock,
  NO_LOG,
  type Rng,
  seededRng,
} from '../src/plugin/index.ts';
import { createRoad, type ResponseSink, type Road, type RoadRequest } from '../src/road/index.ts';
import { DefaultChoice, Scheduler } from '../src/scheduling/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';

const TOKENS = 4096;
const BLOCK = 16;
const BLOCKS = TOKENS / BLOCK;
const WORKERS = 32;
/** Distinct prompts, each resident in three quarters of its length on one worker and sharing its first 512 tokens with many. */
const PROMPTS = 1250;
const RESIDENT = (BLOCKS * 3) / 4;
const SHARED_TOKENS = 512;
const SYSTEM_PROMPTS = 8;
/** Bookings held at any time: a decision frees the one made this many decisions before. */
const HELD = 64;
const ROUNDS = 15;
const PER_ROUND = 400;
const WARM_UP = 3000;
const PARTITION = { model: 'bench', routingGroup: 'default' };
const AIM = 2.5;

const hasher = createBlockHasher();

const benchmark: Benchmark = { name: 'decision', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const prompts = makePrompts(seededRng(1));
  const recorded = await makeRoad(prompts, true);
  const bare = await makeRoad(prompts, false);
  const variants: readonly {
    readonly name: string;
    readonly once: (turn: number) => void;
    readonly samples: number[];
  }[] = [
    { name: HASHING, once: (turn) => hash(prompts[turn % PROMPTS]!), samples: [] },
    { name: LOOKING_UP, once: (turn) => lookUp(bare.index, prompts[turn % PROMPTS]!), samples: [] },
    { name: DECIDING, once: bare.decide, samples: [] },
    { name: RECORDING, once: recorded.decide, samples: [] },
  ];
  let turn = 0;
  for (const { once } of variants) for (let warm = 0; warm < WARM_UP; warm += 1) once(turn++);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { once, samples } of variants) {
      const startedAt = process.hrtime.bigint();
      for (let count = 0; count < PER_ROUND; count += 1) once(turn++);
      samples.push(Number(process.hrtime.bigint() - startedAt) / 1000 / PER_ROUND);
    }
  }
  const floor = median(variants[0]!.samples);
  const rows = variants.map(({ name, samples }): BenchRow => {
    const value = median(samples);
    const against = name === HASHING ? null : HASHING;
    return {
      case: name,
      unit: 'µs',
      value: rounded(value),
      ratio: against === null ? null : rounded(floor / value),
      against,
    };
  });
  if (sunk === 1) throw new Error('unreachable in practice');
  const times = median(variants[2]!.samples) / floor;
  return {
    name: 'decision',
    rows,
    notes: [
      `${TOKENS} tokens, blocks of ${BLOCK}, ${WORKERS} workers, ${PROMPTS} prompts, ${PROMPTS * RESIDENT} blocks stored, ${HELD} bookings held; kernel: ${hasher.kind}.`,
      'A decision is one call of the road: hash, look up, project loads, choose, book, hint stage without policies, dispatch; and the end of an older request, which frees its booking.',
      `A whole decision takes ${times.toFixed(2)} times hashing and copying alone; the aim is at most ${AIM}${times > AIM ? ', which this run missed' : ''}.`,
    ],
  };
}

const HASHING = 'hash and copy alone';
const LOOKING_UP = 'hash and look up';
const DECIDING = 'whole decision, no record';
const RECORDING = 'whole decision with record';

/** Keeps results alive, so that no work can be left out; shown in no figure. */
let sunk = 0;

function hash(tokens: Uint32Array): void {
  sunk ^= hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED).sequence[0]!;
}

function lookUp(index: PrefixIndex, tokens: Uint32Array): void {
  const { local, sequence } = hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED);
  sunk ^= index.find(local, sequence, TIERS).count;
}

function makePrompts(rng: Rng): Uint32Array[] {
  const random = (count: number) => Uint32Array.from({ length: count }, () => rng.integer(150_000));
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => random(SHARED_TOKENS));
  return Array.from({ length: PROMPTS }, () => {
    const tokens = random(TOKENS);
    tokens.set(systems[rng.integer(SYSTEM_PROMPTS)]!);
    return tokens;
  });
}

async function makeRoad(prompts: readonly Uint32Array[], records: boolean) {
  const clock = new ManualClock();
  const fleet = new Fleet();
  const index = createPrefixIndex({ hasher });
  const cost = linearCost();
  const runtime = await createSoloRuntime({
    selection: {
      definition: defineWorkerSelectionPolicy({ type: 'default-cost', create: () => ({ cost }) }),
    },
    partition: PARTITION,
    role: 'aggregated',
    blockSize: BLOCK,
    clock,
    seed: 1,
    log: NO_LOG,
    fleet,
  });
  const scheduler = new Scheduler({ fleet, fallback: new DefaultChoice(cost, seededRng(1)) });
  const engines: EngineSink[] = [];
  const exchange: EngineExchange = { abort() {}, pause() {}, resume() {} };
  const road = createRoad({
    fleet,
    scheduler,
    blockSizes: new BlockSizes(fleet, () => BLOCK),
    index,
    hasher,
    blockHashSeed,
    runtimeFor: () => runtime,
    transportFor: () => ({
      dispatch(_request, sink) {
        engines.push(sink);
        return exchange;
      },
      close() {},
    }),
    health: null,
    decisions: records
      ? new DecisionRing({
          bytes: 2 ** 24,
          candidates: 64,
          hashId: () => '00000000',
          startMs: 0,
          metrics: NO_METRICS,
        })
      : null,
    mode: 'kv',
    concurrentRequests: 1_000_000,
    clock,
    metrics: NO_METRICS,
    wallMicros: () => 0,
  });
  addWorkers(fleet);
  for (const [number, tokens] of prompts.entries()) store(index, number % WORKERS, tokens);
  return { index, decide: (turn: number) => decide(road, engines, prompts[turn % PROMPTS]!, turn) };
}

function addWorkers(fleet: Fleet): void {
  for (let worker = 1; worker <= WORKERS; worker += 1) {
    fleet.add({
      id: BigInt(worker),
      model: PARTITION.model,
      url: 'virtual:',
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
    });
  }
}

/** What an engine would have announced: the leading blocks of a prompt under hashes of its own. */
function store(index: PrefixIndex, slot: number, tokens: Uint32Array): void {
  const { local, sequence } = hasher.hashPrompt(tokens.subarray(0, RESIDENT * BLOCK), BLOCK, ROUTER_SEED);
  const external = sequence.map((word) => (word ^ 0x5bd1e995) >>> 0);
  index.store(slot, 'device', null, external, local);
}

const SINK: ResponseSink = {
  booked() {},
  head() {},
  data() {},
  tokens() {},
  finished() {},
  failed(error) {
    throw error;
  },
};
const DONE = {
  promptTokens: TOKENS,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;
const CONSTRAINTS: RoadRequest['constraints'] = {
  pinnedWorker: null,
  allowedWorkers: null,
  requiredTaints: [],
  preferredTaints: new Map(),
  temperature: null,
  priority: 0,
  strictPriority: 0,
};

function decide(road: Road, engines: EngineSink[], tokens: Uint32Array, turn: number): void {
  road.arrive(
    {
      requestId: `r${turn}`,
      door: 'replay',
      partition: PARTITION,
      role: 'aggregated',
      servedAs: 'bench',
      api: 'completions',
      body: null,
      stream: true,
      tokens,
      tokensSource: 'given',
      maxOutputTokens: 1,
      expectedOutputTokens: null,
      loraName: null,
      cacheSalt: null,
      session: null,
      constraints: CONSTRAINTS,
      incomingHint: null,
      tokenizeMicros: 0,
    },
    SINK,
  );
  if (engines.length > HELD) engines.shift()?.finished(DONE);
}

function median(samples: readonly number[]): number {
  return [...samples].sort((a, b) => a - b)[samples.length >> 1]!;
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
