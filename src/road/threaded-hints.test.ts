// Bookings that wait for hint policies in threads of their own: held, and freed exactly once whatever happens meanwhile.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { createPluginHost, type ResolvedPluginHost } from '../host/index.ts';
import { NO_LOG } from '../plugin/index.ts';
import { PARTITION, prompt, REPORT, testRoad, workerSpec } from './road.fixtures.ts';

const folder = mkdtempSync(join(tmpdir(), 'threaded-hints-'));
writeFileSync(
  join(folder, 'threads.ts'),
  `import { defineHintPolicy } from 'pointsman/plugin';
const action = (payload: Record<string, number>) => [{ type: 'acme.mark', version: '1.0', payload }];
export const mark = defineHintPolicy({
  type: 'mark',
  isolation: 'thread',
  create: () => ({
    buildHints({ promptTokens }) {
      if (promptTokens === 48) for (;;);
      return action({ promptTokens });
    },
  }),
});
export const here = defineHintPolicy({ type: 'here', create: () => ({ buildHints: () => action({ here: 1 }) }) });
export const sender = defineHintPolicy({
  type: 'sender',
  isolation: 'thread',
  commitments: ['kv-copy'],
  create: () => ({
    buildHints({ committedKvCopy, requestId }) {
      if (requestId === 'loops') for (;;);
      if (committedKvCopy === null) return [];
      return [{ type: 'kv.fetch', version: '1.0', payload: { block_hashes: committedKvCopy.blockHashes } }];
    },
  }),
});
`,
);
const hosts: ResolvedPluginHost[] = [];
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.dispose();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const DEADLINE_MS = 50;

async function built(aggregated: string) {
  const road = await testRoad({
    workers: [workerSpec(1n), workerSpec(2n), workerSpec(3n)],
    async runtime({ fleet, clock }) {
      const yaml = `plugins: [./threads.ts]\nworker_selection: { aggregated: { ${aggregated} } }`;
      const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
      const threads = { modules: {} };
      const host = await createPluginHost({ config, source, clock, seed: 7, log: NO_LOG, fleet, threads });
      hosts.push(host);
      return host.roleRuntime(PARTITION, 'aggregated', 16);
    },
  });
  const { transport } = road;
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    ...road,
    until,
    dispatched: (count: number) => until(() => transport.dispatched.length === count),
  };
}

const names = (record: { hints: { policies: readonly { name: string; reason?: string }[] } | null } | null) =>
  record?.hints?.policies.map(({ name, reason }) => [name, reason].filter(Boolean).join(' '));

