import { describe, expect, it } from 'vitest';
import { blockHashSeed, createBlockHasher, hashBlocks } from '../kv/index.ts';
import { createMetrics } from '../observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  PointsmanError,
  pickWorker,
  scoreWorkers,
} from '../plugin/index.ts';
import { PARTITION, prompt, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';

const unreachable = new PointsmanError('PM_ENGINE_UNREACHABLE', 'refused');
const lost = new PointsmanError('PM_ENGINE_LOST', 'reset');

const noConstraints = {
  pinnedWorker: null,
  allowedWorkers: null,
  requiredTaints: [],
  preferredTaints: new Map<string, number>(),
  temperature: null,
  priority: 0,
  strictPriority: 0,
};

describe('the road', () => {
  it('walks a request to an engine and its answer back, and frees the booking once', async () => {
    const { road, arrive, transport, scheduler, clock, expectIdle } = await testRoad({
      workers: [workerSpec(1n)],
    });
    const { sink, record } = arrive({ tokens: prompt(1, 70) });
    expect(transport.last.request).toMatchObject({
      requestId: 'r1',
      rank: 0,
      servedAs: 'tiny-sim',
      hint: null,
      partition: PARTITION,
    });
    expect(transport.last.request.worker.spec.id).toBe(1n);
    expect(road.activeBookings()).toBe(1);
    // 70 tokens: 4 full blocks, 5 with the partly filled one.
    expect([scheduler.loads.activePrefillTokens[0], scheduler.loads.activeDecodeBlocks[0]]).toEqual([70, 4]);
    const engine = transport.last.sink;
    clock.advanceTo(1050);
    engine.head(200, {}, []);
    engine.tokens(1);
    expect(scheduler.loads.activePrefillTokens[0]).toBe(0);
    engine.data(new Uint8Array(9));
    engine.tokens(9);
    engine.tokens(1);
    engine.tokens(32);
    expect(scheduler.loads.activeDecodeBlocks[0]).toBe(4);
    clock.advanceTo(1200);
    engine.finished(REPORT);
    expect(sink.heard).toEqual([
      'booked 1/0',
      'head 200',
      'tokens 1',
      'data 9',
      'tokens 9',
      'tokens 1',
      'tokens 32',
      'finished stop',
    ]);
    expectIdle();
    expect(record()).toMatchObject({
      request_id: 'r1',
      booking: { attempt_id: 1, prefill_tokens: 70, decode_blocks: 4, released: 'finished', held_ms: 200 },
      outcome: { status: 200, finish: 'stop', ttft_ms: 50, e2e_ms: 200, retries: 0 },
      report: { cached_tokens: 32, prompt_tokens: 64, output_tokens: 3, source: 'usage' },
    });
  });

  it('holds the prefill of an answer that comes as a whole until its end, and claims no time to first token', async () => {
    const { clock, arrive, scheduler, transport, expectIdle } = await testRoad({ workers: [workerSpec(1n)] });
    const { sink, record } = arrive({ stream: false, tokens: prompt(1, 70) });
    clock.advanceTo(1200);
    transport.last.sink.head(200, {}, []);
    transport.last.sink.data(new Uint8Array(9));
    expect(scheduler.loads.activePrefillTokens[0]).toBe(70);
    transport.last.sink.finished(REPORT);
    expect(sink.heard).toEqual(['booked 1/0', 'head 200', 'data 9', 'finished stop']);
    expectIdle();
    expect(record()?.outcome).toEqual({
      status: 200,
      finish: 'stop',
      ttft_ms: null,
      e2e_ms: 200,
      retries: 0,
    });
  });

  it('tells expected cached tokens apart by where they lie, device first, and counts them so', async () => {
    const metrics = createMetrics();
    const { arrive, cache, transport } = await testRoad({ metrics });
    cache(2n, prompt(1, 32));
    cache(2n, prompt(1, 64), 'host');
    // Of 4 blocks 3 can be reused, the first 2 from the device.
    const partly = arrive({ tokens: prompt(1, 64) });
    const expected = { cached_tokens: 48, cached_by_tier: { device: 32, host: 16 }, with_hints_tokens: 48 };
    expect(partly.record()?.prediction).toEqual(expected);
    transport.last.sink.finished(REPORT);
    // What host memory has beside the device is not used.
    cache(2n, prompt(1, 64));
    const wholly = arrive({ tokens: prompt(1, 64) });
    expect(wholly.record()?.prediction?.cached_by_tier).toEqual({ device: 48, host: 0 });
    transport.last.sink.finished(REPORT);
    const text = await metrics.text();
    const counted = (tier: string) =>
      Number(new RegExp(`_by_tier_total\\{model="\\w+",tier="${tier}"\\} (\\d+)`).exec(text)?.[1]);
    expect(['device', 'host', 'hint'].map(counted)).toEqual([80, 16, 0]);
    expect(text).toMatch(/pointsman_predicted_cached_tokens_total\{model="\w+"\} 96/);
  });

  it('sends a prompt where it is cached, and predicts full blocks less the last token', async () => {
    const { arrive, cache, transport, expectIdle } = await testRoad();
    cache(2n, prompt(1, 64));
    const whole = arrive({ tokens: prompt(1, 64) });
    expect(whole.sink.heard).toEqual(['booked 2/0']);
    // All 4 blocks are resident, but at least the last token is computed: 3 blocks are reused.
    expect(whole.record()?.prediction).toMatchObject({ cached_tokens: 48, with_hints_tokens: 48 });
    expect(
      whole.record()?.candidates.map((candidate) => candidate.eligible && candidate.overlap_blocks.device),
    ).toEqual([0, 4]);
    transport.last.sink.finished(REPORT);
    const longer = arrive({ tokens: prompt(1, 65) });
    expect(longer.record()?.prediction).toMatchObject({ cached_tokens: 64, with_hints_tokens: 64 });
    transport.last.sink.finished(REPORT);
    expectIdle();
  });

  it('sees the booking of one request when it places the next', async () => {
    const { arrive, transport } = await testRoad();
    const chosen = [1, 2, 3, 4].map((seed) => arrive({ tokens: prompt(seed, 64) }).sink.heard[0]);
    expect(chosen.filter((heard) => heard === 'booked 1/0')).toHaveLength(2);
    expect(chosen.filter((heard) => heard === 'booked 2/0')).toHaveLength(2);
    expect(transport.dispatched).toHaveLength(4);
  });

  it('asks nobody for cache facts when the policy reads none, and still books', async () => {
    const first = defineWorkerSelectionPolicy({
      type: 'first',
      create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
    });
    const { arrive, scheduler, transport, cache, expectIdle } = await testRoad({
      selection: { definition: first },
    });
    cache(2n, prompt(1, 64));
    const { sink, record } = arrive();
    expect(sink.heard).toEqual(['booked 1/0']);
    expect(record()).toMatchObject({
      prediction: null,
      index: { kind: 'none' },
      prompt: { head_hash: null },
    });
    expect([scheduler.loads.activePrefillTokens[0], scheduler.loads.activeDecodeBlocks[0]]).toEqual([64, 4]);
    transport.last.sink.finished(REPORT);
    expectIdle();
  });

  it('does not look up a stand-in for an estimated prompt, nor hand it to the engine', async () => {
    const { arrive, cache, transport } = await testRoad();
    cache(2n, prompt(1, 64));
    expect(arrive({ tokensSource: 'estimate' }).record()?.prediction).toBeNull();
    expect(transport.last.request.tokens).toBeNull();
  });

  it('routes without matching until the block size is known', async () => {
    const { arrive, cache, blockSizes, fleet, transport } = await testRoad({ blockSize: null });
    fleet.setCapabilities(1n, null);
    fleet.setCapabilities(2n, null);
    cache(2n, prompt(1, 64));
    const blind = arrive();
    expect(blind.record()?.prediction).toBeNull();
    transport.last.sink.finished(REPORT);
    blockSizes.learn(0, 16);
    expect(arrive().record()?.prediction).toMatchObject({ cached_tokens: 48, with_hints_tokens: 48 });
  });

  it('hashes prompts in pairs where the engines of the model do', async () => {
    const { arrive, index, blockSizes, fleet } = await testRoad();
    const tokens = prompt(1, 64);
    const pairs = hashBlocks(createBlockHasher(), tokens, 16, blockHashSeed({}), { bigrams: true });
    expect(pairs.blocks).toBe(3);
    index?.store(fleet.slotOf(2n, 0), 'device', null, pairs.local, pairs.local);
    expect(arrive({ tokens }).record()?.prediction?.cached_tokens).toBe(0);
    blockSizes.learnPairs(fleet.slotOf(2n, 0), true);
    expect(arrive({ tokens }).record()?.prediction?.cached_tokens).toBe(48);
  });

  it('refuses what it cannot place, before anything is booked', async () => {
    const { arrive, transport, fleet, road } = await testRoad({ concurrentRequests: 2 });
    const refusal = (changes: Parameters<typeof arrive>[0]) => {
      const { sink } = arrive(changes);
      return [sink.heard[0], sink.error?.status, sink.error?.message];
    };
    expect(refusal({ partition: { model: 'nobody', routingGroup: 'default' } })).toEqual([
      'failed PM_SELECTION_NO_ENDPOINTS before head',
      503,
      'no worker serves model nobody in role aggregated; add one, or wait until one is back',
    ]);
    expect(refusal({ tokens: new Uint32Array(0) })[0]).toBe('failed PM_PROMPT_INVALID before head');
    const pinned = { ...noConstraints, pinnedWorker: { workerId: 1n, rank: null } };
    expect(refusal({ constraints: { ...pinned, allowedWorkers: [2n] } })).toEqual([
      'failed PM_SELECTION_PINNED_NOT_ALLOWED before head',
      400,
      'the request is pinned to worker 1, which is not among its allowed workers; allow it, or drop the pin',
    ]);
    fleet.setState(1n, 'draining');
    expect(refusal({ constraints: pinned })).toEqual([
      'failed PM_SELECTION_PINNED_UNAVAILABLE before head',
      503,
      'the request is pinned to worker 1, which cannot take it now (1 draining); drop the pin, or wait until it is ready',
    ]);
    expect(refusal({ constraints: { ...noConstraints, requiredTaints: ['gpu-h100'] } })).toEqual([
      'failed PM_SELECTION_NO_ENDPOINTS before head',
      503,
      'none of the 2 workers and ranks that serve model tiny in role aggregated can take the request (1 missing taint, 1 draining)',
    ]);
    expect([road.activeBookings(), transport.dispatched.length]).toEqual([0, 0]);
    arrive();
    arrive();
    const { sink } = arrive();
    expect([sink.heard, sink.error?.status, sink.error?.details.retry_after]).toEqual([
      ['failed PM_OVERLOADED before head'],
      429,
      '1',
    ]);
    expect(road.activeBookings()).toBe(2);
  });

  it('lets the default cost choose when the policy breaks, says so, and fails only when nobody can choose', async () => {
    const broken = defineWorkerSelectionPolicy({
      type: 'broken',
      create: () => ({
        scorers: [
          scoreWorkers({
            inputs: ['cache'],
            score: () => {
              throw new Error('bug');
            },
          }),
        ],
        picker: pickWorker({ pick: () => 0 }),
      }),
    });
    const { arrive, cache, transport, expectIdle } = await testRoad({ selection: { definition: broken } });
    cache(2n, prompt(1, 64));
    const { sink, record } = arrive();
    expect(sink.heard).toEqual(['booked 2/0']);
    expect(record()).toMatchObject({ policy: { type: 'broken' }, pick: { by: 'default_after_failure' } });
    transport.last.sink.finished(REPORT);
    expectIdle();
  });

  it('passes a refusal of the policy on instead of overruling it', async () => {
    const strict = defineWorkerSelectionPolicy({
      type: 'strict',
      create: () => ({
        filters: [filterWorkers({ name: 'nobody', keep: () => false })],
        picker: pickWorker({ pick: () => 0 }),
      }),
    });
    const { arrive, expectIdle } = await testRoad({ selection: { definition: strict } });
    const { sink } = arrive();
    expect([sink.heard, sink.error?.status]).toEqual([['failed PM_SELECTION_ALL_FILTERED before head'], 503]);
    expectIdle();
  });
});

describe('losing a worker', () => {
  it('passes a refused connection on as 502 and suspects the worker at the second', async () => {
    const { arrive, transport, fleet, expectIdle } = await testRoad({ workers: [workerSpec(1n)] });
    const first = arrive();
    transport.last.sink.failed(unreachable);
    expect([first.sink.heard.at(-1), first.sink.error?.status]).toEqual([
      'failed PM_ENGINE_UNREACHABLE before head',
      502,
    ]);
    expect(first.record()).toMatchObject({
      booking: { released: 'failed' },
      outcome: { status: 502, finish: null },
    });
    expect(fleet.worker(1n)?.state).toBe('ready');
    arrive();
    transport.last.sink.failed(unreachable);
    expect(fleet.worker(1n)?.state).toBe('suspect');
    expect(arrive().sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
    expectIdle();
  });

  it('does not count refusals with an answer in between', async () => {
    const { arrive, transport, fleet } = await testRoad({ workers: [workerSpec(1n)] });
    arrive();
    transport.last.sink.failed(unreachable);
    arrive();
    transport.last.sink.head(200, {}, []);
    arrive();
    transport.last.sink.failed(unreachable);
    expect(fleet.worker(1n)?.state).toBe('ready');
  });

  it('suspects a worker that cuts a stream, and says that the head was passed on', async () => {
    const { arrive, transport, fleet, expectIdle } = await testRoad({ workers: [workerSpec(1n)] });
    const { sink } = arrive();
    transport.last.sink.head(200, {}, []);
    transport.last.sink.tokens(1);
    transport.last.sink.failed(lost);
    expect(sink.heard.at(-1)).toBe('failed PM_ENGINE_LOST after head');
    expect(fleet.worker(1n)?.state).toBe('suspect');
    expectIdle();
  });

  it('does not hold an answer with an error status against the worker', async () => {
    const { arrive, transport, fleet } = await testRoad({ workers: [workerSpec(1n)] });
    for (let time = 0; time < 3; time += 1) {
      arrive();
      transport.last.sink.failed(new PointsmanError('PM_ENGINE_FAILED', 'the engine failed with status 500'));
    }
    expect(fleet.worker(1n)?.state).toBe('ready');
  });

  it.each(['gone', 'removed'] as const)(
    'fails the exchanges of a worker that is %s, and only those',
    async (how) => {
      const { arrive, transport, fleet, road, scheduler } = await testRoad();
      const requests = [1, 2, 3, 4].map((seed) => arrive({ tokens: prompt(seed, 64) }));
      transport.dispatched[0]?.sink.head(200, {}, []);
      const hit = transport.dispatched.map(({ request }) => request.worker.spec.id === 1n);
      const slots = [...(fleet.worker(1n)?.slots ?? [])];
      if (how === 'gone') fleet.setState(1n, 'gone');
      else fleet.remove(1n);
      requests.forEach(({ sink, record }, index) => {
        if (!hit[index]) expect(sink.heard).toHaveLength(index === 0 ? 2 : 1);
        else {
          expect(sink.heard.at(-1)).toBe(`failed PM_ENGINE_LOST ${index === 0 ? 'after' : 'before'} head`);
          expect(record()?.booking.released).toBe('worker_gone');
          expect(transport.dispatched[index]?.aborts).toBe(1);
        }
      });
      expect(road.activeBookings()).toBe(2);
      for (const slot of slots) expect(scheduler.loads.activeRequests[slot]).toBe(0);
      // What the lost engines still send is not heard.
      transport.dispatched.forEach(({ sink }, index) => {
        if (hit[index]) sink.finished(REPORT);
      });
      requests.forEach(({ sink }, index) => {
        if (hit[index]) expect(sink.heard.filter((heard) => heard.startsWith('finished'))).toEqual([]);
      });
      road.workerGone(1n);
      expect(road.activeBookings()).toBe(2);
    },
  );
});

describe('ending a request early', () => {
  it('aborts the exchange and frees the booking, however often it is asked', async () => {
    const { arrive, transport, expectIdle } = await testRoad();
    const { ticket, sink, record } = arrive();
    ticket.abort();
    ticket.abort();
    transport.last.sink.head(200, {}, []);
    transport.last.sink.tokens(1);
    transport.last.sink.finished(REPORT);
    expect(sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    expect(transport.last.aborts).toBe(1);
    expect(record()).toMatchObject({
      booking: { released: 'aborted' },
      outcome: { status: 499 },
      report: null,
    });
    expectIdle();
  });

  it('does nothing after the end', async () => {
    const { arrive, transport, expectIdle } = await testRoad();
    const { ticket, record } = arrive();
    transport.last.sink.finished(REPORT);
    ticket.abort();
    expect([transport.last.aborts, record()?.booking.released]).toEqual([0, 'finished']);
    expectIdle();
  });

  it('aborts an engine that answers and ends before dispatch returned', async () => {
    const { arrive, transport, road, expectIdle } = await testRoad({ workers: [workerSpec(1n)] });
    transport.during = () => road.workerGone(1n);
    const { sink } = arrive();
    expect(sink.heard).toEqual(['booked 1/0', 'failed PM_ENGINE_LOST before head']);
    expect(transport.last.aborts).toBe(1);
    expectIdle();
  });

  it('does not dispatch a request whose worker was lost while its door was told', async () => {
    const { arrive, transport, fleet, expectIdle } = await testRoad({ workers: [workerSpec(1n)] });
    const sink = new RecordingSink();
    sink.also = (call) => {
      if (call === 'booked') fleet.remove(1n);
    };
    arrive({}, sink);
    expect(sink.heard).toEqual(['booked 1/0', 'failed PM_ENGINE_LOST before head']);
    expect(transport.dispatched).toEqual([]);
    expectIdle();
  });

  it.each(['booked', 'head', 'data', 'tokens', 'finished', 'failed'])(
    'survives a door that throws at %s, without a booking left',
    async (call) => {
      const { arrive, transport, expectIdle } = await testRoad();
      const sink = new RecordingSink();
      sink.failOn = call;
      arrive({}, sink);
      const engine = transport.dispatched[0]?.sink;
      engine?.head(200, {}, []);
      engine?.tokens(1);
      engine?.data(new Uint8Array(1));
      if (call === 'failed') engine?.failed(lost);
      else engine?.finished(REPORT);
      expect(sink.heard.at(-1)?.split(' ')[0]).toBe(call);
      expectIdle();
    },
  );

  it('contains a transport that throws', async () => {
    const { arrive, transport, expectIdle } = await testRoad();
    transport.during = () => {
      throw new Error('bug');
    };
    const { sink } = arrive();
    expect(sink.heard.at(-1)).toBe('failed PM_INTERNAL before head');
    expectIdle();
  });

  it('passes pause and resume to the engine, also when they came before it', async () => {
    const { arrive, transport } = await testRoad();
    const { ticket } = arrive();
    ticket.pause();
    ticket.resume();
    expect([transport.last.pauses, transport.last.resumes]).toEqual([1, 1]);
    transport.last.sink.finished(REPORT);
    ticket.pause();
    expect(transport.last.pauses).toBe(1);
  });

  it('lets a door start another request from within its answer', async () => {
    const { arrive, transport, road } = await testRoad();
    const sink = new RecordingSink();
    let again: ReturnType<typeof arrive> | null = null;
    sink.also = (call) => {
      if (call === 'failed') again = arrive();
    };
    arrive({}, sink);
    transport.last.sink.failed(unreachable);
    expect(again).not.toBeNull();
    expect([road.activeBookings(), transport.dispatched.length]).toEqual([1, 2]);
  });
});
