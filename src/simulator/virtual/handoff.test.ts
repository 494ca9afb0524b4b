// Handoffs between simulated engines as a router plays them, in virtual time: both shapes, every stage, and what is left in the pools.
import { afterEach, describe, expect, it } from 'vitest';
import { workerFixture } from '../../../tests/gateway-fixtures.ts';
import type { EngineHandoff, EngineReport, EngineSink } from '../../engines/index.ts';
import { encodeEventBatch } from '../../events/index.ts';
import { createBlockHasher } from '../../kv/index.ts';
import type { KvHint, PointsmanError } from '../../plugin/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { VirtualFleet } from './virtual-fleet.ts';
import { VirtualTime } from './virtual-time.ts';

const PREFILL = 1n;
const DECODE = 2n;
/** 1 block of 16 tokens is 500,000 bytes: 4 ms at 1 Gbit/s. */
const SETTINGS: SimulatedEngineSettings = {
  ...DEFAULT_ENGINE_SETTINGS,
  kvBlocks: 64,
  kvBytesPerToken: 31_250,
  nicGbps: 1,
  fetchLatencyMs: 2,
  handoffTimeoutMs: 10_000,
};

class Leg implements EngineSink {
  headAt: number | null = null;
  readonly tokensAt: number[] = [];
  report: EngineReport | null = null;
  error: PointsmanError | null = null;
  endedAt: number | null = null;
  readonly #time: VirtualTime;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  head(): void {
    this.headAt = this.#time.now();
  }
  data(): void {}
  tokens(): void {
    this.tokensAt.push(this.#time.now());
  }
  finished(report: EngineReport): void {
    this.report = report;
    this.endedAt = this.#time.now();
  }
  failed(error: PointsmanError): void {
    this.error = error;
    this.endedAt = this.#time.now();
  }
}

function setup(
  changes: Partial<SimulatedEngineSettings> = {},
  restarts: { worker: number; atMs: number }[] = [],
) {
  const time = new VirtualTime();
  const told: { outcome: string; blocks: number | null }[] = [];
  const fleet = new VirtualFleet({
    time,
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    engines: [
      { ...SETTINGS, role: 'prefill', ...changes },
      { ...SETTINGS, role: 'decode', ...changes },
    ],
    restarts,
    watchEvents: (events) => {
      for (const event of events)
        if (event.kind === 'hint-outcome') told.push({ outcome: event.outcome, blocks: event.blocks });
    },
  });
  const send = (
    id: bigint,
    handoff: EngineHandoff | null,
    options: { tokens?: Uint32Array; max?: number; requestId?: string; hint?: KvHint } = {},
  ) => {
    const leg = new Leg(time);
    const exchange = fleet.dispatch(
      {
        requestId: options.requestId ?? 'r1',
        partition: { model: 'm', routingGroup: 'default' },
        role: id === PREFILL ? 'prefill' : 'decode',
        worker: workerFixture({ id }),
        rank: 0,
        servedAs: 'm',
        api: 'completions',
        body: null,
        stream: true,
        tokens: options.tokens ?? PROMPT,
        maxOutputTokens: options.max ?? (id === PREFILL ? 1 : 3),
        session: null,
        hint: options.hint ?? null,
        handoff,
      },
      leg,
    );
    return { leg, exchange };
  };
  const active = (): number[] => [PREFILL, DECODE].map((id) => fleet.engine(id).stats().activeBlocks);
  fleets.push(() => {
    time.runUntil(time.now() + 100_000);
    // Whatever happened, nothing is held for ever.
    expect(active()).toEqual([0, 0]);
    for (const id of [PREFILL, DECODE]) {
      const { handoffs, parked, running, waiting } = fleet.engine(id).stats();
      expect({ handoffs, parked, running, waiting }).toEqual({
        handoffs: 0,
        parked: 0,
        running: 0,
        waiting: 0,
      });
    }
  });
  return { time, fleet, send, active, told };
}

const fleets: (() => void)[] = [];
afterEach(() => {
  for (const check of fleets.splice(0)) check();
});

/** 10 blocks, the last one partly filled. */
const PROMPT = Uint32Array.from({ length: 155 }, (_, index) => index);
const GIVE: EngineHandoff = { shape: 'vllm', params: { do_remote_decode: true, do_remote_prefill: false } };

function taken(report: EngineReport | null): EngineHandoff {
  if (!report?.handoff) throw new Error('the prefill said nothing of its blocks');
  return { shape: 'vllm', params: report.handoff };
}

function room(number: bigint): EngineHandoff {
  return { shape: 'sglang', host: 'virtual', port: 1, room: number, prefillRank: 0 };
}

