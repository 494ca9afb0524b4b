// Anything may happen to a divided fleet at any time: engines die or freeze for the router, workers leave and come, clients leave, profiles
// change, the router stops. Whatever the order, every request ends once, and nothing is held by anybody afterwards.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HandoffKind } from '../src/simulator/index.ts';
import { dividedFleet, type HeardLegs } from './support/divided-fleet.ts';
import { countedTokens } from './support/road-request.ts';

/** Virtual ms in which things happen; a prompt here takes up to 100 of them, an answer as many. */
const SPAN = 1500;
/** Until every timeout of an engine and of a booking has passed. */
const REST = 1_000_000;

const QUEUED = `default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - { name: any, policy_family: standard, cache_bucket: any, quantum: 512, prefill_busy_threshold: 1000, request_queue_limit_per_worker: 6 }
`;
const ROUTERS = [
  '',
  'router: { decode_fallback: true }',
  'router: { conditional_disagg: true, conditional_disagg_policy: isl_or_load, conditional_disagg_prefill_busy_threshold: 0.1 }',
  'router: { decode_fallback: true, active_prefill_tokens_threshold: 4000 }',
];

const happening = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('arrive' as const),
      tokens: fc.integer({ min: 1, max: 3000 }),
      // Few: so that prompts share blocks.
      from: fc.constantFrom(0, 0, 16, 5000, 9000),
      output: fc.integer({ min: 1, max: 40 }),
      leavesAfter: fc.oneof(fc.constant(null), fc.double({ min: 0, max: 200, noNaN: true })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), worker: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('state' as const),
      worker: fc.nat(3),
      state: fc.constantFrom('ready' as const, 'suspect' as const, 'draining' as const, 'gone' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), worker: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('unqueue' as const) }) },
);

const plan = fc.record({
  handoff: fc.constantFrom<HandoffKind>('nixl', 'nixl_push', 'mooncake', 'bootstrap'),
  router: fc.constantFrom(...ROUTERS),
  queued: fc.boolean(),
  waits: fc.boolean(),
  kvBlocks: fc.constantFrom(192, 512),
  closesAt: fc.oneof(
    { weight: 5, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.double({ min: 0, max: SPAN, noNaN: true }) },
  ),
  happenings: fc.array(fc.record({ at: fc.double({ min: 0, max: SPAN, noNaN: true }), what: happening }), {
    minLength: 4,
    maxLength: 40,
  }),
});

describe('a divided fleet to which anything happens', () => {
  it('ends every request once, and nothing is held afterwards', { timeout: 240_000 }, async () => {
    const seen = { served: 0, failed: 0, left: 0 };
    await fc.assert(
      fc.asyncProperty(plan, async ({ handoff, router, queued, waits, kvBlocks, closesAt, happenings }) => {
        const world = await dividedFleet({
          prefill: 2,
          decode: 2,
          handoff,
          engine: { kvBlocks },
          yaml: `${router}\n${queued ? QUEUED : ''}limits: { first_worker_wait: ${waits ? '300ms' : '0s'} }\n`,
        });
        const { core, fleet, time } = world;
        const all: { heard: HeardLegs; left: boolean }[] = [];
        for (const [index, { at, what }] of happenings.entries()) {
          time.plan(at, what.kind === 'arrive' ? 'arrival' : 'timer', () => {
            if (what.kind === 'unqueue') {
              core.road.setQueues({ root: null, models: new Map(), threshold: null, policy: 'fcfs' });
              return;
            }
            if (what.kind === 'arrive') {
              const heard = world.send(`r${index}`, countedTokens(what.tokens, what.from), {
                maxOutputTokens: what.output,
              });
              const one = { heard, left: false };
              all.push(one);
              if (what.leavesAfter === null) return;
              time.plan(time.now() + what.leavesAfter, 'timer', () => {
                one.left = heard.ends === 0;
                heard.ticket?.abort();
              });
              return;
            }
            const id = BigInt(1 + what.worker);
            if (what.kind === 'restart') fleet.engine(id).restart();
            else if (core.fleet.worker(id) === null) return;
            else if (what.kind === 'state') core.fleet.setState(id, what.state);
            else core.fleet.remove(id);
          });
        }
        if (closesAt !== null) time.plan(closesAt, 'timer', () => core.road.close());
        time.runUntil(SPAN + REST);
        for (const { heard, left } of all) {
          expect(heard.ends).toBe(left ? 0 : 1);
          if (left) seen.left += 1;
          else seen[heard.error === null ? 'served' : 'failed'] += 1;
          if (heard.error !== null) expect(heard.error.code).not.toBe('PM_INTERNAL');
        }
        expect(world.held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
        const { loads } = core.scheduler;
        for (const column of [loads.activeRequests, loads.activePrefillTokens, loads.activeDecodeBlocks])
          expect([...column].every((value) => value === 0)).toBe(true);
        await world.router.close();
      }),
      { numRuns: 400 },
    );
    // Otherwise little of it was tested.
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100);
  });
});
