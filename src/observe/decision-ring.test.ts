import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkerTiming } from '../plugin/index.ts';
import { decisionInput, type TestCandidate } from './decision-input.fixtures.ts';
import { DecisionRing } from './decision-ring.ts';
import { NO_METRICS } from './metrics-port.ts';

function ring(changes: { bytes?: number; candidates?: number; startMs?: number } = {}): DecisionRing {
  return new DecisionRing({
    bytes: 1024 * 1024,
    candidates: 64,
    hashId: (text) => text.length.toString(16).padStart(8, '0'),
    startMs: 0,
    metrics: NO_METRICS,
    ...changes,
  });
}

function timing(prefillTokenMs: number): WorkerTiming {
  const prefill = { prefillTokenMs, prefillAttentionMs: 0, prefillPassMs: 0 };
  const sure = { prefillConfidence: 0, prefillObservations: 0, prefillError: 0 };
  const decode = {
    decodeMs: 5,
    decodeFillMs: 0,
    decodeConfidence: 0.5,
    decodeObservations: 7,
    decodeError: 0,
  };
  return { ...prefill, ...sure, ...decode, kvReferenceTokens: 1 };
}

describe('a decision record', () => {
  it('says everything of the example in docs/decision-record.md', () => {
    const decisions = ring();
    const decision = decisions.open(
      decisionInput(
        [
          { id: 1n, device: 200, decode: 120, additional: 256, requests: 2, cost: 432 },
          { id: 2n, additional: 256, cost: 512 },
          { id: 4n, cost: Number.NaN },
        ],
        {
          session: { sessionId: 'session', sessionFinal: false, inputTrigger: 'user_message' },
          droppedBy: [null, null, 'acme-zone'],
          eventAges: [
            { workerId: 1n, ageMs: 14, stale: false },
            { workerId: 2n, ageMs: 9, stale: true },
          ],
          parity: ['no_replay'],
        },
        [{ id: 3n, reason: 'draining' }],
      ),
    );
    expect(decisions.get(decision.id)?.outcome).toBeNull();
    decisions.hinted(
      decision,
      {
        message_id: 'req-1',
        capable: true,
        sent: [
          {
            action_id: 'a1',
            type: 'kv.fetch@1.0',
            policy: 'kv_fetch',
            bytes: 4213,
            outcome: null,
            reason: null,
            blocks_done: null,
          },
        ],
        policies: [{ name: 'kv_fetch', result: 'sent', actions: 1, us: 48 }],
        commit: null,
      },
      3840,
      60,
    );
    decision.firstToken(1061.5);
    decision.hintOutcome('a1', 'accepted', 40);
    decision.released('finished', 1843);
    decisions.complete(decision, {
      status: 200,
      finish: 'stop',
      endMs: 1843,
      report: { cached_tokens: 3840, prompt_tokens: 4096, output_tokens: 96, source: 'usage' },
    });
    expect(decisions.get(decision.id)).toEqual({
      schema: 1,
      id: 'd-0000000000',
      request_id: 'req-1',
      attempt: 1,
      at_ms: 1000,
      door: 'gateway',
      model: 'tiny',
      partition: { model: 'tiny', routing_group: 'default' },
      role: 'aggregated',
      mode: 'kv',
      policy: { type: 'dynamo-default-cost-fn', instance: null, version: 'builtin' },
      session: { id_hash: '00000007', parent_hash: null, final: false, trigger: 'user_message' },
      prompt: {
        tokens: 4096,
        blocks: 256,
        block_size: 16,
        tokens_source: 'local',
        estimated: null,
        head_hash: 4294967303n,
      },
      handoff: null,
      affinity: null,
      agent_hints: null,
      stripped: [],
      classification: null,
      queue: { class: 'default', waited_ms: 0, outcome: 'direct' },
      index: { kind: 'events', version: 5, per_worker_age_ms: { '1': 14, '2': 9 }, stale_workers: [2n] },
      parity: { findings: ['no_replay'] },
      timing: null,
      candidates_total: 4,
      candidates: [
        {
          worker_id: 1n,
          dp_rank: 0,
          eligible: true,
          overlap_blocks: { device: 200, host: 0, disk: 0, shared: 0 },
          active_prefill_tokens: 0,
          active_decode_blocks: 120,
          additional_blocks: 256,
          active_requests: 2,
          terms: {
            raw_prefill_blocks: 256,
            credit: 200,
            decay: 1,
            prefill: 56,
            decode_blocks: 376,
            request_weight: 0,
            taint: 1,
          },
          cost: 432,
          rank: 1,
        },
        {
          worker_id: 2n,
          dp_rank: 0,
          eligible: true,
          overlap_blocks: { device: 0, host: 0, disk: 0, shared: 0 },
          active_prefill_tokens: 0,
          active_decode_blocks: 0,
          additional_blocks: 256,
          active_requests: 0,
          terms: {
            raw_prefill_blocks: 256,
            credit: 0,
            decay: 1,
            prefill: 256,
            decode_blocks: 256,
            request_weight: 0,
            taint: 1,
          },
          cost: 512,
          rank: 2,
        },
        { worker_id: 4n, dp_rank: 0, eligible: false, reason: 'filtered', filter: 'acme-zone' },
        { worker_id: 3n, dp_rank: 0, eligible: false, reason: 'draining' },
      ],
      pick: { worker_id: 1n, dp_rank: 0, by: 'lowest_cost', ties: 1, random_draw: null, temperature: 0 },
      booking: {
        attempt_id: 991,
        prefill_tokens: 896,
        decode_blocks: 256,
        released: 'finished',
        held_ms: 843,
      },
      hints: {
        message_id: 'req-1',
        capable: true,
        sent: [
          {
            action_id: 'a1',
            type: 'kv.fetch@1.0',
            policy: 'kv_fetch',
            bytes: 4213,
            outcome: 'accepted',
            reason: null,
            blocks_done: 40,
          },
        ],
        policies: [{ name: 'kv_fetch', result: 'sent', actions: 1, us: 48 }],
        commit: null,
      },
      prediction: {
        cached_tokens: 3200,
        cached_by_tier: { device: 2560, host: 640 },
        with_hints_tokens: 3840,
      },
      report: { cached_tokens: 3840, prompt_tokens: 4096, output_tokens: 96, source: 'usage' },
      outcome: { status: 200, finish: 'stop', ttft_ms: 61.5, e2e_ms: 843, retries: 0 },
      wall: { tokenize_us: 812, hash_us: 6, lookup_us: 11, select_us: 3, hint_us: 60 },
    });
  });

  it('shows the times of kinds of workers that the policy saw', () => {
    const decisions = ring();
    const input = decisionInput([{ id: 1n }, { id: 2n }], {}, [{ id: 3n, reason: 'draining' }]);
    const before = decisions.bytes;
    const timings = [timing(1), timing(2)];
    const { id } = decisions.open({
      ...input,
      timings,
      columns: { ...input.columns, timingKind: Float64Array.of(1, 0) },
    });
    const record = decisions.get(id);
    expect(record?.timing?.map(({ prefill, decode }) => [prefill.token_ms, decode.observations])).toEqual([
      [1, 7],
      [2, 7],
    ]);
    expect(record?.candidates.map((one) => (one.eligible ? one.timing : 'none'))).toEqual([1, 0, 'none']);
    const plain = ring();
    plain.open(input);
    expect(decisions.bytes - before).toBeGreaterThan(plain.bytes);
    expect(plain.list(1, {})[0]?.candidates[0]).not.toHaveProperty('timing');
  });

  it('does not change when the columns it was taken from do', () => {
    const decisions = ring();
    const input = decisionInput([{ id: 0xffff_ffff_ffff_fffen, rank: 3, device: 5, cost: 9 }]);
    const { id } = decisions.open(input);
    input.columns.deviceBlocks.fill(0);
    input.columns.idWords.fill(0);
    input.costs.fill(0);
    expect(decisions.get(id)?.candidates[0]).toMatchObject({
      worker_id: 0xffff_ffff_ffff_fffen,
      dp_rank: 3,
      overlap_blocks: { device: 5 },
      cost: 9,
    });
  });

  it('calls actions unreported that nobody reported on by the end, and takes a later report', () => {
    const decisions = ring();
    const decision = decisions.open(decisionInput([{ id: 1n }]));
    const sent = {
      type: 'kv.retain@1.0',
      policy: 'p',
      bytes: 1,
      outcome: null,
      reason: null,
      blocks_done: null,
    };
    decisions.hinted(
      decision,
      {
        message_id: 'm',
        capable: true,
        sent: [
          { action_id: 'a1', ...sent },
          { action_id: 'a2', ...sent },
        ],
        policies: [],
        commit: null,
      },
      null,
      1,
    );
    decision.hintOutcome('a1', 'deferred', null);
    decisions.complete(decision, { status: 200, finish: null, endMs: 1001, report: null });
    const outcomes = () => decisions.get(decision.id)?.hints?.sent.map(({ outcome }) => outcome);
    expect(outcomes()).toEqual(['deferred', 'unreported']);
    expect([decision.hintOutcome('a1', 'accepted', 3), decision.hintOutcome('a9', 'accepted', 3)]).toEqual([
      true,
      false,
    ]);
    expect(outcomes()).toEqual(['accepted', 'unreported']);
  });

  it('keeps the reason of the latest report when it is a word, and no other text', () => {
    const decisions = ring();
    const decision = decisions.open(decisionInput([{ id: 1n }]));
    const sent = {
      type: 'acme.pin@1.0',
      policy: 'p',
      bytes: 1,
      outcome: null,
      reason: null,
      blocks_done: null,
    };
    const hints = { message_id: 'm', capable: true, sent: [{ action_id: 'a1', ...sent }], policies: [] };
    decisions.hinted(decision, { ...hints, commit: null }, null, 1);
    const reasonAfter = (reason: string | null) => {
      decision.hintOutcome('a1', 'rejected', null, reason);
      return decisions.get(decision.id)?.hints?.sent[0]?.reason;
    };
    expect(reasonAfter('unsupported')).toBe('unsupported');
    for (const text of ['two words', 'a\nline', '', 'x'.repeat(65), null])
      expect(reasonAfter(text)).toBeNull();
    expect(reasonAfter('x'.repeat(64))).toBe('x'.repeat(64));
  });

  it('keeps the winner, its ties, the 32 cheapest and then the first ones of many candidates', () => {
    const decisions = ring({ candidates: 40 });
    const candidates = Array.from(
      { length: 200 },
      (_, row): TestCandidate => ({ id: BigInt(row), cost: 1000 - row }),
    );
    candidates[3] = { id: 3n, cost: 801 };
    const { id } = decisions.open(decisionInput(candidates, { row: 150 }, [{ id: 999n, reason: 'gone' }]));
    const record = decisions.get(id);
    expect(record?.candidates_total).toBe(201);
    const ids = record?.candidates.map(({ worker_id }) => Number(worker_id));
    const cheapest = Array.from({ length: 31 }, (_, place) => 169 + place);
    expect(ids).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 150, ...cheapest]);
    expect(record?.candidates.find(({ worker_id }) => worker_id === 199n)).toMatchObject({ rank: 2 });
    expect(record?.candidates.find(({ worker_id }) => worker_id === 3n)).toMatchObject({ rank: 1 });
  });

  it('chooses rows as its rule says, for any costs', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constant(Number.NaN)), {
          minLength: 1,
          maxLength: 120,
        }),
        fc.nat(119),
        fc.integer({ min: 1, max: 80 }),
        (costs, winner, limit) => {
          const row = winner % costs.length;
          const decisions = ring({ candidates: limit });
          const { id } = decisions.open(
            decisionInput(
              costs.map((cost, index) => ({ id: BigInt(index), cost })),
              { row },
            ),
          );
          const kept = decisions.get(id)?.candidates.map(({ worker_id }) => Number(worker_id)) ?? [];
          const numbered = costs
            .map((cost, index) => ({ cost, index }))
            .filter(({ cost }) => !Number.isNaN(cost));
          const byCost = [...numbered].sort((a, b) => a.cost - b.cost || a.index - b.index);
          const wanted = [
            row,
            ...byCost.filter(({ cost }) => cost === byCost[0]?.cost).map(({ index }) => index),
            ...byCost.slice(0, 32).map(({ index }) => index),
            ...costs.keys(),
          ];
          const expected = [...new Set(wanted)].slice(0, limit).sort((a, b) => a - b);
          expect(kept).toEqual(costs.length <= limit ? [...costs.keys()] : expected);
        },
      ),
    );
  });
});

