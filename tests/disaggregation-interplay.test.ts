// Requests of two workers beside everything else that requests meet: selection by callers, waits for a first worker, and queues.
import { describe, expect, it } from 'vitest';
import { defineRequestClassifier } from '../src/plugin/index.ts';
import type { CallerPart } from '../src/road/index.ts';
import { tinyWorker } from '../src/scheduling/scheduler.fixtures.ts';
import { countedTokens } from './support/road-request.ts';
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
        prompt: { promptTokens: 32, hashes: { local: new BigUint64Array(), sequence: new BigUint64Array() } },
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
      fleet.core.fleet.add(tinyWorker(9n, { registered: true }));
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
      fleet.core.fleet.add(tinyWorker(9n, { registered: true, role }));
      fleet.core.fleet.setState(9n, 'ready');
      const sent = fleet.arrive();
      expect(sentOf(fleet)).toEqual(['r1 aggregated']);
      expect(sent.worker?.workerId).toBe(1n);
      // Nor do they make one whole: this one has no decode worker of its own.
      fleet.core.fleet.add(tinyWorker(2n, { role: role === 'prefill' ? 'decode' : 'prefill' }));
      fleet.core.fleet.setState(2n, 'ready');
      expect(fleet.arrive().error?.code).toBe(
        role === 'prefill' ? 'PM_DISAGG_NO_PREFILL' : 'PM_SELECTION_NO_ENDPOINTS',
      );
    },
  );
});

describe('requests that wait for the first worker of their model', () => {
  const waiting = 'limits: { first_worker_wait: 10s, retries: 2 }';
  const come = ({ core }: Fleet, id: bigint, role: 'prefill' | 'decode'): void => {
    core.fleet.add(tinyWorker(id, { role }));
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
      fleet.core.fleet.add(tinyWorker(id));
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
