// A bad event stream under the conversation trace: 30 % of the messages dropped, 5 % doubled, 5 % overtaken, engines restarted.
// With replay the index ends as what the engines hold; without, workers are marked stale and what is mispredicted is bounded.
// A sample of the trace comes with the repository; the trace itself lies beside it or not at all.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { ComposedRouter } from '../src/cli/compose-router.ts';
import { composeReplayRouter } from '../src/cli/replay-router.ts';
import { defaultConfig } from '../src/config/index.ts';
import { encodeEventBatch } from '../src/events/index.ts';
import { createBlockHasher } from '../src/kv/index.ts';
import { prepareRun, readTrace } from '../src/replay/index.ts';
import { DEFAULT_ENGINE_SETTINGS, NO_EVENT_FAULTS, VirtualTime } from '../src/simulator/index.ts';

const SAMPLE = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
const WHOLE = fileURLToPath(
  new URL('../../shared/data/mooncake_conversation_trace.jsonl.gz', import.meta.url),
);
const haveWhole = existsSync(WHOLE);
const TEN_MINUTES_MS = 600_000;
const FAULTS = { ...NO_EVENT_FAULTS, drop: 0.3, duplicate: 0.05, reorder: 0.05 };

/** What is replayed, and on what. */
interface Bed {
  readonly file: string;
  readonly limit: number | null;
  readonly workers: number;
  readonly blockSize: number;
  readonly kvBlocks: number;
}

const SAMPLE_BED: Bed = { file: SAMPLE, limit: null, workers: 4, blockSize: 128, kvBlocks: 1500 };
/** The requests of the trace's first ten minutes. */
const WHOLE_BED: Bed = { file: WHOLE, limit: 1750, workers: 8, blockSize: 512, kvBlocks: 5000 };

async function run(bed: Bed, eventReplay: boolean, fastEvents: boolean, faults = FAULTS) {
  let composed: ComposedRouter | null = null;
  let time: VirtualTime | null = null;
  const trace = await readTrace(bed.file, bed.limit);
  const duration = trace.arrivals.at(-1) ?? 0;
  const prepared = await prepareRun({
    name: 'kv',
    trace,
    choice: { kind: 'mode', mode: 'kv' },
    workers: bed.workers,
    engine: { ...DEFAULT_ENGINE_SETTINGS, blockSize: bed.blockSize, kvBlocks: bed.kvBlocks },
    // Ten minutes, whatever the trace's length.
    speedup: duration / TEN_MINUTES_MS,
    seed: 7,
    fastEvents,
    cutEvents: false,
    eventFaults: faults,
    restarts: [
      { worker: 2, atMs: 200_000 },
      { worker: 3, atMs: 400_000 },
      { worker: 2, atMs: 500_000 },
    ],
    eventReplay,
    compose(options) {
      if (options.clock instanceof VirtualTime) time = options.clock;
      const { config, source } = defaultConfig();
      return composeReplayRouter({ config, source }, options, {
        warn: (line) => expect.fail(line),
        onComposed: (router) => {
          composed = router;
        },
      });
    },
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    wallClock: () => 0,
    progress: () => undefined,
    signal: new AbortController().signal,
  });
  const { report } = await prepared.run();
  const router = composed as ComposedRouter | null;
  const clock = time as VirtualTime | null;
  if (router?.index == null || router.events === null || clock === null) throw new Error('no index');
  const { events, fleet, index } = router;
  const slots = Array.from({ length: bed.workers }, (_, at) => fleet.slotOf(BigInt(at + 1), 0));
  // The last messages may be lost without a trace; a new connection asks for them.
  for (const slot of slots) events.onConnection(slot, true);
  clock.runUntil(clock.now() + 60_000);
  const known = slots.map(() => [] as bigint[]);
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page = index.dump(cursor, 10_000);
    for (const { owner, external } of page.blocks) {
      known[slots.indexOf(owner)]?.push((BigInt(external.hi) << 32n) | BigInt(external.lo));
    }
    cursor = page.cursor;
  }
  const held = slots.map((_, at) => hashes(prepared.fleet.engine(BigInt(at + 1)).residentBlocks('device')));
  const feeds = slots.map((slot) => events.feed(slot));
  const sorted = (all: bigint[]): bigint[] => all.sort((a, b) => (a < b ? -1 : 1));
  await prepared.close();
  return { report, feeds, known: known.map(sorted), held: held.map(sorted) };
}

