// When hint policies run on the road, for whom, and what they are told of the session.
import { describe, expect, it } from 'vitest';
import { createBlockHasher, createPrefixIndex } from '../kv/index.ts';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  type HintContextBase,
  pickWorker,
  type SessionContext,
} from '../plugin/index.ts';
import { capabilities, PARTITION, prompt, REPORT, testRoad, workerSpec } from './road.fixtures.ts';

/** A policy that asks who holds the prompt and tells what it was given. */
function listening(told: (context: HintContextBase) => void) {
  return defineHintPolicy({
    type: 'listening',
    inputs: ['kv-copy-locations'],
    create: () => ({
      buildHints(context) {
        told(context);
        return [
          { type: 'acme.mark', version: '1.0', payload: { owners: context.copyLocations.owners.length } },
        ];
      },
    }),
  });
}

/** A selection that reads nothing. */
const firstRow = defineWorkerSelectionPolicy({
  type: 'first-row',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});

const deaf = (id: bigint) => ({
  ...capabilities(id),
  ranks: new Map([[0, { routerHint: false, actions: null, sourceControlEndpoint: null }]]),
});

describe('hint policies', () => {
  it('run once per booking, when its load is booked and before anyone hears of it', async () => {
    const seen: unknown[] = [];
    const definition = listening(({ requestId, worker }) => {
      const { road, scheduler, transport } = built;
      const booked = scheduler.loads.activeRequests[Number(worker.workerId) - 1];
      seen.push([requestId, booked, road.activeBookings(), transport.dispatched.length]);
    });
    const built = await testRoad({ selection: { definition: firstRow }, hints: [{ definition }] });
    const { sink } = built.arrive();
    expect(seen).toEqual([['r1', 1, 1, 0]]);
    expect(sink.heard[0]).toBe('booked 1/0');
    expect(built.transport.last.request.hint?.message_id).toBe('r1');
    expect(built.transport.last.request.worker.spec.id).toBe(1n);
    built.transport.last.sink.finished(REPORT);
    built.expectIdle();
  });

  it('do not run for a request that is not booked', async () => {
    let runs = 0;
    const definition = listening(() => {
      runs += 1;
    });
    const built = await testRoad({ hints: [{ definition }], workers: [] });
    expect(built.arrive().sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
    const busy = await testRoad({ hints: [{ definition }], concurrentRequests: 0 });
    expect(busy.arrive().sink.heard[0]).toMatch(/^failed /);
    expect(runs).toBe(0);
  });

  it('are told the whole session of the request, or null', async () => {
    const sessions: (SessionContext | null)[] = [];
    const definition = listening(({ session }) => sessions.push(session));
    const built = await testRoad({ hints: [{ definition }] });
    const session: SessionContext = {
      sessionId: 's',
      parentSessionId: 'p',
      namespace: 'n',
      sessionFinal: true,
      inputTrigger: 'tool_result',
      agentHeaders: { 'x-codex-turn': ['a', ''] },
      compaction: true,
    };
    built.arrive({ session });
    built.arrive();
    expect(sessions).toEqual([session, null]);
    expect(Object.isFrozen(sessions[0])).toBe(true);
    expect(Object.isFrozen(sessions[0]?.agentHeaders)).toBe(true);
  });
});

describe('a partition with no router_hint worker', () => {
  /** A road over an index that counts how often it is asked. */
  async function counting() {
    const index = createPrefixIndex({ hasher: createBlockHasher() });
    const find = index.find.bind(index);
    const asked = { times: 0, runs: 0 };
    index.find = (...args) => {
      asked.times += 1;
      return find(...args);
    };
    const definition = listening(() => {
      asked.runs += 1;
    });
    const built = await testRoad({
      selection: { definition: firstRow },
      hints: [{ definition }],
      workers: [workerSpec(1n), workerSpec(2n)],
      index,
    });
    built.cache(1n, prompt(1, 64));
    return { ...built, asked };
  }

  it('skips the stage and retains no chain', async () => {
    const { fleet, arrive, asked, transport } = await counting();
    for (const id of [1n, 2n]) fleet.setCapabilities(id, deaf(id));
    const { record } = arrive();
    expect(transport.last.request.hint).toBeNull();
    expect(record()).toMatchObject({ hints: { capable: false, policies: [], sent: [] }, prediction: null });
    expect(asked).toEqual({ times: 0, runs: 0 });
  });

  it('is told from one with such a worker, whoever is booked', async () => {
    const { fleet, arrive, asked, transport } = await counting();
    fleet.setCapabilities(1n, deaf(1n));
    const { record } = arrive();
    expect(fleet.candidates(PARTITION, 'aggregated').slots).toHaveLength(2);
    expect(transport.last.request.hint).toBeNull();
    expect(record()).toMatchObject({ hints: { capable: false, policies: [] } });
    expect(asked).toEqual({ times: 1, runs: 0 });
    fleet.setCapabilities(1n, capabilities(1n));
    arrive();
    expect(transport.last.request.hint?.actions[0]?.payload).toEqual({ owners: 0 });
    expect(asked).toEqual({ times: 2, runs: 1 });
  });
});
