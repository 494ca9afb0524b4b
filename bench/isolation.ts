// What a thread of its own costs a plugin, against the same in process. Hint policies: the hint stage of one booking from its start to
// its envelope, with nothing but the booking's facts and with a copy's 2,048 hashes. Request classifiers: one request from its beginning
// to its overrides. And what starting a thread takes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseConfig } from '../src/config/index.ts';
import {
  type ClassifierOutcome,
  createPluginHost,
  type HintBooking,
  type HintFleet,
  type HintStageResult,
  type ResolvedPluginHost,
} from '../src/host/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex, TIERS } from '../src/kv/index.ts';
import { type Clock, NO_LOG } from '../src/plugin/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';

const BLOCKS = 2048;
const BLOCK = 16;
const WARM_UP = 500;
const ROUNDS = 41;
const PER_ROUND = 50;
const PARTITION = { model: 'bench', routingGroup: 'default' };

const benchmark: Benchmark = { name: 'isolation', run };
export default benchmark;

const PLUGIN = `import { defineHintPolicy, defineRequestClassifier } from 'pointsman/plugin';
const act = (payload) => [{ type: 'acme.mark', version: '1.0', payload }];
export const marks = defineHintPolicy({ type: 'marks', create: () => ({ buildHints: ({ promptTokens }) => act({ promptTokens }) }) });
export const fetches = defineHintPolicy({
  type: 'fetches',
  inputs: ['kv-copy-locations'],
  create: () => ({ buildHints: ({ copyLocations }) => act({ hashes: copyLocations.bestSource(1).blockHashes }) }),
});
export const costs = defineRequestClassifier({
  type: 'costs',
  create: () => ({ classify: ({ inputTokens }) => ({ schedulingCostTokens: inputTokens }) }),
});
`;

