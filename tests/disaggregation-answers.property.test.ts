// Engines that answer the legs of a request with anything, in any order, at once or later or never, and clients that leave in the middle of
// whatever they are told: a request ends once, and no booking outlives its engines.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EngineRequest, EngineSink, EngineTransport } from '../src/engines/index.ts';
import { PointsmanError } from '../src/plugin/index.ts';
import type { ResponseSink, RoadTicket } from '../src/road/index.ts';
import type { HandoffKind } from '../src/simulator/index.ts';
import { dividedFleet } from './support/divided-fleet.ts';
import { countedTokens, givenRequest } from './support/road-request.ts';

const ACTIONS = [
  'head',
  'bad_head',
  'data',
  'tokens',
  'stop',
  'length',
  'handoff',
  'odd_handoff',
  'failed',
  'lost',
] as const;
type Action = (typeof ACTIONS)[number];
const MOMENTS = ['booked', 'dispatched', 'head', 'data', 'tokens'] as const;

const script = fc.record({
  throws: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  steps: fc.array(
    fc.record({ after: fc.constantFrom(null, null, 0, 1, 20), action: fc.constantFrom(...ACTIONS) }),
    { maxLength: 8 },
  ),
});

const plan = fc.record({
  handoff: fc.constantFrom<HandoffKind>('nixl', 'nixl_push', 'mooncake', 'bootstrap'),
  stream: fc.boolean(),
  requests: fc.array(
    fc.record({
      prefill: script,
      decode: script,
      /** The client leaves, or its door throws, when it hears of this. */
      leavesAt: fc.constantFrom(null, null, null, ...MOMENTS),
      throwsAt: fc.constantFrom(null, null, null, null, ...MOMENTS),
    }),
    { minLength: 1, maxLength: 5 },
  ),
});

const ODD = [
  {},
  { remote_num_tokens: 'many', remote_block_ids: { a: [null] } },
  { do_remote_prefill: 7, nested: Array.from({ length: 2000 }, (_, at) => ({ at })) },
];

function act(sink: EngineSink, action: Action, { role }: EngineRequest, seed: number): void {
  const report = { promptTokens: 64, cachedTokens: 0, outputTokens: 1, source: 'usage' } as const;
  if (action === 'head') sink.head(200, { 'content-type': 'application/json' }, []);
  else if (action === 'bad_head') sink.head(400, {}, []);
  else if (action === 'data') sink.data(Buffer.alloc(seed % 3 === 0 ? 700_000 : 5, 'x'));
  else if (action === 'tokens') sink.tokens(1);
  else if (action === 'stop') sink.finished({ ...report, finishReason: 'stop' });
  else if (action === 'length') sink.finished({ ...report, finishReason: 'length' });
  else if (action === 'handoff' || action === 'odd_handoff') {
    const handoff = action === 'handoff' ? { remote_num_tokens: 64 } : (ODD[seed % ODD.length] ?? {});
    sink.finished({ ...report, finishReason: 'length', ...(role === 'prefill' && { handoff }) });
  } else {
    sink.failed(
      new PointsmanError(action === 'lost' ? 'PM_ENGINE_LOST' : 'PM_ENGINE_FAILED', 'it went wrong'),
    );
  }
}

/** A client that may leave or break in the middle of anything it hears. */
class FickleClient implements ResponseSink {
  ticket: RoadTicket | null = null;
  ends = 0;
  left = false;
  broke = false;
  error: PointsmanError | null = null;
  readonly #leavesAt: string | null;
  readonly #throwsAt: string | null;

  constructor(leavesAt: string | null, throwsAt: string | null) {
    this.#leavesAt = leavesAt;
    this.#throwsAt = throwsAt;
  }

  booked = (): void => this.#hear('booked');
  dispatched = (): void => this.#hear('dispatched');
  head = (): void => this.#hear('head');
  data = (): void => this.#hear('data');
  tokens = (): void => this.#hear('tokens');
  finished(): void {
    this.ends += 1;
  }
  failed(error: PointsmanError): void {
    this.error = error;
    this.ends += 1;
  }

  #hear(moment: string): void {
    expect([this.left && this.ticket !== null, this.ends]).toEqual([false, 0]);
    if (moment === this.#throwsAt && !this.broke) {
      this.broke = true;
      throw new Error('the door broke');
    }
    if (moment !== this.#leavesAt) return;
    this.left = true;
    // While it is told for the first time within `arrive`, nobody has a ticket yet: it leaves as soon as it has.
    this.ticket?.abort();
  }
}

describe('legs that are answered with anything', () => {
  it('end with their request, once, and hold nothing afterwards', { timeout: 240_000 }, async () => {
    const seen = { ended: 0, left: 0, broke: 0 };
    await fc.assert(
      fc.asyncProperty(plan, async ({ handoff, requests, stream }) => {
        const open = new Set<EngineSink>();
        const world = await dividedFleet({
          prefill: 1,
          decode: 1,
          handoff,
          transport: (): EngineTransport => ({
            dispatch(request, sink) {
              const of = requests[Number(request.requestId.slice(1))];
              const { steps, throws } = (request.role === 'prefill' ? of?.prefill : of?.decode) ?? {
                steps: [],
                throws: false,
              };
              if (throws) throw new Error('no connection');
              open.add(sink);
              let at = world.time.now();
              for (const [index, { action, after }] of steps.entries()) {
                if (after === null) act(sink, action, request, index);
                else {
                  at += after;
                  world.time.plan(at, 'timer', () => act(sink, action, request, index));
                }
              }
              return { abort: () => void open.delete(sink), pause() {}, resume() {} };
            },
            close() {},
          }),
        });
        const clients = requests.map(({ leavesAt, throwsAt }, index) => {
          const client = new FickleClient(leavesAt, throwsAt);
          const request = givenRequest(`r${index}`, countedTokens(64), { stream });
          client.ticket = world.router.road.arrive(request, client);
          if (client.left) client.ticket.abort();
          return client;
        });
        world.time.runUntil(5000);
        // What no engine ever ends, the worker's end does.
        for (const id of [1n, 2n]) world.core.road.workerGone(id);
        world.time.runUntil(10_000);
        for (const { broke, ends, error, left } of clients) {
          if (broke) seen.broke += 1;
          else if (left) seen.left += 1;
          else {
            seen.ended += 1;
            expect(ends).toBe(1);
            if (error !== null && error.message !== 'it went wrong')
              expect(error.code).not.toBe('PM_ROAD_EXPIRED');
          }
          expect(ends).toBeLessThan(2);
        }
        expect(world.router.road.activeBookings()).toBe(0);
        const { loads } = world.core.scheduler;
        for (const column of [loads.activeRequests, loads.activePrefillTokens, loads.activeDecodeBlocks])
          expect([...column].every((value) => value === 0)).toBe(true);
        await world.router.close();
      }),
      { numRuns: 400 },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50);
  });
});
