// Any hints on any requests, some of them aborted: what events say is what the engine has, and everything deferred is answered.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SimulatorLog } from '../../../tests/support/simulator-log.ts';
import type { KvEvent } from '../../events/index.ts';
import { createBlockHasher, type HashPairs } from '../../kv/index.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';

const hasher = createBlockHasher();
const DEVICE_BLOCKS = 12;
const HOST_BLOCKS = 10;

const hashesOf = (pairs: HashPairs): bigint[] =>
  Array.from(
    { length: pairs.length / 2 },
    (_, at) => (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!),
  );

/** What two tiers hold by the events, which may not contradict themselves. */
class Tiers extends SimulatorLog {
  readonly held = { device: new Set<bigint>(), host: new Set<bigint>() };
  readonly seen = new Set<bigint>();
  readonly answered = new Map<string, number>();
  /** By family of prompts: hashes of its blocks, as far as they were stored. */
  readonly chains = new Map<number, bigint[]>();

  override kvEvents(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === 'hint-outcome') {
        if (event.reason === 'expired' || event.reason === 'evicted') continue;
        const key = `${event.messageId} ${event.actionId}`;
        this.answered.set(key, (this.answered.get(key) ?? 0) + 1);
      }
      if (event.kind !== 'stored' && event.kind !== 'removed') continue;
      const set = this.held[event.tier === 'host' ? 'host' : 'device'];
      for (const [at, hash] of hashesOf(event.external).entries()) {
        if (event.kind === 'stored')
          this.#inChain(hash, event.tokenIds[4 * at]!, event.tokenIds[4 * at + 3]!);
        expect(set.has(hash)).toBe(event.kind === 'removed');
        this.seen.add(hash);
        if (event.kind === 'stored') set.add(hash);
        else set.delete(hash);
      }
    }
  }

  /** Answers are made of small tokens. */
  #inChain(hash: bigint, first: number, last: number): void {
    if (first < 1000 || last !== first + 3) return;
    const family = Math.floor(first / 1000);
    const chain = this.chains.get(family) ?? [];
    chain[(first % 1000) / 4] = hash;
    this.chains.set(family, chain);
  }
}

const picks = fc.array(fc.nat(60), { maxLength: 8 });
const priority = fc.integer({ min: 0, max: 3 });
const action = fc.oneof(
  fc.record({ type: fc.constant('kv.retain@1.0'), picks, priority, ttl_ms: fc.integer({ min: 1, max: 60 }) }),
  fc.record({
    type: fc.constant('kv.retain@1.1'),
    directives: fc
      .uniqueArray(fc.nat(30), { minLength: 1, maxLength: 3 })
      .chain((starts) =>
        fc.record({
          starts: fc.constant(starts.sort((a, b) => a - b)),
          durations: fc.array(fc.constantFrom(0, 0.01, null), { minLength: 3, maxLength: 3 }),
          top: priority,
        }),
      )
      .map(({ durations, starts, top }) =>
        starts.map((start, at) => ({ start, priority: Math.max(0, top - at), duration: durations[at]! })),
      ),
  }),
  fc.record({
    type: fc.constant('kv.evict@1.0'),
    picks,
    tier: fc.constantFrom('all', 'device'),
    more: fc.constantFrom(
      {},
      { execute_at: 'request_completion' },
      { execute_at: 'request_completion', current_request_block_start: 0 },
      { execute_at: 'request_completion', current_request_block_start: 2 },
    ),
  }),
  fc.record({ type: fc.constant('kv.prefetch@1.0'), picks }),
  fc.record({ type: fc.constant('kv.fetch@1.0'), blocks: fc.integer({ min: 1, max: 9 }) }),
);

const step = fc.record({
  family: fc.nat(3),
  tokens: fc.integer({ min: 1, max: 36 }),
  outputTokens: fc.integer({ min: 0, max: 12 }),
  session: fc.constantFrom(null, 'a', 'b', 'c', 'd', 'e', 'f'),
  actions: fc.array(action, { maxLength: 3 }),
  pauseMs: fc.constantFrom(0, 0, 1, 5, 40),
  abort: fc.option(fc.nat(5), { nil: null, freq: 4 }),
  /** What peers answer to a fetch meanwhile: so many blocks, or nothing; and what one of them fetches. */
  held: fc.option(fc.nat(9), { nil: null, freq: 4 }),
  grant: fc.option(fc.record({ family: fc.nat(3), blocks: fc.integer({ min: 1, max: 6 }), ms: fc.nat(30) }), {
    nil: null,
    freq: 4,
  }),
});

