// Faults that others met in the routers they run, one test each: the number is the thread at ai-dynamo/dynamo, the rest its lesson.
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../src/plugin/index.ts';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { countedTokens } from './support/road-request.ts';
import { ANSWERED, pinnedTo, type Sent, type SentLeg, scriptedFleet } from './support/scripted-fleet.ts';

const workers = (count: number, keys = ''): string[] => Array.from({ length: count }, () => keys);

/** Sends that many at once: none ends before the last has come. */
const burst = (count: number, send: () => Sent): Sent[] => Array.from({ length: count }, send);

/** Of blocks of 16: a prompt whose first `shared` tokens are those of every other. */
const sharing = (shared: number, own: number, number: number): Uint32Array =>
  Uint32Array.from({ length: shared + own }, (_, at) => (at < shared ? at : 1_000_000 * (number + 1) + at));

const LOST = new PointsmanError('PM_ENGINE_LOST', 'the worker closed the connection');

describe('herds', () => {
  it('#589 books at selection: requests that arrive at once do not all meet the same best worker', async () => {
    const { arrive, shares } = await scriptedFleet('', workers(4));
    expect(shares(burst(16, () => arrive()))).toEqual([4, 4, 4, 4]);
  });

  it('#7836 leaves no decode worker idle, whatever the order in which single turns end', async () => {
    const { arrive, shares, clock } = await scriptedFleet('', workers(5, 'role: decode'));
    const sent: Sent[] = [];
    for (let turn = 0; turn < 200; turn += 1) {
      const one = arrive({ role: 'decode' });
      sent.push(one);
      clock.advanceTo(clock.now() + 10);
      one.engine?.tokens(1);
      // One at a time: every worker is idle when the next one comes.
      one.engine?.finished(ANSWERED);
    }
    for (const share of shares(sent)) expect(share).toBeGreaterThan(20);
  });

  it('#737 weighs load against a system prompt that all share: its first holder does not get everything', async () => {
    const { arrive, shares } = await scriptedFleet('', workers(8));
    let number = 0;
    const sent = burst(64, () => arrive({ tokens: sharing(1024, 256, number++) }));
    expect(Math.min(...shares(sent))).toBeGreaterThan(0);
    expect(Math.max(...shares(sent))).toBeLessThan(32);
  });

  it.each(['kv', 'round-robin', 'random', 'power-of-two', 'least-loaded', 'device-aware-weighted'])(
    '#8551 gives every backend its share in mode %s, also when the set changes',
    async (mode) => {
      const { arrive, shares, core, clock } = await scriptedFleet(
        `router: { mode: ${mode}, seed: 3 }`,
        workers(6),
      );
      const running: Sent[] = [];
      const sent: Sent[] = [];
      for (let at = 0; at < 1200; at += 1) {
        const one = arrive();
        sent.push(one);
        running.push(one);
        clock.advanceTo(clock.now() + 1);
        // Two of three end in order, the third in the middle of all.
        if (running.length > 24) running.splice(at % 3 === 0 ? 12 : 0, 1)[0]?.engine?.finished(ANSWERED);
        if (at % 200 === 199)
          core.fleet.setState(BigInt(Math.floor(at / 400) + 1), at % 400 === 199 ? 'draining' : 'ready');
      }
      const bounds = mode === 'random' ? [130, 270] : [150, 260];
      for (const share of shares(sent)) {
        expect(share).toBeGreaterThan(bounds[0] ?? 0);
        expect(share).toBeLessThan(bounds[1] ?? 0);
      }
      for (const { ticket } of running) ticket.abort();
      expect([...core.scheduler.loads.activeRequests].every((count) => count === 0)).toBe(true);
      expect(core.road.activeBookings()).toBe(0);
    },
  );
});