const CLOCK: Clock = {
  now: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Slot 0 is the booked rank, slot 1 holds the whole prompt. */
const FLEET: HintFleet = {
  slotRank: () => 0,
  workerOfSlot: (slot) => ({
    spec: { id: BigInt(slot) },
    state: 'ready',
    capabilities: {
      epoch: 'e',
      model: 'bench',
      workerType: 'aggregated',
      blockSize: BLOCK,
      hashScheme: 's',
      reportsOutcomes: false,
      ranks: new Map([
        [0, { routerHint: true, actions: null, sourceControlEndpoint: `tcp://127.0.0.1:${9000 + slot}` }],
      ]),
    },
  }),
};

async function run(): Promise<BenchResult> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-isolation-'));
  const hosts: ResolvedPluginHost[] = [];
  try {
    writeFileSync(join(folder, 'policies.mjs'), PLUGIN);
    const start = async (policies: string) => {
      const yaml = `plugins: [./policies.mjs]\n${policies}`;
      const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
      const made = await createPluginHost({
        config,
        source,
        clock: CLOCK,
        seed: 1,
        log: NO_LOG,
        fleet: FLEET,
        threads: { modules: {} },
      });
      hosts.push(made);
      return made;
    };
    const next = bookings();
    const hints = async (type: string, isolation: string) => {
      const entry = `{ type: ${type}, isolation: ${isolation}, deadline: 10s }`;
      const stage = stageOf(await start(`worker_selection: { aggregated: { hints: [${entry}] } }`));
      return { prepare: next, run: stage };
    };
    const classifies = async (isolation: string) => {
      const entry = `{ type: costs, isolation: ${isolation}, deadline: 10s }`;
      return classifierOf(await start(`request_classifier: ${entry}`));
    };
    const variants = [
      timed('hint policy, in process', await hints('marks', 'in-process')),
      timed('hint policy, in a thread', await hints('marks', 'thread')),
      timed(`hint policy, in process, ${BLOCKS} hashes`, await hints('fetches', 'in-process')),
      timed(`hint policy, in a thread, ${BLOCKS} hashes`, await hints('fetches', 'thread')),
      timed('classifier, in process', await classifies('in-process')),
      timed('classifier, in a thread', await classifies('thread')),
    ];
    for (const { once } of variants) for (let warm = 0; warm < WARM_UP; warm += 1) await once();
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const { once, samples } of variants) {
        for (let count = 0; count < PER_ROUND; count += 1) samples.push(await once());
      }
    }
    const startMs: number[] = [];
    const rss = process.memoryUsage.rss();
    for (let count = 0; count < 4; count += 1) {
      const start = performance.now();
      await hints('marks', 'thread');
      startMs.push(performance.now() - start);
    }
    const mib = (process.memoryUsage.rss() - rss) / startMs.length / 2 ** 20;
    const rows = variants.flatMap(({ name, samples }): BenchRow[] => [
      row(`${name}: median`, 'µs/request', quantile(samples, 0.5)),
      row(`${name}: 99th percentile`, 'µs/request', quantile(samples, 0.99)),
    ]);
    return {
      name: 'isolation',
      rows: [
        ...rows,
        row('starting a thread: median', 'ms', quantile(startMs, 0.5)),
        row('a thread: resident memory', 'MiB', mib),
      ],
      notes: [
        'Hint policy: wall time of one hint stage with one policy, from the booking to the envelope. Classifier: from the beginning of a request to its overrides.',
        'One at a time, so a thread is always idle when it is asked. The router is idle meanwhile: its other requests go on while one waits for a thread.',
        'Starting a thread includes loading the transpiler, the plugin and one trial of create.',
      ],
    };
  } finally {
    for (const host of hosts) await host.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Something that is done once per request; `prepare` is not timed. */
interface Timed<T> {
  readonly prepare: () => T;
  /** @throws where it does not come to what it must. */
  readonly run: (prepared: T) => Promise<unknown>;
}

/** Does it and answers how long it took, µs. */
function timed<T>(name: string, { prepare, run: act }: Timed<T>) {
  const samples: number[] = [];
  const once = async (): Promise<number> => {
    const prepared = prepare();
    const start = performance.now();
    await act(prepared);
    return (performance.now() - start) * 1000;
  };
  return { name, samples, once };
}

/** Requests of their own ids, each ended before the next one begins. */
function classifierOf(host: ResolvedPluginHost): Timed<string> {
  const stage = host.classifierFor(PARTITION);
  if (stage === null) throw new Error('there is no classifier');
  let count = 0;
  return {
    prepare() {
      count += 1;
      return `r${count}`;
    },
    async run(requestId) {
      const facts = { session: null, promptTokens: 100, policyClass: null, arrivedAt: 0, pinnedWorker: null };
      const lifecycle = stage.begin({ requestId, ...facts });
      const outcome = await new Promise<ClassifierOutcome>((resolve) => lifecycle.classify(resolve));
      lifecycle.completed(null);
      if (outcome.kind !== 'classified' || !outcome.classification.asked) {
        throw new Error('a classifier that always answers did not');
      }
    },
  };
}

function stageOf(host: ResolvedPluginHost): (booking: HintBooking) => Promise<void> {
  const { hintStage, threadedHints } = host.roleRuntime(PARTITION, 'aggregated', BLOCK);
  return (booking) =>
    new Promise((resolve, reject) => {
      const take = ({ hint }: HintStageResult): void => {
        if (hint === null) reject(new Error('a policy that always answers did not'));
        else resolve();
      };
      const result = threadedHints?.start(booking, take) ?? hintStage?.run(booking);
      if (result === undefined) reject(new Error('the role has no hint stage'));
      else if (!('pending' in result)) take(result);
    });
}

/** Bookings of one prompt of which another worker holds everything. */
function bookings(): () => HintBooking {
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  for (const slot of [0, 1]) index.bindOwner(slot, BigInt(slot));
  const tokens = Uint32Array.from({ length: BLOCKS * BLOCK }, (_, at) => at);
  const hashes = hasher.hashPrompt(tokens, BLOCK, blockHashSeed({}));
  index.store(1, 'device', null, hashes.local, hashes.local);
  return () => ({
    requestId: 'r',
    slot: 0,
    workerId: 0n,
    rank: 0,
    role: 'aggregated',
    partition: PARTITION,
    promptTokens: tokens.length,
    blockSize: BLOCK,
    session: null,
    hashes,
    match: index.find(hashes.local, hashes.sequence, TIERS),
    index,
    incomingHint: null,
  });
}

function row(name: string, unit: string, value: number): BenchRow {
  return { case: name, unit, value: Math.round(value * 10) / 10, ratio: null, against: null };
}

function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
