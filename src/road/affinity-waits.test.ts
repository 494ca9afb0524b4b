// Requests of a session that wait: for their turn in a queue, or until the first of them is placed.
import { describe, expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../config/index.ts';
import { createSoloRuntime, type HintStageResult } from '../host/index.ts';
import { createBlockHasher, createPrefixIndex } from '../kv/index.ts';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  NO_LOG,
  PointsmanError,
  pickWorker,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { bound, LOST, of, rotating } from './affinity.fixtures.ts';
import { PARTITION, type TestRoadOptions } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

describe('in a queue', () => {
  const queues = queueSettingsOf(parseConfig('router: { router_queue_threshold: 0 }', 'q.yaml').config);

  it('a request takes the binding that is there when its turn comes', async () => {
    const { arrive, tick, transport, finish, sentTo, affinity, expectIdle } = await bound('hard', { queues });
    for (let worker = 0; worker < 3; worker += 1) arrive();
    // Both wait, and neither is bound yet.
    arrive(of('s'));
    arrive(of('s'));
    expect(sentTo()).toHaveLength(3);
    expect(affinity.size).toBe(0);
    for (let at = 0; at < 3; at += 1) transport.dispatched[at]?.sink.tokens(1);
    tick();
    const [fourth, early] = sentTo().slice(3);
    expect(fourth).toBeDefined();
    // Others are idle, and it is not for them.
    expect(early).toBeUndefined();
    transport.dispatched[3]?.sink.tokens(1);
    tick();
    expect(sentTo()[4]).toBe(fourth);
    for (let at = 0; at < 5; at += 1) finish(at);
    expectIdle();
  });

  it('one that is bound waits for its worker, while others go past it', async () => {
    const { arrive, tick, transport, finish, sentTo } = await bound('hard', { queues });
    arrive(of('s'));
    arrive(of('s'));
    tick();
    expect(sentTo()).toEqual([1]);
    arrive(of('t'));
    tick();
    expect(sentTo()).toEqual([1, 2]);
    transport.dispatched[0]?.sink.tokens(1);
    tick();
    expect(sentTo()).toEqual([1, 2, 1]);
    finish();
  });

  it('many that came before the binding was made wait for its worker one by one, and hold up nobody else', async () => {
    const { arrive, clock, tick, transport, finish, sentTo, expectIdle } = await bound('hard', {
      queues,
      concurrentRequests: 1000,
    });
    for (let worker = 0; worker < 3; worker += 1) arrive();
    for (let child = 0; child < 300; child += 1) arrive(of(`c${child}`, 'p'));
    arrive();
    for (let at = 0; at < 3; at += 1) transport.dispatched[at]?.sink.tokens(1);
    // Those that are moved to its worker are so many that it takes more than one look.
    clock.advanceTo(clock.now() + 100);
    expect(sentTo()).toHaveLength(5);
    const [ofSession, other] = sentTo().slice(3);
    expect(other).not.toBe(ofSession);
    for (let at = 3; at < 304; at += 1) {
      if (at !== 4) expect(sentTo()[at]).toBe(ofSession);
      expect(sentTo().length).toBeLessThanOrEqual(at + 2);
      transport.dispatched[at]?.sink.tokens(1);
      tick();
    }
    for (let at = 0; at < 304; at += 1) finish(at);
    expect(sentTo()).toHaveLength(304);
    expectIdle();
  });

  it('one waits elsewhere when its session is bound elsewhere meanwhile', async () => {
    const { arrive, clock, transport, sentTo } = await bound('hard', { queues });
    arrive(of('s'));
    const waits = arrive(of('s'));
    transport.dispatched[0]?.sink.failed(new PointsmanError('PM_ENGINE_FAILED', 'it failed'));
    // Its worker computes another prompt before it is looked at.
    const pinned = (workerId: bigint) => ({
      constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank: 0 } },
    });
    arrive({ ...pinned(1n), queueing: 'bypass' });
    arrive({ ...of('s'), ...pinned(2n), queueing: 'bypass' });
    expect(sentTo()).toEqual([1, 1, 2]);
    transport.dispatched[2]?.sink.tokens(1);
    clock.advanceTo(clock.now() + 100);
    expect(sentTo()).toEqual([1, 1, 2, 2]);
    expect(waits.sink.error).toBeNull();
  });

  it('one whose binding was dropped meanwhile makes another', async () => {
    const { arrive, tick, transport, sentTo, fleet, counts } = await bound('hard', { queues });
    arrive(of('s'));
    const waiting = arrive(of('s'));
    transport.dispatched[0]?.sink.failed(LOST);
    fleet.setState(1n, 'draining');
    tick();
    expect(waiting.sink.error).toBeNull();
    expect(sentTo()[1]).not.toBe(1);
    expect(counts).toEqual(['initialised', 'invalidated', 'initialised']);
  });
});