/** Gives up all blocks of its request when that is over. */
const GIVES_UP: KvHint = {
  protocol_version: '0.1',
  message_id: 'm1',
  actions: [
    {
      action_id: 'a1',
      action_type: 'kv.evict',
      action_version: '1.0',
      payload: { block_hashes: [], execute_at: 'request_completion', current_request_block_start: 0 },
    },
  ],
};

/** Lets things happen until a condition holds. */
function until(time: VirtualTime, holds: () => boolean): void {
  while (!holds()) if (!time.step()) throw new Error('nothing is left to happen');
}

describe('a handoff by the answer of the prefill', () => {
  it('moves all blocks in the time they take on the link, and decodes without prefill', () => {
    const { time, send, active } = setup();
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    expect(prefill.leg.report).toMatchObject({ outputTokens: 1, cachedTokens: 0 });
    expect(prefill.leg.report?.handoff).toMatchObject({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_host: 'virtual',
      remote_port: 1,
      remote_engine_id: 'virtual-1.1',
      tp_size: 1,
      remote_num_tokens: 155,
    });
    expect(active()).toEqual([10, 0]);
    const start = time.now();
    const decode = send(DECODE, taken(prefill.leg.report));
    until(time, () => decode.leg.headAt !== null);
    // 2 ms of latency, 10 blocks of 4 ms.
    expect(decode.leg.headAt).toBeCloseTo(start + 42);
    time.runUntil(time.now());
    expect(active()).toEqual([0, 10]);
    until(time, () => decode.leg.endedAt !== null);
    expect(decode.leg.tokensAt).toHaveLength(3);
    // One step of decode after the blocks are there: no 16 ms of prefill.
    expect((decode.leg.tokensAt[0] ?? 0) - (decode.leg.headAt ?? 0)).toBeLessThan(15);
    expect(decode.leg.report).toMatchObject({ outputTokens: 3, cachedTokens: 154 });
  });

  it('moves only what the decode engine lacks', () => {
    const { time, send } = setup();
    for (const requestId of ['a', 'b']) {
      const prefill = send(PREFILL, GIVE, { requestId });
      until(time, () => prefill.leg.endedAt !== null);
      const start = time.now();
      const decode = send(DECODE, taken(prefill.leg.report), { requestId });
      until(time, () => decode.leg.headAt !== null);
      expect(decode.leg.headAt).toBeCloseTo(start + (requestId === 'a' ? 42 : 6));
      until(time, () => decode.leg.endedAt !== null);
    }
  });

  it('evicts what the end of the prefill was to evict once nothing takes its blocks', () => {
    for (const comes of [true, false]) {
      const { time, fleet, send, told } = setup();
      const cached = () => fleet.engine(PREFILL).residentBlocks('device').length / 2;
      const prefill = send(PREFILL, GIVE, { hint: GIVES_UP });
      until(time, () => prefill.leg.endedAt !== null);
      time.runUntil(time.now() + 1);
      expect([cached(), told]).toEqual([9, []]);
      if (comes) {
        const decode = send(DECODE, taken(prefill.leg.report));
        until(time, () => decode.leg.headAt !== null);
      }
      time.runUntil(time.now() + (comes ? 1 : 10_000));
      expect([cached(), told]).toEqual([0, [{ outcome: 'accepted', blocks: 9 }]]);
    }
  });

  it('evicts once where the prefill is aborted as it ends', () => {
    const { time, fleet, send, told } = setup();
    const prefill = send(PREFILL, GIVE, { hint: GIVES_UP });
    prefill.leg.tokens = () => prefill.exchange.abort();
    time.runUntil(time.now() + 1_000);
    expect(fleet.engine(PREFILL).residentBlocks('device')).toHaveLength(0);
    expect(told).toEqual([{ outcome: 'accepted', blocks: 9 }]);
  });

  it('lets the blocks go when nobody comes for them in time', () => {
    const { time, send, active } = setup();
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    const end = time.now();
    time.runUntil(end + 9_999);
    expect(active()).toEqual([10, 0]);
    time.runUntil(end + 10_000);
    expect(active()).toEqual([0, 0]);
    const late = send(DECODE, taken(prefill.leg.report));
    until(time, () => late.leg.endedAt !== null);
    expect(late.leg.error?.details).toMatchObject({ reason: 'nothing_held' });
  });

  it('frees both sides when the decode leg is aborted, before and while its blocks come', () => {
    for (const wait of [0, 20]) {
      const { time, send, active } = setup();
      const prefill = send(PREFILL, GIVE);
      until(time, () => prefill.leg.endedAt !== null);
      const decode = send(DECODE, taken(prefill.leg.report));
      time.runUntil(time.now() + wait);
      decode.exchange.abort();
      time.runUntil(time.now() + 1);
      expect(active()).toEqual([0, 0]);
    }
  });

  it('fails the decode leg when the prefill engine dies with the blocks', () => {
    const { time, send, active } = setup({}, [{ worker: 1, atMs: 60 }]);
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    const decode = send(DECODE, taken(prefill.leg.report));
    expect(time.now()).toBeLessThan(60);
    until(time, () => decode.leg.endedAt !== null);
    expect(time.now()).toBe(60);
    expect(decode.leg.error?.message).toBe("the simulated engine's handoff failed: unreachable");
    expect(active()).toEqual([0, 0]);
    const after = send(DECODE, taken(prefill.leg.report), { requestId: 'r2' });
    until(time, () => after.leg.endedAt !== null);
    expect(after.leg.error?.details).toMatchObject({ reason: 'nothing_held' });
  });

  it('frees the source when the decode engine dies while the blocks come', () => {
    const { time, send, active } = setup({}, [{ worker: 2, atMs: 60 }]);
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    const decode = send(DECODE, taken(prefill.leg.report));
    until(time, () => decode.leg.endedAt !== null);
    expect(decode.leg.error?.code).toBe('PM_ENGINE_LOST');
    time.runUntil(61);
    expect(active()).toEqual([0, 0]);
  });

  it('refuses parameters that were not passed on as they came', () => {
    const { time, send } = setup();
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    const params = prefill.leg.report?.handoff ?? {};
    const broken = send(DECODE, { shape: 'vllm', params: { ...params, remote_block_ids: [1] } });
    until(time, () => broken.leg.endedAt !== null);
    expect(broken.leg.error?.message).toBe(
      'remote_block_ids must name the 10 blocks of the prompt, as the prefill answered them',
    );
    const wrongSide = send(PREFILL, taken(prefill.leg.report), { requestId: 'r3' });
    until(time, () => wrongSide.leg.endedAt !== null);
    expect(wrongSide.leg.error?.message).toBe('this engine has the role prefill and takes no decode leg');
  });

  it('waits for room before it asks for blocks', () => {
    const { time, send, fleet } = setup({ kvBlocks: 16 });
    const busy = send(DECODE, null, { tokens: PROMPT.map((id) => id + 1000), max: 40, requestId: 'busy' });
    time.runUntil(5);
    const prefill = send(PREFILL, GIVE);
    until(time, () => prefill.leg.endedAt !== null);
    const decode = send(DECODE, taken(prefill.leg.report));
    time.runUntil(time.now() + 50);
    expect(fleet.engine(DECODE).stats()).toMatchObject({ waiting: 1, parked: 0 });
    until(time, () => decode.leg.endedAt !== null);
    expect(busy.leg.report).not.toBeNull();
    expect(decode.leg.report?.outputTokens).toBe(3);
  });
});