it.each([['default'], ['none']] as const)('stays sound with timing %s', (timing) => {
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 1, maxLength: 40 }),
      fc.constantFrom(0, HOST_BLOCKS),
      (steps, host) => {
        const engine = createSimulatedEngine(
          {
            ...{ ...DEFAULT_ENGINE_SETTINGS, blockSize: 4, kvBlocks: DEVICE_BLOCKS, hostKvBlocks: host },
            ...{ kvBytesPerToken: 100_000, hostGbps: 1, retainedShare: 0.5, timing, maxNumBatchedTokens: 16 },
          },
          {
            hasher,
            peers: {
              reserve(_endpoint, { blockHashes }, answered) {
                if (held !== null) answered({ held: Math.min(held, blockHashes.length), gbps: 0.1 });
              },
              release: () => undefined,
              claim: () => undefined,
              drop: () => undefined,
            },
          },
        );
        const log = new Tiers();
        let held: number | null = null;
        const expected = new Set<string>();
        const aborted = new Set<string>();
        const deferred = new Set<string>();
        let now = 0;
        const agree = (): void => {
          for (const tier of ['device', 'host'] as const)
            expect(hashesOf(engine.residentBlocks(tier)).sort()).toEqual([...log.held[tier]].sort());
          const stats = engine.stats();
          expect(stats.activeBlocks + stats.inactiveBlocks).toBeLessThanOrEqual(DEVICE_BLOCKS);
          expect(stats.retainedBlocks).toBeLessThanOrEqual(DEVICE_BLOCKS / 2);
          expect(log.held.host.size).toBeLessThanOrEqual(host);
        };
        const until = (to: number): void => {
          for (let next = engine.nextEventAt(); next !== null && next <= to; next = engine.nextEventAt()) {
            engine.advance(Math.max(next, now), log);
            agree();
          }
          now = to;
        };
        for (const [index, one] of steps.entries()) {
          const id = `r${index}`;
          const known = [...log.seen];
          const named = (list: readonly number[]): bigint[] =>
            list.flatMap((pick) => (known.length === 0 ? [] : [known[pick % known.length]!]));
          const actions = one.actions.map((each, at) => {
            const [action_type, action_version] = each.type.split('@');
            const payload = {
              ...('picks' in each && { block_hashes: named(each.picks) }),
              ...('ttl_ms' in each && { priority: each.priority, ttl_ms: each.ttl_ms }),
              ...('directives' in each && { directives: each.directives }),
              ...('blocks' in each && {
                source_control_endpoint: 'tcp://127.0.0.1:1',
                block_hashes: Array.from(
                  { length: each.blocks },
                  (_, at) => log.chains.get(one.family + 1)?.[at] ?? BigInt(at),
                ),
              }),
              ...('tier' in each && { tier: each.tier, ...each.more }),
            };
            return { action_id: `a${at}`, action_type, action_version, payload };
          });
          engine.submit(
            {
              id,
              tokens: Uint32Array.from({ length: one.tokens }, (_, at) => 1000 * (one.family + 1) + at),
              outputTokens: one.outputTokens,
              sessionId: one.session,
              hint: { protocol_version: '0.1', message_id: id, actions },
            },
            now,
          );
          expected.add(id);
          held = one.held;
          if (one.grant !== null) {
            const { blocks, family, ms } = one.grant;
            const chain = log.chains.get(family + 1) ?? [];
            const blockHashes = BigUint64Array.from({ length: blocks }, (_, at) => chain[at] ?? 1n);
            engine.grantFetch({ key: id, from: 0, blockHashes, deadlineMs: ms + 1 }, now);
          }
          until(now + one.pauseMs);
          if (one.abort !== null) {
            const victim = `r${Math.max(0, index - one.abort)}`;
            if (!log.finishedIds.has(victim)) aborted.add(victim);
            engine.abort(victim, now);
          }
        }
        until(1e9);
        expect(engine.nextEventAt()).toBeNull();
        for (const id of expected) expect(aborted.has(id) || log.finishedIds.has(id)).toBe(true);
        for (const [id, outcomes] of log.outcomes)
          for (const { action_id, outcome } of outcomes)
            if (outcome === 'deferred') deferred.add(`${id} ${action_id}`);
        expect([...log.answered.keys()].sort()).toEqual([...deferred].sort());
        expect(new Set(log.answered.values()).size).toBeLessThan(2);
        expect(engine.stats().activeBlocks).toBe(0);
      },
    ),
    { numRuns: 150 },
  );
});
