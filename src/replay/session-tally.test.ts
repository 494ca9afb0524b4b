// Figures of sessions against counting by hand.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../events/index.ts';
import type { KvHint } from '../plugin/index.ts';
import { ReleaseTally } from './release-tally.ts';
import { turnTokens } from './session-plan.ts';
import { SessionTally } from './session-tally.ts';
import { planOf, sessionRows } from './session-traces.fixtures.ts';

const REPORT = { promptTokens: 1, outputTokens: 1, finishReason: 'length', source: 'usage' } as const;

function stored(
  external: Uint32Array,
  tokenIds: Uint32Array,
  blockSize: number,
  tier: 'device' | 'host',
): KvEvent {
  return {
    kind: 'stored',
    external,
    parent: null,
    tokenIds,
    blockSize,
    tier,
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

describe('SessionTally', () => {
  it('counts a block that leaves a device as live while a turn to come has it, in blocks of the trace, smaller and larger ones', () => {
    let live = 0;
    fc.assert(
      fc.property(
        sessionRows,
        fc.constantFrom(16, 64, 128),
        fc.infiniteStream(fc.boolean()),
        (rows, blockSize, coin) => {
          const plan = planOf(rows, { copies: 2 });
          const tally = new SessionTally(plan, blockSize);
          const turns = plan.sessions.flatMap(({ turns: own }, session) =>
            own.map((_, turn) => ({ session, turn })),
          );
          const prompt = ({ session, turn }: (typeof turns)[number]): Uint32Array =>
            turnTokens(plan, plan.sessions[session]!, turn);
          const isPrefix = (start: Uint32Array, of: Uint32Array): boolean =>
            start.every((token, at) => token === of[at]);
          let evicted = 0;
          let expected = 0;
          for (const [index, one] of turns.entries()) {
            tally.sent(one.session, one.turn);
            const tokens = prompt(one);
            for (let end = blockSize; end <= tokens.length; end += blockSize) {
              // A name per block and what is before it, as engines have.
              const name = Uint32Array.of(
                end,
                tokens.subarray(0, end).reduce((sum, token) => (31 * sum + token) >>> 0, 7),
              );
              tally.events([stored(name, tokens.subarray(end - blockSize, end), blockSize, 'device')]);
              if (coin.next().value) continue;
              tally.events([
                { kind: 'removed', external: name, tier: 'host' },
                { kind: 'removed', external: name, tier: 'device' },
              ]);
              evicted += 1;
              const comesBack = turns
                .slice(index + 1)
                .some((later) => isPrefix(tokens.subarray(0, end), prompt(later)));
              if (comesBack) expected += 1;
            }
          }
          expect(tally.report(0)).toMatchObject({ evicted_blocks: evicted, live_evictions: expected });
          live += expected;
        },
      ),
      { numRuns: 60 },
    );
    expect(live).toBeGreaterThan(0);
  });

  it('does not take answers, blocks it never heard of or host memory for blocks of a session', () => {
    const plan = planOf(fc.sample(sessionRows, { numRuns: 1, seed: 1 })[0]!);
    const tally = new SessionTally(plan, 64);
    const answer = Uint32Array.of(1, 1);
    tally.events([
      stored(answer, new Uint32Array(64).fill(32_767), 64, 'device'),
      stored(Uint32Array.of(2, 2), new Uint32Array(64).fill(32_768), 64, 'host'),
      { kind: 'removed', external: Uint32Array.of(1, 1, 2, 2, 3, 3), tier: 'device' },
      { kind: 'cleared' },
    ]);
    expect(tally.report(4)).toMatchObject({ evicted_blocks: 3, live_evictions: 0, released_blocks: 4 });
  });

  it('has the times and the hit rate of turns that are not the first', () => {
    const turn = { t: 0, type: 'n', in: 100, out: 1, hash_ids: [1] };
    const plan = planOf([
      {
        id: 'a',
        block_size: 64,
        hash_id_scope: 'local',
        requests: [turn, { ...turn, in: 300, hash_ids: [1, 2, 3, 4] }, turn],
      },
    ]);
    const tally = new SessionTally(plan, 64);
    tally.completed(0, 0, 5000, { ...REPORT, cachedTokens: 64 });
    tally.completed(0, 1, 10, { ...REPORT, cachedTokens: 128 });
    tally.completed(0, 2, 30, { ...REPORT, cachedTokens: null });
    const { resumed_hit_rate_tokens, resumed_ttft_ms, resumed_turns, sessions } = tally.report(0);
    expect({ resumed_hit_rate_tokens, resumed_turns, sessions }).toEqual({
      resumed_hit_rate_tokens: 0.32,
      resumed_turns: 2,
      sessions: 1,
    });
    expect(resumed_ttft_ms.mean).toBe(20);
  });
});

describe('ReleaseTally', () => {
  const hint: KvHint = {
    protocol_version: '0.1',
    message_id: 'm',
    actions: ['kv.evict', 'kv.evict', 'kv.retain', 'kv.evict'].map((action_type, index) => ({
      action_id: `a${index}`,
      action_type,
      action_version: '1.0',
      payload: {},
    })),
  };
  const told = (actionId: string, outcome: 'accepted' | 'deferred', blocksDone: number | null) => ({
    actionId,
    outcome,
    reason: null,
    blocksAsked: 9,
    blocksDone,
    bytes: null,
  });

  it('counts blocks of evictions, told at once or later, each once', () => {
    const tally = new ReleaseTally();
    tally.answered(hint, [
      told('a0', 'accepted', 5),
      told('a1', 'deferred', null),
      told('a2', 'accepted', 100),
    ]);
    expect(tally.blocks).toBe(5);
    const late = (messageId: string, actionId: string): KvEvent => ({
      kind: 'hint-outcome',
      messageId,
      actionId,
      outcome: 'accepted',
      reason: null,
      blocks: 20,
    });
    tally.events([late('m', 'a0'), late('m', 'a1'), late('m', 'a2'), late('n', 'a3'), { kind: 'cleared' }]);
    expect(tally.blocks).toBe(25);
    tally.events([late('m', 'a1'), late('m', 'a3')]);
    expect(tally.blocks).toBe(45);
  });
});
