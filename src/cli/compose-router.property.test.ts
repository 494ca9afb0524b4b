// The composed core under any order of events, fleet changes and requests: the index holds blocks of the fleet's slots only, a
// request goes to a ready worker or is refused, and nothing stays booked.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import type { EngineSink } from '../engines/index.ts';
import { encodeEventBatch, type KvEvent } from '../events/index.ts';
import type { WorkerCapabilities, WorkerSpec } from '../fleet/index.ts';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import type { RoadTicket } from '../road/index.ts';
import { composeRouter } from './compose-router.ts';

const CONFIG = `
models: { m: { tokens: { source: estimate } } }
limits: { index_bytes: 1MiB, decision_bytes: 64KiB }
`;

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('batch' as const),
      slot: fc.nat(8),
      sequence: fc.constantFrom('next', 'next', 'next', 'zero', 'jump', 'same'),
      rank: fc.constantFrom(null, null, 0, 1, 7),
      event: fc.constantFrom('store', 'store', 'child', 'remove', 'clear', 'bad size', 'bad count'),
      prompt: fc.nat(3),
      blockSize: fc.constantFrom(16, 32),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'add' as const,
        'remove' as const,
        'gone' as const,
        'ready' as const,
        'epoch' as const,
      ),
      id: fc.bigInt(1n, 4n),
      variant: fc.nat(5),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      prompt: fc.nat(3),
      length: fc.integer({ min: 1, max: 200 }),
      ends: fc.constantFrom('finished', 'aborted', 'later'),
    }),
  },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** A rank that announces no event stream is estimated; what comes on one nevertheless names the same block once more. */
const ESTIMATED_AND_ANNOUNCED: Step[] = [
  { do: 'add', id: 1n, variant: 1 },
  { do: 'batch', slot: 1, sequence: 'next', rank: 0, event: 'store', prompt: 2, blockSize: 16 },
  { do: 'arrive', prompt: 2, length: 16, ends: 'finished' },
];
type Batch = Extract<Step, { do: 'batch' }>;

function eventOf({ event, prompt, blockSize }: Batch): KvEvent {
  const child = event === 'child';
  const first = prompt * 100 + blockSize * 1000;
  const external = Uint32Array.from({ length: 8 }, (_, word) => first + word + (child ? 50 : 0));
  if (event === 'clear') return { kind: 'cleared' };
  if (event === 'remove') return { kind: 'removed', external, tier: 'device' };
  const tokens = promptOf(prompt, 4 * blockSize, child ? 500 : 0);
  return {
    kind: 'stored',
    external,
    parent: child ? { lo: first + 6, hi: first + 7 } : null,
    tokenIds: event === 'bad count' ? tokens.subarray(1) : tokens,
    blockSize: event === 'bad size' ? 7 : blockSize,
    tier: 'device',
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

function promptOf(prompt: number, length: number, from = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, index) => prompt * 1000 + from + index);
}

function spec(id: bigint, ranks: number): WorkerSpec {
  return {
    id,
    model: 'm',
    url: `http://127.0.0.1:${id}`,
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: ranks },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
  };
}

function capabilities(variant: number): WorkerCapabilities {
  const rank = {
    routerHint: true,
    actions: null,
    sourceControlEndpoint: 'tcp://127.0.0.1:1',
    kvEvents: null,
  };
  return {
    epoch: `e${variant}`,
    model: 'm',
    workerType: 'aggregated',
    blockSize: variant % 2 === 0 ? 32 : 16,
    hashScheme: 's',
    reportsOutcomes: false,
    ranks: new Map([[0, rank]]),
  };
}