describe('ties', () => {
  it('#3581 breaks ties only where costs are equal, and the record shows each cost with its terms', async () => {
    const { arrive } = await scriptedFleet('router: { seed: 5 }', workers(3));
    const prompt = countedTokens(640);
    const first = arrive({ tokens: prompt });
    first.engine?.tokens(1);
    first.engine?.finished(ANSWERED);
    // Further turns of the same prompt follow its cache and never flip.
    for (let turn = 0; turn < 20; turn += 1) {
      const next = arrive({ tokens: countedTokens(640 + 16 * turn) });
      expect(next.worker).toEqual(first.worker);
      expect(next.record()?.pick.ties).toBe(1);
      const costs = next.record()?.candidates.map((one) => (one.eligible ? one.cost : null)) ?? [];
      expect(new Set(costs).size).toBe(2);
      expect(next.record()?.candidates.every((one) => one.eligible && one.terms !== null)).toBe(true);
      next.engine?.tokens(1);
      next.engine?.finished({
        ...ANSWERED,
        promptTokens: 640 + 16 * turn,
        cachedTokens: 640 + 16 * Math.max(0, turn - 1),
      });
    }
  });

  it('#6253 breaks equal costs evenly and by the seed, not by the order in which workers came', async () => {
    const choices = async (seed: number, reordered = false): Promise<(bigint | undefined)[]> => {
      const { arrive, core } = await scriptedFleet(`router: { seed: ${seed} }`, workers(4));
      const { fleet } = core;
      const specs = [1n, 2n].map((id) => fleet.worker(id)?.spec);
      if (reordered) {
        for (const id of [1n, 2n]) fleet.remove(id);
        // Later than the others, the other way round, in each other's slots.
        for (const spec of specs.reverse()) if (spec !== undefined) fleet.add(spec);
      }
      return Array.from({ length: 400 }, () => {
        const one = arrive();
        one.engine?.finished(ANSWERED);
        return one.worker?.workerId;
      });
    };
    const once = await choices(9);
    expect(await choices(9)).toEqual(once);
    expect(await choices(9, true)).toEqual(once);
    expect(await choices(10)).not.toEqual(once);
    const counts = [1n, 2n, 3n, 4n].map((id) => once.filter((chosen) => chosen === id).length);
    const chiSquare = counts.reduce((sum, count) => sum + (count - 100) ** 2 / 100, 0);
    // 3 degrees of freedom: above 16.3 in 1 of 1,000 fair runs; the seed is fixed.
    expect(chiSquare).toBeLessThan(16.3);
  });
});

describe('costs', () => {
  it('#3694 books prompt tokens less what is cached, not the whole prompt', async () => {
    const { arrive } = await scriptedFleet('', workers(1));
    const first = arrive({ tokens: countedTokens(1024) });
    expect(first.record()?.booking.prefill_tokens).toBe(1024);
    first.engine?.tokens(1);
    first.engine?.finished(ANSWERED);
    const second = arrive({ tokens: countedTokens(2048) });
    expect(second.record()?.booking.prefill_tokens).toBe(1024);
    const [candidate] = second.record()?.candidates ?? [];
    expect(candidate).toMatchObject({
      eligible: true,
      overlap_blocks: { device: 64 },
      // 2048 tokens are 128 blocks; 64 are credited; 128 are to be held.
      terms: { raw_prefill_blocks: 128, credit: 64, prefill: 64, decode_blocks: 128, request_weight: 0 },
      cost: 192,
    });
  });

  it('#12300 counts requests under way where they are given a weight', async () => {
    const long = countedTokens(64 * 16);
    const choose = async (weight: number) => {
      const { arrive } = await scriptedFleet(
        `router: { decode_active_request_weight: ${weight} }`,
        workers(2),
      );
      // Worker 1: one request of 64 blocks; worker 2: four of 2 blocks each.
      const placed = [
        arrive({ tokens: long, constraints: pinnedTo(1n) }),
        ...burst(4, () => arrive({ constraints: pinnedTo(2n) })),
      ];
      for (const one of placed) one.engine?.tokens(1);
      return arrive().worker?.workerId;
    };
    expect(await choose(0)).toBe(2n);
    expect(await choose(64)).toBe(1n);
  });
});

