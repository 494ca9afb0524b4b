// What a thread of its own costs a hint policy: the hint stage of one booking from its start to its envelope, in process and through a
// thread, with nothing but the booking's facts and with a copy's 2,048 hashes; and what starting a thread takes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseConfig } from '../src/config/index.ts';
import {
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

const PLUGIN = `import { defineHintPolicy } from 'pointsman/plugin';
const act = (payload) => [{ type: 'acme.mark', version: '1.0', payload }];
export const marks = defineHintPolicy({ type: 'marks', create: () => ({ buildHints: ({ promptTokens }) => act({ promptTokens }) }) });
export const fetches = defineHintPolicy({
  type: 'fetches',
  inputs: ['kv-copy-locations'],
  create: () => ({ buildHints: ({ copyLocations }) => act({ hashes: copyLocations.bestSource(1).blockHashes }) }),
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
    const host = async (type: string, isolation: string) => {
      const yaml = `plugins: [./policies.mjs]
worker_selection: { aggregated: { hints: [{ type: ${type}, isolation: ${isolation}, deadline: 10s }] } }`;
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
      return stageOf(made);
    };
    const variants = [
      { name: 'in process', run: await host('marks', 'in-process') },
      { name: 'in a thread', run: await host('marks', 'thread') },
      { name: `in process, ${BLOCKS} hashes`, run: await host('fetches', 'in-process') },
      { name: `in a thread, ${BLOCKS} hashes`, run: await host('fetches', 'thread') },
    ].map((variant) => ({ ...variant, samples: [] as number[] }));
    const next = bookings();
    for (const { run: once } of variants) for (let warm = 0; warm < WARM_UP; warm += 1) await once(next());
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const { run: once, samples } of variants) {
        for (let count = 0; count < PER_ROUND; count += 1) {
          const booking = next();
          const start = performance.now();
          const { hint } = await once(booking);
          samples.push((performance.now() - start) * 1000);
          if (hint === null) throw new Error('a policy that always answers did not');
        }
      }
    }
    const startMs: number[] = [];
    const rss = process.memoryUsage.rss();
    for (let count = 0; count < 4; count += 1) {
      const start = performance.now();
      await host('marks', 'thread');
      startMs.push(performance.now() - start);
    }
    const mib = (process.memoryUsage.rss() - rss) / startMs.length / 2 ** 20;
    const rows = variants.flatMap(({ name, samples }): BenchRow[] => [
      row(`${name}: median`, 'µs/booking', quantile(samples, 0.5)),
      row(`${name}: 99th percentile`, 'µs/booking', quantile(samples, 0.99)),
    ]);
    return {
      name: 'isolation',
      rows: [
        ...rows,
        row('starting a thread: median', 'ms', quantile(startMs, 0.5)),
        row('a thread: resident memory', 'MiB', mib),
      ],
      notes: [
        'Wall time of one hint stage with one policy, from the booking to the envelope; one booking at a time, so a thread is always idle when it is asked.',
        'The router is idle meanwhile: its other requests go on while a booking waits for a thread.',
        'Starting a thread includes loading the transpiler, the plugin and one trial of create.',
      ],
    };
  } finally {
    for (const host of hosts) await host.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

function stageOf(host: ResolvedPluginHost): (booking: HintBooking) => Promise<HintStageResult> {
  const { hintStage, threadedHints } = host.roleRuntime(PARTITION, 'aggregated', BLOCK);
  return (booking) =>
    new Promise((resolve, reject) => {
      const result = threadedHints?.start(booking, resolve) ?? hintStage?.run(booking);
      if (result === undefined) reject(new Error('the role has no hint stage'));
      else if (!('pending' in result)) resolve(result);
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