function hashes(pairs: Uint32Array): bigint[] {
  return Array.from(
    { length: pairs.length / 2 },
    (_, at) => (BigInt(pairs[2 * at + 1] ?? 0) << 32n) | BigInt(pairs[2 * at] ?? 0),
  );
}

test.each([false, true])(
  'with replay the index ends as what every engine holds (decoded events: %s)',
  async (fast) => {
    const { report, feeds, known, held } = await run(SAMPLE_BED, true, fast);
    expect(Math.min(...held.map((blocks) => blocks.length))).toBeGreaterThan(100);
    expect(known).toEqual(held);
    for (const feed of feeds)
      expect(feed).toMatchObject({ stale: false, partial: false, isRecovering: false });
    expect(report.events).toMatchObject({ stale_workers: [], partial_workers: [], missed_batches: 0 });
    expect(report.events?.restarts).toBe(3);
    expect(report.events?.replayed_batches).toBeGreaterThan(100);
    expect(report.events?.misprediction_rate_tokens).toBeLessThan(0.005);
  },
);

test('without replay workers are marked stale, and the misprediction is bounded and shown', async () => {
  const { report, feeds } = await run(SAMPLE_BED, false, false);
  for (const feed of feeds) expect(feed).toMatchObject({ stale: true, canReplay: false });
  expect(report.events).toMatchObject({ stale_workers: [1, 2, 3, 4], replays_asked: 0 });
  expect(report.events?.missed_batches).toBeGreaterThan(100);
  expect(report.events?.misprediction_rate_tokens).toBeLessThan(0.05);
});

const whole = haveWhole ? describe : describe.skip;
whole(
  `ten minutes of the whole conversation trace${haveWhole ? '' : ' (skipped: ../shared/data, beside the repository, is not there)'}`,
  () => {
    test('with replay end with what every engine holds, and hit about as often as without a fault', async () => {
      const { report, feeds, known, held } = await run(WHOLE_BED, true, true);
      expect(held.flat().length).toBeGreaterThan(20_000);
      expect(known).toEqual(held);
      for (const feed of feeds)
        expect(feed).toMatchObject({ stale: false, partial: false, isRecovering: false });
      expect(report.events).toMatchObject({ stale_workers: [], partial_workers: [], missed_batches: 0 });
      expect(report.events?.restarts).toBe(3);
      expect(report.events?.replayed_batches).toBeGreaterThan(2000);
      // What was in flight when an engine died is mispredicted without a fault too.
      const sound = await run(WHOLE_BED, true, true, NO_EVENT_FAULTS);
      const unavoidable = sound.report.events?.misprediction_rate_tokens ?? 1;
      expect(report.events?.misprediction_rate_tokens).toBeLessThan(unavoidable + 0.002);
      expect(unavoidable).toBeLessThan(0.002);
      const rate = sound.report.prefix_hit_rate_tokens ?? 0;
      expect(rate).toBeGreaterThan(0.15);
      // What was lost is asked for when the next message comes: until then a few prompts go elsewhere.
      expect(report.prefix_hit_rate_tokens).toBeGreaterThan(0.9 * rate);
    });

    test('without replay mark all workers, and mispredict a bounded share that the report shows', async () => {
      const { report, feeds } = await run(WHOLE_BED, false, true);
      for (const feed of feeds) expect(feed).toMatchObject({ stale: true, canReplay: false });
      expect(report.events).toMatchObject({ stale_workers: [1, 2, 3, 4, 5, 6, 7, 8], replays_asked: 0 });
      expect(report.events?.missed_batches).toBeGreaterThan(1000);
      expect(report.events?.misprediction_rate_tokens).toBeGreaterThan(0.01);
      expect(report.events?.misprediction_rate_tokens).toBeLessThan(0.08);
    });
  },
);