describe('overload', () => {
  it.each(['kv', 'round-robin', 'random', 'power-of-two', 'least-loaded', 'device-aware-weighted', 'direct'])(
    '#9688 chooses among workers that are not busy in mode %s',
    async (mode) => {
      const yaml = `router: { mode: ${mode}, active_prefill_tokens_threshold: 100 }`;
      const { arrive } = await scriptedFleet(yaml, workers(2));
      const constraints = pinnedTo(1n);
      arrive({ tokens: countedTokens(200), constraints });
      if (mode === 'direct') {
        expect(arrive({ constraints }).error?.code).toBe('PM_SELECTION_OVERLOADED');
        return;
      }
      for (let at = 0; at < 8; at += 1) {
        const one = arrive({ tokens: countedTokens(8, 5000 + at) });
        expect(one.worker?.workerId).toBe(2n);
        one.engine?.finished(ANSWERED);
      }
    },
  );

  it('#7753 keeps what an engine reports apart from what is booked: neither overwrites the other', async () => {
    const yaml = 'router: { active_decode_blocks_threshold: 0.5, engine_load: blend }';
    const { core, clock, arrive } = await scriptedFleet(yaml, workers(1, 'total_kv_blocks: 10'));
    const worker = core.fleet.worker(1n);
    if (worker === null) throw new Error('the worker is missing');
    const booked = arrive({ tokens: countedTokens(96) });
    // Six of ten blocks are booked. A report of an idle engine does not make the worker free again …
    core.scheduler.engineLoads.report(worker, { requests: 0, kvUsage: 0 }, 10, clock.now());
    expect(core.scheduler.loads.activeDecodeBlocks[0]).toBe(6);
    expect(arrive().error?.code).toBe('PM_SELECTION_OVERLOADED');
    booked.engine?.finished(ANSWERED);
    // … nor does one of a full engine stay when the router books and frees beside it.
    core.scheduler.engineLoads.report(worker, { requests: 3, kvUsage: 1 }, 10, clock.now());
    const next = arrive();
    expect(next.record()?.candidates[0]).toMatchObject({ active_decode_blocks: 10, active_requests: 3 });
    expect(core.scheduler.loads.activeDecodeBlocks[0]).toBe(2);
    next.engine?.finished(ANSWERED);
    expect(core.scheduler.loads.activeDecodeBlocks[0]).toBe(0);
  });

  it('#10631 refuses prompts over the threshold on prefill workers as on any other', async () => {
    const yaml = 'router: { active_prefill_tokens_threshold: 100 }';
    const { arrive } = await scriptedFleet(yaml, ['role: prefill', 'role: decode']);
    const first = arrive({ role: 'prefill', tokens: countedTokens(101) });
    expect(first.worker?.workerId).toBe(1n);
    const refused = arrive({ role: 'prefill' });
    expect([refused.error?.code, refused.error?.status]).toEqual(['PM_SELECTION_OVERLOADED', 429]);
    expect(arrive({ role: 'decode' }).worker?.workerId).toBe(2n);
    first.engine?.tokens(1);
    expect(arrive({ role: 'prefill' }).worker?.workerId).toBe(1n);
  });
});