describe('a handoff by a name known before', () => {
  const legs = (kind: 'nixl_push' | 'mooncake'): [EngineHandoff, EngineHandoff] => {
    const remote = { do_remote_decode: false, do_remote_prefill: true, remote_engine_id: 'virtual-1.1' };
    return kind === 'nixl_push'
      ? [
          GIVE,
          {
            shape: 'vllm',
            params: { ...remote, remote_host: 'virtual', remote_port: 1, tp_size: 1, pp_size: 1 },
          },
        ]
      : [
          { shape: 'vllm', params: { do_remote_decode: true, do_remote_prefill: false, transfer_id: 't1' } },
          {
            shape: 'vllm',
            params: { ...remote, transfer_id: 't1', remote_bootstrap_addr: 'http://virtual:1' },
          },
        ];
  };

  it.each(['nixl_push', 'mooncake'] as const)('%s: either leg may come first', (kind) => {
    for (const first of [PREFILL, DECODE]) {
      const { time, send } = setup();
      const [give, take] = legs(kind);
      const sent = new Map([[first, send(first, first === PREFILL ? give : take)]]);
      time.runUntil(first === PREFILL ? 100 : 10);
      const second = first === PREFILL ? DECODE : PREFILL;
      sent.set(second, send(second, second === PREFILL ? give : take));
      until(time, () => [...sent.values()].every(({ leg }) => leg.endedAt !== null));
      expect(sent.get(PREFILL)?.leg.report?.outputTokens).toBe(1);
      expect(sent.get(DECODE)?.leg.report?.outputTokens).toBe(3);
    }
  });

  it.each(['nixl_push', 'mooncake'] as const)(
    '%s: an aborted prefill fails the waiting decode leg',
    (kind) => {
      const { time, send, active } = setup();
      const [give, take] = legs(kind);
      const decode = send(DECODE, take);
      const prefill = send(PREFILL, give);
      time.runUntil(10);
      expect(active()).toEqual([10, 10]);
      prefill.exchange.abort();
      until(time, () => decode.leg.endedAt !== null);
      expect(decode.leg.error?.details).toMatchObject({ reason: 'nothing_held' });
      expect(active()).toEqual([0, 0]);
    },
  );

  it('keeps nothing for a decode leg that left while its prompt was computed', () => {
    const { time, send, active } = setup();
    const [give, take] = legs('mooncake');
    const decode = send(DECODE, take);
    const prefill = send(PREFILL, give);
    time.runUntil(10);
    decode.exchange.abort();
    until(time, () => prefill.leg.endedAt !== null);
    expect(prefill.leg.report?.outputTokens).toBe(1);
    expect(active()).toEqual([0, 0]);
  });
});

