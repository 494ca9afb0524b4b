// Requests of two workers beside everything else that requests meet: selection by callers, waits for a first worker, and queues.
import { describe, expect, it } from 'vitest';
import { defineRequestClassifier, PointsmanError } from '../src/plugin/index.ts';
import { type CallerPart, NO_CONSTRAINTS } from '../src/road/index.ts';
import { workerFixture } from './gateway-fixtures.ts';
import { dividedFleet } from './support/divided-fleet.ts';
import { countedTokens, givenRequest, SILENT } from './support/road-request.ts';
import { ANSWERED, type SentLeg, scriptedFleet } from './support/scripted-fleet.ts';

const DIVIDED = ['role: prefill', 'role: decode'];
const HANDOFF = { kv_transfer_params: 1 };

type Fleet = Awaited<ReturnType<typeof scriptedFleet>>;

const sentOf = ({ legs }: Fleet): string[] =>
  legs.map(({ request }) => `${request.requestId} ${request.role}`);

/** The engine answers a prefill leg, or a decode leg. */
function answer(leg: SentLeg | undefined): void {
  leg?.sink.head(200, {}, []);
  leg?.sink.tokens(1);
  leg?.sink.finished(
    leg.request.role === 'prefill' ? { ...ANSWERED, finishReason: 'length', handoff: HANDOFF } : ANSWERED,
  );
}

const pass = ({ clock }: Fleet, ms: number): void => {
  for (const end = clock.now() + ms; clock.now() < end; ) clock.advanceTo(Math.min(end, clock.now() + 50));
};