describe('bookings', () => {
  const EXPIRES = 'router: { active_request_expiry_secs: 10 }';

  it('#2840 leaves nothing of a booking that expired', async () => {
    const { core, clock, arrive } = await scriptedFleet(EXPIRES, workers(1));
    const { loads } = core.scheduler;
    const lost = arrive({ tokens: countedTokens(640) }, false);
    lost.engine?.head(200, {}, []);
    expect([core.road.activeBookings(), loads.prefixRuns]).toEqual([1, 1]);
    for (let seconds = 0; seconds <= 30; seconds += 10) {
      clock.advanceTo(1000 + seconds * 1000);
      core.road.expireBookings();
    }
    expect(lost.error?.code).toBe('PM_ROAD_EXPIRED');
    expect([core.road.activeBookings(), loads.prefixRuns, loads.activeRequests[0]]).toEqual([0, 0, 0]);
    // Its id is free again, and what its engine still sends reaches nobody.
    const again = arrive({ requestId: lost.id });
    lost.engine?.finished(ANSWERED);
    expect([again.error, core.road.activeBookings()]).toEqual([null, 1]);
  });

  it('#12315 frees a booking whose end was lost, and nothing by an id that is used again (#13718)', async () => {
    const { core, clock, arrive } = await scriptedFleet(EXPIRES, workers(1));
    const first = arrive({ requestId: 'same' });
    const { engine } = first;
    first.ticket.abort();
    const second = arrive({ requestId: 'same' });
    engine?.tokens(1);
    engine?.finished(ANSWERED);
    first.ticket.abort();
    expect([second.ended, core.road.activeBookings()]).toEqual([false, 1]);
    second.engine?.finished(ANSWERED);
    // Booked past the road: nobody will ever end this one.
    const partition = { model: 'tiny', routingGroup: 'default' };
    core.scheduler.place({
      requestId: 'orphan',
      partition,
      role: 'aggregated',
      runtime: core.host.roleRuntime(partition, 'aggregated', 16),
      promptTokens: 64,
      blockSize: 16,
      hashes: null,
      match: null,
      session: null,
      constraints: NO_CONSTRAINTS,
      expectedOutputTokens: null,
    });
    for (let seconds = 0; seconds <= 30; seconds += 10) {
      clock.advanceTo(1000 + seconds * 1000);
      core.road.expireBookings();
    }
    expect(core.road.activeBookings()).toBe(0);
  });

  it('#11303 lets a request live for as long as it gets on, or somebody waits (#12078)', async () => {
    const { core, clock, arrive } = await scriptedFleet(EXPIRES, workers(2));
    const [generating, silent] = [arrive({}, false), arrive({}, true)];
    for (let seconds = 0; seconds <= 3600; seconds += 5) {
      clock.advanceTo(1000 + seconds * 1000);
      generating.engine?.tokens(1);
      core.road.expireBookings();
    }
    expect([generating.ended, silent.ended, core.road.activeBookings()]).toEqual([false, false, 2]);
  });

  it('#5095 takes a second end, and the end of what it does not know, for nothing', async () => {
    const { core, arrive } = await scriptedFleet('', workers(1));
    const { scheduler } = core;
    const { engine, record } = arrive();
    const attempt = record()?.booking.attempt_id ?? -1;
    engine?.tokens(1);
    engine?.tokens(1);
    expect([scheduler.prefillCompleted(attempt), scheduler.prefillCompleted(attempt)]).toEqual([true, true]);
    engine?.finished(ANSWERED);
    engine?.finished(ANSWERED);
    engine?.failed(LOST);
    for (const unknown of [attempt, attempt + 1, -1]) {
      expect([
        scheduler.release(unknown),
        scheduler.prefillCompleted(unknown),
        scheduler.renew(unknown),
      ]).toEqual([false, false, false]);
    }
    expect([...scheduler.loads.activeRequests].every((count) => count === 0)).toBe(true);
  });
});

describe('admission', () => {
  it('#11599 lets nothing wait unless a configuration asks for it', async () => {
    const { arrive } = await scriptedFleet('', workers(1));
    for (const one of burst(300, () => arrive({ tokens: countedTokens(4096) }))) {
      expect(one.record()?.queue).toMatchObject({ outcome: 'direct', waited_ms: 0 });
    }
  });

  it('#14123 classifies every request once, pinned and tried again ones too; a pinned one ends with its worker', async () => {
    const plugin = fileURLToPath(new URL('../examples/few-at-once.ts', import.meta.url));
    const { arrive, clock, core } = await scriptedFleet(
      `plugins: ["${plugin}"]\nrequest_classifier: { type: few_at_once, parameters: { most: 1 } }`,
      workers(2),
    );
    const pinned = arrive({ constraints: pinnedTo(1n) });
    expect(pinned.record()?.classification).toMatchObject({
      classifier: 'few_at_once',
      result: 'classified',
    });
    pinned.engine?.failed(LOST);
    expect([pinned.ended, pinned.error?.code]).toEqual([true, 'PM_ENGINE_LOST']);
    // The classifier has heard of that end, or nobody else could go on.
    const tried = arrive({ constraints: { ...NO_CONSTRAINTS, allowedWorkers: [2n] } });
    tried.engine?.failed(LOST);
    clock.advanceTo(clock.now());
    // The only other worker is not allowed: the client gets the failure, not a wait and no worker that it excluded.
    expect([tried.ended, tried.error?.code, core.road.activeBookings()]).toEqual([true, 'PM_ENGINE_LOST', 0]);
    core.health.checkSucceeded(1n);
    expect(arrive().record()?.classification).toMatchObject({ result: 'classified' });
  });
});