describe('the decision ring', () => {
  it('stays within its bytes and lets the oldest go', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 300_000 }),
        fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 200 }),
        (bytes, sizes) => {
          const decisions = ring({ bytes });
          const opened = sizes.map((size) => {
            const { id } = decisions.open(
              decisionInput(
                Array.from({ length: size }, (_, row) => ({ id: BigInt(row), device: size, cost: row })),
              ),
            );
            expect(decisions.bytes).toBeLessThanOrEqual(Math.max(64 * 1024, bytes));
            return id;
          });
          const held = opened.slice(opened.length - decisions.size);
          expect(held.length).toBeGreaterThan(0);
          expect(decisions.list(1000, {}).map(({ id }) => id)).toEqual([...held].reverse());
          for (const [index, id] of opened.entries()) {
            const record = decisions.get(id);
            if (index < opened.length - decisions.size) expect(record).toBeNull();
            else {
              expect(record?.candidates_total).toBe(sizes[index]);
              expect(record?.candidates[0]).toMatchObject({ overlap_blocks: { device: sizes[index] } });
            }
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it('lets a decision under way finish after it fell out, without touching those that took its place', () => {
    const decisions = ring({ bytes: 0 });
    const early = decisions.open(decisionInput([{ id: 1n, device: 1 }]));
    while (decisions.get(early.id) !== null) decisions.open(decisionInput([{ id: 2n, device: 2 }]));
    const bytes = decisions.bytes;
    decisions.hinted(
      early,
      {
        message_id: 'm',
        capable: true,
        sent: [],
        policies: [{ name: 'p', result: 'nothing', us: 1 }],
        commit: null,
      },
      null,
      1,
    );
    decisions.complete(early, { status: 200, finish: 'stop', endMs: 2000, report: null });
    expect([early.dropped, early.record().candidates, decisions.bytes]).toEqual([true, [], bytes]);
    expect(decisions.list(1, {})[0]?.candidates[0]).toMatchObject({ overlap_blocks: { device: 2 } });
  });

  it('filters by session and worker and finds all attempts of a request, oldest first', () => {
    const decisions = ring();
    decisions.open(decisionInput([{ id: 1n }], { requestId: 'a' }));
    decisions.open(decisionInput([{ id: 2n }], { requestId: 'b', session: { sessionId: 'four' } }));
    decisions.open(decisionInput([{ id: 2n }], { requestId: 'a', attempt: 2 }));
    const requests = (filter: Parameters<DecisionRing['list']>[1]) =>
      decisions.list(10, filter).map(({ request_id }) => request_id);
    expect(requests({})).toEqual(['a', 'b', 'a']);
    expect(requests({ workerId: 2n })).toEqual(['a', 'b']);
    expect(requests({ sessionIdHash: '00000004' })).toEqual(['b']);
    expect(requests({ sessionId: 'four' })).toEqual(['b']);
    expect(requests({ sessionId: 'seven' })).toEqual([]);
    expect(requests({ sessionId: 'four', workerId: 7n })).toEqual([]);
    expect(decisions.ofRequest('a').map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(decisions.list(1, {})).toHaveLength(1);
  });

  it('answers no decision for ids that it never gave out', () => {
    const decisions = ring({ startMs: 1_764_421_463_123 });
    const { id } = decisions.open(decisionInput([{ id: 1n }]));
    expect(id).toMatch(/^d-[0-9A-HJKMNP-TV-Z]{10}$/);
    expect(decisions.get(id)?.id).toBe(id);
    for (const other of [
      '',
      'd-',
      'd-0000000000',
      'd-ZZZZZZZZZZ',
      `${id}0`,
      id.toLowerCase().replace('d-', 'x-'),
      'd-ILOU000000',
    ]) {
      expect(decisions.get(other)).toBeNull();
    }
  });

  it('tells listeners of both ends of a decision, and is not disturbed by one that throws', () => {
    const decisions = ring();
    const heard: string[] = [];
    decisions.onDecision(() => {
      throw new Error('not my day');
    });
    const stop = decisions.onDecision((phase, record) =>
      heard.push(`${phase} ${record.id} ${record.outcome?.status}`),
    );
    const decision = decisions.open(decisionInput([{ id: 1n }]));
    decisions.complete(decision, { status: 502, finish: null, endMs: 1, report: null });
    stop();
    decisions.open(decisionInput([{ id: 1n }]));
    expect(heard).toEqual(['booked d-0000000000 undefined', 'completed d-0000000000 502']);
  });
});