describe('a booking that waits', () => {
  it('is held, and goes out with what the thread answered', async () => {
    const { arrive, road, transport, dispatched, expectIdle } = await built(
      'hints: [{ type: mark }, { type: here }]',
    );
    const { sink, record } = arrive();
    expect([road.activeBookings(), transport.dispatched.length, sink.heard]).toEqual([1, 0, []]);
    await dispatched(1);
    expect(transport.last.request.hint?.actions.map(({ payload }) => payload)).toEqual([
      { promptTokens: 64 },
      { here: 1 },
    ]);
    expect(sink.heard).toHaveLength(1);
    expect(names(record())).toEqual(['mark', 'here']);
    transport.last.sink.finished(REPORT);
    expectIdle();
  });

  it('is freed once when its client goes away, and the answer that comes then is for nobody', async () => {
    const { arrive, dispatched, transport, expectIdle, road } = await built('hints: [{ type: mark }]');
    const { sink, ticket, record } = arrive();
    ticket.abort();
    ticket.abort();
    expectIdle();
    // The thread answers in order, so when the second is out the first has been answered.
    const second = arrive();
    await dispatched(1);
    expect(transport.last.request.requestId).toBe('r2');
    expect(road.activeBookings()).toBe(1);
    expect(sink.heard).toEqual([]);
    expect(record()?.booking.released).toBeUndefined();
    second.ticket.abort();
    expect(transport.last.aborts).toBe(1);
    expectIdle();
  });

  it('fails when its worker is lost, and is freed', async () => {
    const { arrive, fleet, transport, expectIdle, dispatched } = await built('hints: [{ type: mark }]');
    const constraints = { ...NO_WISHES, pinnedWorker: { workerId: 2n, rank: null } };
    const { sink } = arrive({ constraints });
    fleet.remove(2n);
    expect(sink.heard).toEqual(['failed PM_ENGINE_LOST before head']);
    expectIdle();
    const { ticket } = arrive();
    await dispatched(1);
    expect(transport.last.request.requestId).toBe('r2');
    ticket.abort();
    expectIdle();
  });

  it('takes a pause along to the engine', async () => {
    const { arrive, transport, dispatched } = await built('hints: [{ type: mark }]');
    const { ticket } = arrive();
    ticket.pause();
    await dispatched(1);
    expect(transport.last.pauses).toBe(1);
    ticket.abort();
  });

  it('waits no longer than the deadline, and those that follow not at all while the thread is replaced', async () => {
    const { arrive, transport, clock, until, expectIdle } = await built(
      'hints: [{ type: mark }, { type: here }]',
    );
    const loops = arrive({ tokens: prompt(2, 48) });
    clock.advanceTo(clock.now() + DEADLINE_MS - 1);
    expect(transport.dispatched).toHaveLength(0);
    clock.advanceTo(clock.now() + 1);
    expect(transport.dispatched).toHaveLength(1);
    expect(transport.last.request.hint?.actions.map(({ payload }) => payload)).toEqual([{ here: 1 }]);
    expect(names(loops.record())).toEqual(['mark timed_out', 'here']);
    const next = arrive();
    expect(transport.dispatched).toHaveLength(2);
    expect(names(next.record())).toEqual(['mark restarting', 'here']);
    loops.ticket.abort();
    next.ticket.abort();
    for (let answers = false; !answers; ) {
      const sent = transport.dispatched.length;
      const { ticket, record } = arrive();
      await until(() => transport.dispatched.length > sent);
      answers = names(record())?.[0] === 'mark';
      ticket.abort();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expectIdle();
  });
});

const NO_WISHES = {
  pinnedWorker: null,
  allowedWorkers: null,
  requiredTaints: [],
  preferredTaints: new Map<string, number>(),
  temperature: null,
  priority: 0,
  strictPriority: 0,
};

describe('a committed copy whose sender has a thread', () => {
  const TOKENS = prompt(1, 2048);

  /** The golden vector: worker 1 holds 64 blocks and is busy, worker 2 holds 8 and is chosen for the copy of 1's, worker 3 none. */
  async function golden(onFailure: 'degrade' | 'release') {
    const the = await built(
      `type: kvcr, parameters: { shared_cache_multiplier: 0.5 }, on_commit_failure: ${onFailure}, hints: [{ type: sender }, { type: here }]`,
    );
    const constraints = { ...NO_WISHES, pinnedWorker: { workerId: 1n, rank: null } };
    const busy = the.arrive({ tokens: prompt(9, 8192), constraints });
    await the.dispatched(1);
    the.cache(1n, TOKENS.subarray(0, 1024));
    the.cache(2n, TOKENS.subarray(0, 128));
    return { ...the, busy };
  }

  it('is sent first, with the hashes of its source', async () => {
    const { arrive, transport, dispatched, busy, expectIdle } = await golden('degrade');
    const { ticket, record } = arrive({ tokens: TOKENS });
    await dispatched(2);
    const { worker, hint } = transport.last.request;
    expect(worker.spec.id).toBe(2n);
    expect(hint?.actions.map(({ action_type }) => action_type)).toEqual(['kv.fetch', 'acme.mark']);
    expect(hint?.actions[0]?.payload.block_hashes).toHaveLength(64);
    expect(record()?.hints?.commit).toMatchObject({ result: 'sent', reason: null, prefix_blocks: 64 });
    ticket.abort();
    busy.ticket.abort();
    expectIdle();
  });

  it('is given up at the deadline: dispatched without it', async () => {
    const { arrive, transport, clock, busy, expectIdle } = await golden('degrade');
    const { ticket, record } = arrive({ tokens: TOKENS, requestId: 'loops' });
    clock.advanceTo(clock.now() + DEADLINE_MS);
    expect(transport.last.request.hint?.actions.map(({ action_type }) => action_type)).toEqual(['acme.mark']);
    expect(record()?.hints?.commit).toMatchObject({ result: 'degraded', reason: 'timed_out' });
    ticket.abort();
    busy.ticket.abort();
    expectIdle();
  });

  it('or, as the role says, booked anew without counting on it', async () => {
    const { arrive, transport, clock, decisions, busy, road, expectIdle } = await golden('release');
    const { ticket, record, sink } = arrive({ tokens: TOKENS, requestId: 'loops' });
    expect(sink.heard).toEqual([]);
    clock.advanceTo(clock.now() + DEADLINE_MS);
    expect(sink.heard).toEqual(['booked 2/0']);
    expect(road.activeBookings()).toBe(2);
    expect(transport.last.request.hint?.actions.map(({ action_type }) => action_type)).toEqual(['acme.mark']);
    expect(record()).toMatchObject({ attempt: 2, hints: { commit: null } });
    const first = decisions
      ?.list(10, {})
      .find(({ attempt, request_id }) => attempt === 1 && request_id === 'loops');
    expect(first).toMatchObject({
      booking: { released: 'commit_failed' },
      hints: {
        commit: { result: 'released', reason: 'timed_out' },
        policies: [{ name: 'sender', reason: 'timed_out' }],
      },
    });
    ticket.abort();
    busy.ticket.abort();
    expectIdle();
  });

  it('is not counted on while the thread that would send it is replaced', async () => {
    const { arrive, clock, decisions, busy, road, transport } = await golden('degrade');
    arrive({ tokens: TOKENS, requestId: 'loops' });
    clock.advanceTo(clock.now() + DEADLINE_MS);
    const sent = transport.dispatched.length;
    arrive({ tokens: TOKENS, requestId: 'meanwhile' });
    const [record] = decisions?.list(1, {}) ?? [];
    expect(record).toMatchObject({
      request_id: 'meanwhile',
      hints: { commit: null, policies: [{ name: 'sender', reason: 'restarting' }, { name: 'here' }] },
    });
    expect(transport.dispatched.length).toBe(sent + 1);
    busy.ticket.abort();
    expect(road.activeBookings()).toBe(2);
  });

  it.each(['degrade', 'release'] as const)(
    'is settled when the request ends before (%s)',
    async (onFailure) => {
      const { arrive, decisions, busy, expectIdle } = await golden(onFailure);
      const { ticket } = arrive({ tokens: TOKENS });
      ticket.abort();
      const [record] = decisions?.list(1, {}) ?? [];
      expect(record).toMatchObject({
        request_id: 'r2',
        booking: { released: 'aborted' },
        hints: {
          sent: [],
          commit: { result: onFailure === 'degrade' ? 'degraded' : 'released', reason: 'request_ended' },
        },
      });
      busy.ticket.abort();
      expectIdle();
    },
  );
});