describe('two workers for one request', () => {
  const prefills = (legs: readonly SentLeg[]): SentLeg[] =>
    legs.filter(({ request }) => request.role === 'prefill');

  it('#9936 keeps the rank that computes apart from the rank that decodes, and meets in a room of that rank (#5666)', async () => {
    const { arrive, legs, core } = await scriptedFleet('', [
      'role: prefill, ranks: { first: 3, count: 5 }, handoff: { kind: bootstrap, host: p1, port: 8998 }',
      'role: decode, ranks: { count: 2 }',
    ]);
    const rooms = new Set<bigint>();
    for (const { id } of burst(40, () => arrive())) {
      const [prefill, decode] = legs.filter(({ request }) => request.requestId === id);
      const told = [prefill, decode].map((leg) => leg?.request.handoff);
      const [giver, taker] = told;
      if (giver?.shape !== 'sglang' || taker?.shape !== 'sglang') throw new Error(`no room for ${id}`);
      const records = core.decisions?.ofRequest(id) ?? [];
      const [computing, decoding] = records.map(({ pick }) => pick.dp_rank);
      // Each leg goes to the rank that it is booked on, whatever the other's is.
      expect([prefill?.request.rank, decode?.request.rank]).toEqual([computing, decoding]);
      expect([taker.room, taker.prefillRank, giver.prefillRank]).toEqual([giver.room, computing, null]);
      expect(giver.room % 5n).toBe(BigInt((computing ?? 0) - 3));
      expect(giver.room >= 0n && giver.room < 2n ** 63n).toBe(true);
      rooms.add(giver.room);
    }
    expect(rooms.size).toBe(40);
    // All pairs came up, or nothing was tested.
    const pairs = new Set(
      prefills(legs).map(({ request }) => {
        const other = legs.find(
          (leg) => leg.request.requestId === request.requestId && leg.request.role === 'decode',
        );
        return `${request.rank} ${other?.request.rank}`;
      }),
    );
    expect(pairs.size).toBe(10);
  });

  it.each(['', 'limits: { first_worker_wait: 10s }'])(
    '#6678 sends a decode worker nothing before it can be told what to take, however the fleet comes up [%s]',
    async (yaml) => {
      const { arrive, legs, core, clock } = await scriptedFleet(yaml, ['role: prefill', 'role: decode']);
      core.fleet.setState(1n, 'gone');
      core.fleet.setState(2n, 'gone');
      const turns: readonly (() => void)[] = [
        () => undefined,
        () => core.fleet.setState(2n, 'ready'),
        () => core.fleet.setState(1n, 'suspect'),
        () => core.fleet.setState(1n, 'ready'),
        () => core.fleet.setState(1n, 'draining'),
        () => core.fleet.setState(1n, 'ready'),
      ];
      for (const turn of turns) {
        turn();
        clock.advanceTo(clock.now() + 100);
        arrive();
        for (const leg of prefills(legs).filter(({ aborts }) => aborts === 0)) {
          leg.sink.finished({ ...ANSWERED, finishReason: 'length', handoff: { remote_block_ids: [1] } });
        }
      }
      const decodes = legs.filter(({ request }) => request.role === 'decode');
      expect(decodes.length).toBeGreaterThan(1);
      for (const { request } of decodes) {
        expect(request.handoff).toMatchObject({ shape: 'vllm', params: { remote_block_ids: [1] } });
      }
      expect(legs.some(({ request }) => request.role === 'aggregated')).toBe(false);
    },
  );
});