describe('while the binding is being made', () => {
  /** A hint stage that answers when the test says so. */
  async function staged(
    mode: 'hard' | 'soft',
    more: TestRoadOptions = {},
    definition: WorkerSelectionPolicyDefinition = rotating(true),
  ) {
    const answers: ((result: HintStageResult) => void)[] = [];
    const canceled: number[] = [];
    const road = await bound(mode, {
      ...more,
      runtime: async ({ fleet, clock }) => ({
        ...(await createSoloRuntime({
          selection: { definition },
          hints: [{ definition: defineHintPolicy({ type: 'h', create: () => ({ buildHints: () => [] }) }) }],
          partition: PARTITION,
          role: 'aggregated',
          blockSize: 16,
          clock,
          seed: 7,
          log: NO_LOG,
          fleet,
        })),
        threadedHints: {
          start(_booking, hinted) {
            const at = answers.push(hinted) - 1;
            return { pending: true, cancel: () => void canceled.push(at) };
          },
        },
      }),
    });
    const answer = (at: number): void =>
      answers[at]?.({ hint: null, capable: true, policies: [], actionPolicies: [] });
    return { ...road, answer, answers, canceled };
  }

  it.each(['hard', 'soft'] as const)(
    'others of the session wait, and go where it went (%s)',
    async (mode) => {
      const { arrive, answer, answers, clock, tick, sentTo, outcome, counts, road, expectIdle, finish } =
        await staged(mode);
      arrive(of('s'));
      const second = arrive(of('s'));
      arrive(of('s'));
      const other = arrive(of('t'));
      expect(answers).toHaveLength(2);
      expect(road.activeBookings()).toBe(2);
      clock.advanceTo(clock.now() + 25);
      answer(0);
      // Not inside of the other's walk.
      expect(answers).toHaveLength(2);
      tick();
      for (const at of [1, 2, 3]) answer(at);
      expect(sentTo()).toEqual([1, 2, 1, 1]);
      expect(outcome(second)).toMatchObject({ target: { worker_id: 1n }, waited_ms: 25 });
      expect(outcome(other)).toMatchObject({ outcome: 'initialised', waited_ms: null });
      expect(counts.filter((what) => what === 'waited')).toHaveLength(2);
      for (let at = 0; at < 4; at += 1) finish(at);
      expectIdle();
    },
  );

  it('others are hashed once, however often they are woken', async () => {
    const looking = defineWorkerSelectionPolicy({
      type: 'looking',
      create: () => ({ picker: pickWorker({ inputs: ['cache'], pick: () => 0 }) }),
    });
    const index = createPrefixIndex({ hasher: createBlockHasher() });
    const found: unknown[] = [];
    const find = index.find.bind(index);
    index.find = (local, sequence, tiers) => {
      found.push(local);
      return find(local, sequence, tiers);
    };
    const { arrive, tick } = await staged('soft', { index }, looking);
    const [first, second] = [arrive(of('s')), arrive(of('s'))];
    arrive(of('s'));
    first.ticket.abort();
    tick();
    second.ticket.abort();
    tick();
    const times = [...new Set(found)].map((hashes) => found.filter((one) => one === hashes).length);
    expect(times).toEqual([1, 2, 3]);
  });

  it('one that leaves is not placed, and the others are', async () => {
    const { arrive, answer, answers, tick, sentTo, finish, expectIdle } = await staged('hard');
    arrive(of('s'));
    const leaves = arrive(of('s'));
    arrive(of('s'));
    leaves.ticket.abort();
    expect(leaves.sink.heard).toEqual([]);
    answer(0);
    tick();
    expect(answers).toHaveLength(2);
    answer(1);
    expect(sentTo()).toEqual([1, 1]);
    finish(0);
    finish(1);
    expectIdle();
  });

  it('one that leaves between its call and its turn is not placed either', async () => {
    const { arrive, answer, answers, tick, affinity } = await staged('hard');
    arrive(of('s'));
    const leaves = arrive(of('s'));
    answer(0);
    leaves.ticket.abort();
    tick();
    expect(answers).toHaveLength(1);
    expect(affinity.size).toBe(1);
  });

  it('the next one makes it when the first is given up', async () => {
    const { arrive, answer, answers, canceled, tick, sentTo, finish, expectIdle, counts } =
      await staged('hard');
    const first = arrive(of('s'));
    arrive(of('s'));
    arrive(of('s'));
    first.ticket.abort();
    expect(canceled).toEqual([0]);
    tick();
    expect(answers).toHaveLength(2);
    answer(1);
    tick();
    answer(2);
    expect(sentTo()).toHaveLength(2);
    expect(new Set(sentTo()).size).toBe(1);
    expect(counts).toEqual(['waited', 'waited', 'waited', 'initialised', 'bound']);
    finish(0);
    finish(1);
    expectIdle();
  });

  it('one whose worker goes meanwhile binds nothing', async () => {
    const { arrive, answers, affinity, fleet, tick, canceled } = await staged('hard');
    const { sink } = arrive(of('s'));
    fleet.remove(1n);
    expect(sink.heard.at(-1)).toMatch(/^failed PM_ENGINE_LOST/);
    tick();
    expect([answers.length, canceled, affinity.size]).toEqual([1, [0], 0]);
  });
});