describe('a handoff in a room', () => {
  it('computes nothing before the decode engine has come, and ends when it has everything', () => {
    const { time, send, active } = setup();
    const prefill = send(PREFILL, room(7n));
    time.runUntil(500);
    expect(active()).toEqual([0, 0]);
    const decode = send(DECODE, room(7n));
    until(time, () => prefill.leg.tokensAt.length > 0);
    const computed = time.now();
    expect(prefill.leg.endedAt).toBeNull();
    expect(active()).toEqual([10, 10]);
    until(time, () => prefill.leg.endedAt !== null);
    expect(prefill.leg.endedAt).toBeCloseTo(computed + 42);
    expect(prefill.leg.report).toMatchObject({ outputTokens: 1 });
    expect(prefill.leg.report?.handoff ?? null).toBeNull();
    until(time, () => decode.leg.endedAt !== null);
    expect(decode.leg.report).toMatchObject({ outputTokens: 3 });
  });

  it('takes a decode leg that comes first', () => {
    const { time, send } = setup();
    const decode = send(DECODE, room(7n));
    time.runUntil(50);
    const prefill = send(PREFILL, room(7n));
    until(time, () => decode.leg.endedAt !== null && prefill.leg.endedAt !== null);
    expect([prefill.leg.report?.outputTokens, decode.leg.report?.outputTokens]).toEqual([1, 3]);
  });

  it('gives both up when the other never comes', () => {
    const { time, send } = setup();
    const prefill = send(PREFILL, room(1n));
    const decode = send(DECODE, room(2n));
    until(time, () => decode.leg.endedAt !== null && prefill.leg.endedAt !== null);
    expect(time.now()).toBe(10_000);
    for (const { leg } of [prefill, decode]) expect(leg.error?.details).toMatchObject({ reason: 'timeout' });
  });

  it.each([
    ['while it waits', 0],
    ['while the prompt is computed', 10],
    ['while the blocks come', 35],
  ])('ends the prefill leg when the decode leg is aborted %s', (_, wait) => {
    const { time, send, active } = setup();
    const prefill = send(PREFILL, room(7n));
    const decode = send(DECODE, room(7n));
    time.runUntil(wait);
    decode.exchange.abort();
    time.runUntil(wait + 1);
    expect(prefill.leg.error?.details).toMatchObject({ reason: 'taker_gone' });
    expect(active()).toEqual([0, 0]);
  });

  it.each([
    ['while it waits', 0],
    ['while the prompt is computed', 10],
    ['while the blocks come', 35],
  ])('fails the decode leg when the prefill leg is aborted %s', (_, wait) => {
    const { time, send, active } = setup();
    const prefill = send(PREFILL, room(7n));
    const decode = send(DECODE, room(7n));
    time.runUntil(wait);
    prefill.exchange.abort();
    time.runUntil(wait + 1);
    expect(decode.leg.error?.details).toMatchObject({ reason: 'nothing_held' });
    time.runUntil(wait + 2);
    expect(active()).toEqual([0, 0]);
  });

  it.each([1, 2])('leaves nothing behind when engine %i dies in the middle', (worker) => {
    for (const atMs of [10, 35]) {
      const { time, send, active } = setup({}, [{ worker, atMs }]);
      const prefill = send(PREFILL, room(7n));
      const decode = send(DECODE, room(7n));
      until(time, () => prefill.leg.endedAt !== null && decode.leg.endedAt !== null);
      expect(time.now()).toBe(atMs);
      expect([prefill.leg.error === null, decode.leg.error === null]).toEqual([false, false]);
      time.runUntil(atMs + 1);
      expect(active()).toEqual([0, 0]);
    }
  });
});