async function gauge({ metrics }: Fleet, name: string): Promise<number> {
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

describe('callers that carry their requests themselves', () => {
  /** Takes requests over, and keeps whose they are. */
  function caller(): { readonly carried: string[]; readonly part: CallerPart } {
    const carried: string[] = [];
    return {
      carried,
      part: {
        prompt: {
          promptTokens: 32,
          hashes: { blocks: 0, local: new Uint32Array(), sequence: new Uint32Array() },
        },
        target: null,
        looksUp: false,
        sharesBlocks: false,
        tracksPrefill: null,
        costOverride: null,
        affinityTarget: null,
        placed: () => undefined,
        transport: {
          dispatch({ requestId, role }) {
            carried.push(`${requestId} ${role}`);
            return { abort() {}, pause() {}, resume() {} };
          },
        },
      },
    };
  }

  it('are served as ever by workers that they registered, beside divided ones and while all wait for a first worker', async () => {
    for (const yaml of ['', 'limits: { first_worker_wait: 5s }']) {
      const { carried, part } = caller();
      const fleet = await scriptedFleet(yaml, DIVIDED);
      fleet.core.fleet.add(workerFixture({ id: 9n, registered: true }).spec);
      fleet.core.fleet.setState(9n, 'ready');
      const sent = fleet.arrive({ tokens: new Uint32Array(), caller: part });
      expect(sent.error).toBeNull();
      expect([carried, sentOf(fleet)]).toEqual([['r1 aggregated'], []]);
      expect(sent.worker?.workerId).toBe(9n);
      sent.ticket.abort();
      expect(fleet.core.road.activeBookings()).toBe(0);
    }
  });

  it.each(['prefill', 'decode'] as const)(
    'divide no model by a %s worker that they registered',
    async (role) => {
      const fleet = await scriptedFleet('', ['']);
      fleet.core.fleet.add(workerFixture({ id: 9n, registered: true, role }).spec);
      fleet.core.fleet.setState(9n, 'ready');
      const sent = fleet.arrive();
      expect(sentOf(fleet)).toEqual(['r1 aggregated']);
      expect(sent.worker?.workerId).toBe(1n);
      // Nor do they make one whole: a decode worker of its own divides it, a prefill worker has nobody to compute for.
      fleet.core.fleet.add(workerFixture({ id: 2n, role: role === 'prefill' ? 'decode' : 'prefill' }).spec);
      fleet.core.fleet.setState(2n, 'ready');
      const next = fleet.arrive();
      expect(next.error?.code ?? null).toBe(role === 'prefill' ? 'PM_DISAGG_NO_PREFILL' : null);
      expect(next.worker?.workerId ?? null).toBe(role === 'prefill' ? null : 1n);
    },
  );
});

describe('requests that wait for the first worker of their model', () => {
  const waiting = 'limits: { first_worker_wait: 10s, retries: 2 }';
  const come = ({ core }: Fleet, id: bigint, role: 'prefill' | 'decode'): void => {
    core.fleet.add(workerFixture({ id: id, role }).spec);
    core.fleet.setState(id, 'ready');
  };

  it.each([['prefill', 'decode'] as const, ['decode', 'prefill'] as const])(
    'are served by two once both kinds are there, %s first',
    async (first, second) => {
      const fleet = await scriptedFleet(waiting, []);
      const sent = [fleet.arrive(), fleet.arrive()];
      come(fleet, 1n, first);
      pass(fleet, 1000);
      expect([sentOf(fleet), sent[0]?.error, await gauge(fleet, 'pointsman_requests_held')]).toEqual([
        [],
        null,
        2,
      ]);
      come(fleet, 2n, second);
      pass(fleet, 50);
      expect(sentOf(fleet)).toEqual(['r1 prefill', 'r2 prefill']);
      for (const leg of [...fleet.legs]) answer(leg);
      expect(sentOf(fleet).slice(2)).toEqual(['r1 decode', 'r2 decode']);
      expect(sent[0]?.record()).toMatchObject({
        role: 'decode',
        handoff: { leg: 'decode', kind: 'nixl' },
        queue: { outcome: 'held', waited_ms: 1000 },
      });
      for (const leg of fleet.legs.slice(2)) answer(leg);
      expect(sent.map(({ ended, error }) => [ended, error])).toEqual([
        [true, null],
        [true, null],
      ]);
      expect(fleet.core.road.activeBookings()).toBe(0);
      expect(await gauge(fleet, 'pointsman_requests_held')).toBe(0);
    },
  );

  it('are served by one where that is what comes, and tried again as ever', async () => {
    const fleet = await scriptedFleet(waiting, []);
    const sent = fleet.arrive();
    for (const id of [1n, 2n]) {
      fleet.core.fleet.add(workerFixture({ id: id }).spec);
      fleet.core.fleet.setState(id, 'ready');
    }
    pass(fleet, 50);
    fleet.core.road.workerGone(fleet.legs[0]?.request.worker.spec.id ?? 0n);
    pass(fleet, 50);
    expect(sentOf(fleet)).toEqual(['r1 aggregated', 'r1 aggregated']);
    answer(fleet.legs[1]);
    expect([sent.ended, sent.error]).toEqual([true, null]);
  });

  it('are not tried again once they are served by two: the first failure is the answer', async () => {
    const fleet = await scriptedFleet(waiting, []);
    const sent = fleet.arrive();
    come(fleet, 1n, 'prefill');
    come(fleet, 2n, 'decode');
    pass(fleet, 50);
    fleet.core.road.workerGone(1n);
    pass(fleet, 20_000);
    expect([sent.error?.code, sentOf(fleet)]).toEqual(['PM_ENGINE_LOST', ['r1 prefill']]);
    expect(fleet.core.road.activeBookings()).toBe(0);
  });

  it('wait as well where all workers of both kinds are gone, and are refused in time', async () => {
    const fleet = await scriptedFleet(waiting, DIVIDED);
    for (const id of [1n, 2n]) fleet.core.fleet.setState(id, 'gone');
    const back = fleet.arrive();
    pass(fleet, 500);
    for (const id of [1n, 2n]) fleet.core.fleet.setState(id, 'ready');
    pass(fleet, 50);
    expect(sentOf(fleet)).toEqual(['r1 prefill']);
    back.ticket.abort();
    for (const id of [1n, 2n]) fleet.core.fleet.setState(id, 'gone');
    const late = fleet.arrive();
    const left = fleet.arrive();
    left.ticket.abort();
    pass(fleet, 10_000);
    expect(late.error).toMatchObject({ code: 'PM_SELECTION_NO_ENDPOINTS', details: { retry_after: '1' } });
    expect([left.ended, sentOf(fleet)]).toEqual([false, ['r1 prefill']]);
    expect(await gauge(fleet, 'pointsman_requests_held')).toBe(0);
    expect(fleet.core.road.activeBookings()).toBe(0);
  });
});

describe('requests whose prompt waits for its turn', () => {
  const QUEUED = `default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - { name: any, policy_family: standard, cache_bucket: any, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 4 }
  - { name: express, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
`;
  const pending = (fleet: Fleet): Promise<number> => gauge(fleet, 'pointsman_queue_pending_requests');
  const rest = async (fleet: Fleet): Promise<void> => {
    expect(fleet.core.road.activeBookings()).toBe(0);
    expect(await pending(fleet)).toBe(0);
    expect(await gauge(fleet, 'pointsman_queue_kept_bytes')).toBe(0);
    expect([...fleet.core.scheduler.loads.activeRequests].every((count) => count === 0)).toBe(true);
  };

  it('wait as prompts for prefill workers, by class and priority, and go on with their decode leg at once', async () => {
    const fleet = await scriptedFleet(QUEUED, DIVIDED);
    fleet.arrive();
    fleet.arrive();
    fleet.arrive({ constraints: { ...NO_CONSTRAINTS, strictPriority: 5 } });
    fleet.arrive({ policyClass: 'express' });
    expect([sentOf(fleet), await pending(fleet)]).toEqual([['r1 prefill'], 3]);
    const text = await fleet.metrics.text();
    expect(text).toContain(
      'pointsman_queue_pending_requests{model="tiny",role="prefill",policy_class="any"} 2',
    );
    expect(text).toContain(
      'pointsman_queue_pending_requests{model="tiny",role="prefill",policy_class="express"} 1',
    );
    for (let at = 0; at < 8; at += 1) {
      answer(fleet.legs[at]);
      pass(fleet, 50);
    }
    const prefills = sentOf(fleet).filter((one) => one.endsWith('prefill'));
    expect(prefills.toSorted()).toEqual(['r1 prefill', 'r2 prefill', 'r3 prefill', 'r4 prefill']);
    expect(prefills.indexOf('r3 prefill')).toBeLessThan(prefills.indexOf('r2 prefill'));
    for (const id of ['r1', 'r2', 'r3', 'r4']) {
      const [prefill, decode] = fleet.core.decisions?.ofRequest(id) ?? [];
      expect([prefill?.queue.class, decode?.queue.class]).toEqual(
        id === 'r4' ? ['express', 'express'] : ['any', 'any'],
      );
      expect([prefill?.queue.outcome, decode?.queue.outcome]).toEqual([
        id === 'r1' ? 'direct' : 'queued',
        'direct',
      ]);
    }
    await rest(fleet);
  });

  it('are refused in the words of the queue, once, when their class is full or the router stops', async () => {
    const fleet = await scriptedFleet(QUEUED, DIVIDED);
    const first = fleet.arrive();
    const waits = fleet.arrive({ policyClass: 'express' });
    const refused = fleet.arrive({ policyClass: 'express' });
    expect(refused.error).toMatchObject({
      code: 'PM_QUEUE_FULL',
      status: 429,
      details: {
        refusal: 'queue_full',
        policy_class: 'express',
        role: 'prefill',
        current: 1,
        limit: 1,
        retry_after: '1',
      },
    });
    expect(await gauge(fleet, 'pointsman_overload_refusals_total')).toBe(1);
    fleet.core.road.close();
    expect(waits.error?.code).toBe('PM_SHUTTING_DOWN');
    // The one under way still gets its answer.
    answer(fleet.legs[0]);
    answer(fleet.legs[1]);
    expect([first.ended, first.error]).toEqual([true, null]);
    await rest(fleet);
  });

  it('leave the queue with their client or its profile, and nothing behind', async () => {
    const fleet = await scriptedFleet(QUEUED, DIVIDED);
    const first = fleet.arrive();
    const waits = fleet.arrive();
    waits.ticket.abort();
    waits.ticket.abort();
    expect([await pending(fleet), waits.ended]).toEqual([0, false]);
    first.ticket.abort();
    expect(fleet.legs[0]?.aborts).toBe(1);
    await rest(fleet);
    // Where nobody has to wait any more, who waited goes on.
    const next = fleet.arrive();
    const queued = fleet.arrive();
    fleet.core.road.setQueues({ root: null, models: new Map(), threshold: null, policy: 'fcfs' });
    pass(fleet, 50);
    expect(sentOf(fleet).slice(1)).toEqual(['r3 prefill', 'r4 prefill']);
    for (const { ticket } of [next, queued]) ticket.abort();
    await rest(fleet);
  });

  it('count once against concurrent_requests, at their gate, in their queue and after', async () => {
    const fleet = await scriptedFleet(`${QUEUED}limits: { concurrent_requests: 2 }\n`, DIVIDED);
    const sent = [fleet.arrive(), fleet.arrive()];
    const refused = (): unknown => {
      const { error } = fleet.arrive();
      return error && [error.code, error.details.current];
    };
    expect(refused()).toEqual(['PM_OVERLOADED', 2]);
    answer(fleet.legs[0]);
    pass(fleet, 50);
    expect(sentOf(fleet)).toEqual(['r1 prefill', 'r1 decode', 'r2 prefill']);
    expect(refused()).toEqual(['PM_OVERLOADED', 2]);
    sent[1]?.ticket.abort();
    const third = fleet.arrive();
    expect(third.error).toBeNull();
    expect(refused()).toEqual(['PM_OVERLOADED', 2]);
    for (let at = 1; at < fleet.legs.length; at += 1) {
      answer(fleet.legs[at]);
      pass(fleet, 50);
    }
    expect([sent[0]?.ended, third.ended]).toEqual([true, true]);
    await rest(fleet);
  });

  it('are refused when they are due before their turn, and their classifier hears of one end', async () => {
    const heard: string[] = [];
    const classifier = defineRequestClassifier({
      type: 'hasty',
      create: () => ({
        classify: async ({ requestId }) => (requestId === 'late' ? { dueAt: 60 } : {}),
        onEvent: (event) => void heard.push(`${event.requestId} ${event.kind}`),
      }),
    });
    const world = await dividedFleet({
      prefill: 1,
      decode: 1,
      definitions: [classifier],
      yaml: `${QUEUED}request_classifier: hasty\n`,
    });
    const turn = async (): Promise<void> => {
      for (let at = 0; at < 5; at += 1) await new Promise((resolve) => setImmediate(resolve));
    };
    const first = world.send('first', countedTokens(8000));
    await turn();
    const late = world.send('late', countedTokens(64, 50_000));
    await turn();
    world.time.runUntil(100);
    expect(late.error).toMatchObject({
      code: 'PM_QUEUE_DEADLINE',
      status: 429,
      details: { role: 'prefill' },
    });
    expect([late.ends, late.endedAt]).toEqual([1, 60]);
    world.time.runUntil(20_000);
    await turn();
    expect([first.ends, first.error]).toEqual([1, null]);
    expect(world.held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
    expect(heard.filter((line) => line.startsWith('late'))).toHaveLength(1);
    await world.router.close();
  });
});

describe('what the legs tell, and when', () => {
  const BOOTSTRAP = ['role: prefill, handoff: { kind: bootstrap, host: p1, port: 8998 }', 'role: decode'];
  const LOST = new PointsmanError('PM_ENGINE_LOST', 'the worker closed the connection');

  it('a client that leaves after the head of a stream, and before any output, leaves no blocks behind', async () => {
    const fleet = await scriptedFleet('', DIVIDED);
    for (const begin of ['data', 'tokens'] as const) {
      const at = fleet.legs.length;
      const { ticket } = fleet.arrive();
      answer(fleet.legs[at]);
      const decode = fleet.legs[at + 1];
      decode?.sink.head(200, {}, []);
      ticket.abort();
      expect(decode?.aborts).toBe(0);
      if (begin === 'data') decode?.sink.data(Buffer.from('x'));
      else decode?.sink.tokens(1);
      expect(decode?.aborts).toBe(1);
      expect(fleet.core.road.activeBookings()).toBe(0);
    }
  });

  it('prompt and cached tokens are counted once, from the leg that computed the prompt', async () => {
    for (const kind of [DIVIDED, BOOTSTRAP]) {
      const fleet = await scriptedFleet('', kind);
      fleet.arrive();
      const report = { ...ANSWERED, cachedTokens: 16, finishReason: 'length', handoff: HANDOFF };
      fleet.legs[0]?.sink.finished(report);
      fleet.legs[1]?.sink.tokens(1);
      fleet.legs[1]?.sink.finished({ ...ANSWERED, cachedTokens: 32 });
      expect(await gauge(fleet, 'pointsman_prompt_tokens_total')).toBe(32);
      expect(await gauge(fleet, 'pointsman_reported_cached_tokens_total')).toBe(16);
      const [prefill, decode] = fleet.core.decisions?.ofRequest('r1') ?? [];
      expect([prefill?.report?.cached_tokens, decode?.report?.cached_tokens]).toEqual([16, 32]);
      expect(await gauge(fleet, 'pointsman_time_to_first_token_seconds_count')).toBe(1);
    }
  });

  it('a prefill leg that fails after the answer has begun takes nothing from it', async () => {
    for (const began of [true, false]) {
      const fleet = await scriptedFleet('', BOOTSTRAP);
      const sent = fleet.arrive();
      const [prefill, decode] = fleet.legs;
      decode?.sink.head(200, {}, []);
      if (began) decode?.sink.tokens(1);
      prefill?.sink.failed(LOST);
      expect([sent.error?.code, decode?.aborts]).toEqual(began ? [undefined, 0] : ['PM_ENGINE_LOST', 1]);
      decode?.sink.finished(ANSWERED);
      expect([sent.ended, fleet.core.road.activeBookings()]).toEqual([true, 0]);
    }
  });

  it('a computed prompt does not wait for a decode worker that may come: its blocks are held meanwhile', async () => {
    const fleet = await scriptedFleet('limits: { first_worker_wait: 1h }', DIVIDED);
    const sent = fleet.arrive();
    fleet.core.fleet.setState(2n, 'gone');
    answer(fleet.legs[0]);
    expect(sent.error?.code).toBe('PM_SELECTION_NO_ENDPOINTS');
    expect(await gauge(fleet, 'pointsman_requests_held')).toBe(0);
    expect(fleet.core.road.activeBookings()).toBe(0);
  });

  it('an answer of a prefill leg that is too long to keep is an error, not an empty answer', async () => {
    const fleet = await scriptedFleet('', DIVIDED);
    const heard: string[] = [];
    for (const size of [8 * 1024 * 1024, 8 * 1024 * 1024 + 1]) {
      const sent = fleet.arrive();
      const sink = fleet.legs.at(-1)?.sink;
      sink?.head(200, {}, []);
      sink?.data(Buffer.alloc(size - 10));
      sink?.data(Buffer.alloc(10));
      sink?.finished(ANSWERED);
      heard.push(sent.error?.message ?? 'answered');
    }
    expect(heard).toEqual([
      'answered',
      'prefill worker 1 ended the request with an answer of 8388609 bytes, and 8388608 are kept; ask for fewer log probabilities',
    ]);
  });

  it('a topology level that is called like something every object has is as missing as any other', async () => {
    const fleet = await scriptedFleet('', ['role: prefill, kv_transfer_domain: constructor', 'role: decode']);
    expect(fleet.arrive().error?.message).toBe(
      'prefill worker 1 cannot be used: its KV must stay within one constructor, and its topology does not say which; give it topology.constructor',
    );
  });

  it('rooms of two routers are not the same, although all else that is random is', async () => {
    const rooms: unknown[][] = [];
    for (const roomSeed of [1, 2, 2]) {
      const fleet = await scriptedFleet('router: { seed: 7 }', BOOTSTRAP, roomSeed);
      for (let count = 0; count < 3; count += 1) fleet.arrive();
      rooms.push(
        fleet.legs.map(({ request }) => request.handoff?.shape === 'sglang' && request.handoff.room),
      );
    }
    expect(rooms[1]).toEqual(rooms[2]);
    expect(new Set([...(rooms[0] ?? []), ...(rooms[1] ?? [])]).size).toBe(6);
  });

  it.each(['booked', 'dispatched', 'head', 'data', 'tokens'] as const)(
    'a door that throws when it is told of %s ends both legs',
    async (moment) => {
      const fleet = await scriptedFleet('', BOOTSTRAP);
      const broken = {
        ...SILENT,
        [moment]: () => {
          throw new Error('the door broke');
        },
      };
      fleet.core.road.arrive(givenRequest('r', countedTokens(32)), broken);
      const [prefill, decode] = fleet.legs;
      decode?.sink.head(200, {}, []);
      decode?.sink.data(Buffer.from('x'));
      decode?.sink.tokens(1);
      expect([prefill?.aborts, fleet.core.road.activeBookings()]).toEqual([1, 0]);
    },
  );
});