async function composed() {
  const { config, source } = parseConfig(CONFIG, 'router.yaml');
  const dispatched: { ready: boolean; sink: EngineSink }[] = [];
  const router = await composeRouter({
    config,
    source,
    clock: new ManualClock(),
    metrics: createMetrics(),
    log: NO_LOG,
    seed: 1,
    transportFor: () => ({
      dispatch({ worker }, sink) {
        dispatched.push({ ready: worker.state === 'ready', sink });
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
  });
  const sequences = new Map<number, number>();
  const publish = (batch: Batch): void => {
    const last = sequences.get(batch.slot) ?? -1;
    const steps: Readonly<Record<string, number>> = {
      next: last + 1,
      jump: last + 5,
      same: Math.max(0, last),
    };
    const sequence = steps[batch.sequence] ?? 0;
    sequences.set(batch.slot, sequence);
    const payload = encodeEventBatch({ timestamp: 0, rank: batch.rank, events: [eventOf(batch)] });
    router.events?.onBatch(batch.slot, sequence, payload);
  };
  const arrive = (tokens: Uint32Array): { heard: string[]; ticket: RoadTicket } => {
    const heard: string[] = [];
    const ticket = router.road.arrive(
      givenRequest('r', tokens, {
        partition: { model: 'm', routingGroup: 'default' },
        servedAs: 'm',
        maxOutputTokens: 1,
      }),
      {
        ...SILENT,
        booked: () => heard.push('booked'),
        finished: () => heard.push('finished'),
        failed: (error) => heard.push(error.code),
      },
    );
    return { heard, ticket };
  };
  const changeFleet = ({ do: what, id, variant }: Extract<Step, { id: bigint }>): void => {
    const { fleet } = router;
    const known = fleet.worker(id) !== null;
    if (what === 'add') {
      if (!known) fleet.add(spec(id, 1 + (variant % 3)), variant < 3 ? capabilities(variant) : null);
    } else if (!known) return;
    else if (what === 'remove') fleet.remove(id);
    else if (what === 'epoch') fleet.setCapabilities(id, variant === 5 ? null : capabilities(variant));
    else fleet.setState(id, what);
  };
  /** Slots that hold blocks, one entry per engine hash: a block that is estimated and announced has two. */
  const holders = (): number[] => {
    const found: number[] = [];
    let cursor: number | null = 0;
    while (cursor !== null) {
      const page: { blocks: readonly { owner: number }[]; cursor: number | null } | undefined =
        router.index?.dump(cursor, 1000);
      found.push(...(page?.blocks ?? []).map(({ owner }) => owner));
      cursor = page?.cursor ?? null;
    }
    return found;
  };
  return { router, dispatched, publish, arrive, changeFleet, holders };
}

it('keeps its accounts under any order of events, fleet changes and requests', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const { router, dispatched, publish, arrive, changeFleet, holders } = await composed();
      const { fleet, index, road } = router;
      const waiting: RoadTicket[] = [];
      for (const one of steps) {
        if (one.do === 'batch') publish(one);
        else if (one.do !== 'arrive') changeFleet(one);
        else {
          const anyReady = fleet.workers().some(({ state }) => state === 'ready');
          const { heard, ticket } = arrive(promptOf(one.prompt, one.length));
          expect(heard).toEqual([anyReady ? 'booked' : 'PM_SELECTION_NO_ENDPOINTS']);
          if (anyReady) expect(dispatched.at(-1)?.ready).toBe(true);
          if (one.ends === 'later') waiting.push(ticket);
          else if (one.ends === 'aborted') ticket.abort();
          else if (anyReady) {
            dispatched.at(-1)?.sink.finished({
              promptTokens: one.length,
              cachedTokens: 0,
              outputTokens: 1,
              finishReason: 'stop',
              source: 'usage',
            });
          }
        }
        const owned = new Set(fleet.workers().flatMap(({ slots }) => slots));
        const held = holders();
        expect(held.filter((slot) => !owned.has(slot))).toEqual([]);
        expect(index?.stats().holdings).toBe(held.length);
      }
      for (const ticket of waiting) ticket.abort();
      expect(road.activeBookings()).toBe(0);
      for (const { spec } of fleet.workers()) fleet.remove(spec.id);
      expect(index?.stats()).toMatchObject({ residencies: 0, holdings: 0, blocks: 0 });
      await router.close();
    }),
    { numRuns: 100, examples: [[ESTIMATED_AND_ANNOUNCED]] },
  );
});
