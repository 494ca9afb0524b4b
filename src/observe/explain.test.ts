import { expect, test } from 'vitest';
import type { DecisionRecord } from './decision-record.ts';
import { renderDecision } from './explain.ts';
import { textTable } from './text-table.ts';

const overlap = (device: number) => ({ device, host: 0, disk: 0, shared: 0 });

const RECORD: DecisionRecord = {
  schema: 1,
  id: 'd-1',
  request_id: 'req-7f3a',
  attempt: 1,
  at_ms: 1764421463123.4,
  door: 'gateway',
  model: 'tiny',
  partition: { model: 'tiny', routing_group: 'default' },
  role: 'aggregated',
  mode: 'kv',
  policy: { type: 'dynamo-default-cost-fn', instance: null, version: 'builtin' },
  session: { id_hash: '5b1e09aa', parent_hash: null, final: false, trigger: 'user_message' },
  prompt: {
    tokens: 4096,
    blocks: 256,
    block_size: 16,
    tokens_source: 'local',
    estimated: null,
    head_hash: 16900403811276279622n,
  },
  agent_hints: null,
  stripped: [],
  classification: null,
  handoff: null,
  affinity: null,
  queue: { class: 'default', waited_ms: 0, outcome: 'direct' },
  index: { kind: 'events', version: 88213, per_worker_age_ms: { '1': 14, '2': 9 }, stale_workers: [] },
  parity: null,
  timing: null,
  candidates_total: 4,
  candidates: [
    {
      worker_id: 2n,
      dp_rank: 0,
      eligible: true,
      overlap_blocks: overlap(0),
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
    {
      worker_id: 18446744073709551615n,
      dp_rank: 0,
      eligible: true,
      overlap_blocks: overlap(200),
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
      cost: 432.123456,
      rank: 1,
    },
    { worker_id: 3n, dp_rank: 0, eligible: false, reason: 'draining' },
    { worker_id: 4n, dp_rank: 1, eligible: false, reason: 'filtered', filter: 'acme-zone' },
  ],
  pick: {
    worker_id: 18446744073709551615n,
    dp_rank: 0,
    by: 'lowest_cost',
    ties: 1,
    random_draw: null,
    temperature: 0,
  },
  booking: { attempt_id: 991, prefill_tokens: 896, decode_blocks: 256, released: 'finished', held_ms: 843.2 },
  hints: {
    message_id: 'req-7f3a',
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
    policies: [
      { name: 'bomb', result: 'dropped', reason: 'threw', error_code: 'PM_PLUGIN_THREW', us: 12 },
      { name: 'kv_fetch', result: 'sent', actions: 1, us: 48 },
    ],
    commit: null,
  },
  prediction: {
    cached_tokens: 3200,
    cached_by_tier: { device: 2560, host: 640 },
    with_hints_tokens: 3840,
  },
  report: { cached_tokens: 3840, prompt_tokens: 4096, output_tokens: 96, source: 'usage' },
  outcome: { status: 200, finish: 'stop', ttft_ms: 61.2, e2e_ms: 843.2, retries: 0 },
  wall: { tokenize_us: 812, hash_us: 6, lookup_us: 11, select_us: 3, hint_us: 60 },
};

test('a finished decision shows every candidate, every cost term, hints, and prediction against report', () => {
  expect(renderDecision(RECORD)).toBe(
    `decision d-1  request req-7f3a  attempt 1  2025-11-29T13:04:23.123Z
door gateway  model tiny  routing group default  role aggregated  mode kv
policy dynamo-default-cost-fn builtin
prompt 4096 tokens (local), 256 blocks of 16, head hash 16900403811276279622
queue default: direct, waited 0 ms
index events, version 88213, last event: worker 1 14 ms ago, worker 2 9 ms ago
session 5b1e09aa, trigger user_message

candidates (4), lowest cost first, terms in blocks
place                worker  rank      cost  device  host  disk  shared  prefill tokens  decode blocks  new blocks  requests             raw prefill  credit  decay  prefill  decode  request weight  taint
    1  18446744073709551615     0  432.1235     200     0     0       0               0            120         256         2  <- picked          256     200      1       56     376               0      1
    2                     2     0       512       0     0     0       0               0              0         256         0                     256       0      1      256     256               0      1
worker 3 rank 0: not eligible, draining
worker 4 rank 1: not eligible, filtered by acme-zone

picked worker 18446744073709551615 rank 0 by lowest_cost, temperature 0
booked 896 prefill tokens and 256 decode blocks as attempt 991, released (finished) after 843.2 ms

hints (message req-7f3a)
policy    result   actions  µs  why
bomb      dropped           12  threw PM_PLUGIN_THREW
kv_fetch  sent           1  48
action  type          policy    bytes  outcome   blocks done
a1      kv.fetch@1.0  kv_fetch   4213  accepted           40

cached tokens: predicted 3200 (78.125 %): 2560 on the device, 640 in host memory, with hints 3840 (93.75 %); reported 3840 (93.75 %) from usage
outcome: status 200, stop, first token after 61.2 ms, ended after 843.2 ms, 96 output tokens, 0 retries

wall: tokenize 812 µs, hash 6 µs, lookup 11 µs, select 3 µs, hint 60 µs`,
  );
});

test('a decision under way, without hints, session or prediction, says so', () => {
  const text = renderDecision({
    ...RECORD,
    session: null,
    hints: null,
    prediction: null,
    report: null,
    outcome: null,
    candidates_total: 900,
    booking: { ...RECORD.booking, released: null, held_ms: null },
  });
  expect(text).toContain('candidates (4 of 900)');
  expect(text).toContain('as attempt 991, still held');
  expect(text).toContain('\n\noutcome: under way\n\n');
  expect(text).toContain('\nsession none\n');
  expect(text).not.toContain('hints');
});

test('a session shows its parent, its trigger and that it ends; an outcome shows the engine’s reason', () => {
  const session = { id_hash: '5b1e09aa', parent_hash: '0c4f77d1', final: true, trigger: 'tool_result' };
  const [sent] = RECORD.hints!.sent;
  const rejected = { ...sent!, type: 'acme.pin@1.0', outcome: 'rejected', reason: 'unsupported' } as const;
  const text = renderDecision({
    ...RECORD,
    session,
    hints: { ...RECORD.hints!, sent: [{ ...rejected, blocks_done: null }] },
  });
  expect(text).toContain('\nsession 5b1e09aa, parent 0c4f77d1, trigger tool_result, final request\n');
  expect(text).toMatch(/^a1 +acme\.pin@1\.0 +kv_fetch +4213 +rejected \(unsupported\)$/m);
});

test('a whole answer shows that its first token was not seen; an answer without tokens that there was none', () => {
  const ended = { ...RECORD.outcome!, ttft_ms: null };
  expect(renderDecision({ ...RECORD, outcome: ended })).toContain(
    'outcome: status 200, stop, first token not seen, ended after 843.2 ms, 96 output tokens, 0 retries',
  );
  expect(renderDecision({ ...RECORD, report: null, outcome: ended })).toContain(
    'outcome: status 200, stop, no token, ended after 843.2 ms, 0 retries',
  );
});

test('a decision at which no hint policy ran says so', () => {
  const hints = { message_id: 'req-7f3a', capable: true, sent: [], policies: [], commit: null };
  expect(renderDecision({ ...RECORD, hints })).toContain(
    '\n\nhints (message req-7f3a): no hint policy ran\n\n',
  );
});

test('a classification says what it changed, and how long it took', () => {
  const classification = {
    classifier: 'tenant_fair',
    result: 'classified' as const,
    waited_ms: 120.5,
    overrides: {
      policy_class: 'batch',
      due_at_ms: null,
      worker_target: { worker_id: 2n, dp_rank: null },
    },
  };
  const lines = renderDecision({ ...RECORD, classification }).split('\n');
  expect(lines[6]).toBe(
    'classifier tenant_fair: classified after 120.5 ms, policy class batch, due at cleared, target worker 2',
  );
  const skipped = renderDecision({
    ...RECORD,
    classification: { ...classification, result: 'skipped', waited_ms: 0, overrides: {} },
  });
  expect(skipped).toContain('\nclassifier tenant_fair: skipped after 0 ms\n');
});

test('policies without cost terms leave their columns empty', () => {
  const candidates = RECORD.candidates.map((row) =>
    row.eligible ? { ...row, terms: null, cost: null } : row,
  );
  const rows = renderDecision({ ...RECORD, candidates }).split('\n');
  expect(
    rows
      .find((row) => row.includes('<- picked'))
      ?.trim()
      .endsWith('<- picked'),
  ).toBe(true);
});

test('a table aligns numbers to the right and words to the left', () => {
  expect(
    textTable(
      ['name', 'n'],
      [
        ['a', 5],
        ['long', 1234n],
        ['', null],
      ],
    ),
  ).toBe(['name     n', 'a        5', 'long  1234', ''].join('\n'));
});

test.each([
  [
    { class: 'a', waited_ms: 12.5, outcome: 'queued', cost_tokens: 300, bucket: 'long' },
    'a: queued, waited 12.5 ms, cost 300 tokens, bucket long',
  ],
  [
    { class: 'b', waited_ms: 0, outcome: 'direct', cost_tokens: null, bucket: null },
    'b: direct, waited 0 ms',
  ],
] as const)('the queue of %j is shown as such', (queue, line) => {
  expect(renderDecision({ ...RECORD, queue }).split('\n')).toContain(`queue ${line}`);
});

test('the leg of a handoff is told in words, and where the other one is', () => {
  const other = { decision_id: 'd-2', worker_id: 18446744073709551615n, dp_rank: 3 };
  const lineOf = (handoff: DecisionRecord['handoff']): string | undefined =>
    renderDecision({ ...RECORD, handoff })
      .split('\n')
      .find((line) => line.startsWith('leg '));
  expect(lineOf(null)).toBeUndefined();
  expect(lineOf({ leg: 'prefill', kind: 'bootstrap', local: null, other })).toBe(
    'leg prefill: computes the prompt for another worker, KV goes over by bootstrap, decode leg on worker 18446744073709551615 rank 3, decision d-2',
  );
  expect(lineOf({ leg: 'decode', kind: 'nixl', local: null, other })).toBe(
    'leg decode: decodes what another worker computed, KV goes over by nixl, prefill leg on worker 18446744073709551615 rank 3, decision d-2',
  );
  expect(lineOf({ leg: 'prefill', kind: null, local: null, other: null })).toBe(
    'leg prefill: computes the prompt for another worker, nothing was handed over, no decode leg was booked',
  );
  expect(
    (['short', 'prefill_busy', 'no_prefill_worker'] as const).map((local) =>
      lineOf({ leg: 'decode', kind: null, local, other: null }),
    ),
  ).toEqual([
    'leg decode: the decode worker computes the prompt as well, as little of it is not cached there (conditional_disagg)',
    'leg decode: the decode worker computes the prompt as well, as the prefill workers are busy (conditional_disagg)',
    'leg decode: the decode worker computes the prompt as well, as no prefill worker is ready (decode_fallback)',
  ]);
});

test('the binding of a session is told in words', () => {
  const target = { worker_id: 18446744073709551615n, dp_rank: 3 };
  const lineOf = (affinity: DecisionRecord['affinity']): string | undefined =>
    renderDecision({ ...RECORD, affinity })
      .split('\n')
      .find((line) => line.startsWith('affinity '));
  expect(lineOf(null)).toBeUndefined();
  expect(lineOf({ mode: 'soft', target: null, outcome: 'initialised', waited_ms: null })).toBe(
    'affinity soft: session bound nowhere, bound by this request',
  );
  expect(lineOf({ mode: 'hard', target, outcome: 'invalidated', waited_ms: 2.5 })).toBe(
    'affinity hard: session bound to worker 18446744073709551615 rank 3, the worker failed the request, and the binding is dropped, waited 2.5 ms for the binding',
  );
  expect(
    lineOf({ mode: 'soft', target: { ...target, dp_rank: null }, outcome: 'moved', waited_ms: null }),
  ).toBe(
    'affinity soft: session bound to worker 18446744073709551615, the request went elsewhere, and the binding with it',
  );
});

test('agent hints that count are shown, and what was removed', () => {
  const linesOf = (changes: Partial<DecisionRecord>): string[] =>
    renderDecision({ ...RECORD, ...changes })
      .split('\n')
      .filter((line) => line.startsWith('agent hints') || line.startsWith('removed'));
  expect(linesOf({})).toEqual([]);
  const hints = { priority: -3, strict_priority: 2, expected_output_tokens: 40, speculative_prefill: true };
  expect(linesOf({ agent_hints: hints })).toEqual([
    'agent hints: priority -3, strict priority 2, 40 output tokens expected, next turn computed ahead',
  ]);
  expect(linesOf({ stripped: ['nvext.agent_hints', 'priority'] })).toEqual([
    'removed, as the caller is not trusted with it: nvext.agent_hints, priority',
  ]);
});

test('timing fits of the kinds of workers are shown with the candidates that they are of', () => {
  const sure = { confidence: 0.91, observations: 143.25, error: 0.0512 };
  const kind = {
    prefill: { token_ms: 0.015183, attention_ms: 8.42e-7, pass_ms: 16.5, ...sure },
    decode: { ms: 5.74, fill_ms: 54.01, confidence: 0, observations: 0, error: 0 },
  };
  const candidates = RECORD.candidates.map((one) => (one.eligible ? { ...one, timing: 1 } : one));
  const text = renderDecision({ ...RECORD, candidates, timing: [kind, kind] });
  expect(
    text
      .split('\n\n')
      .find((part) => part.startsWith('timing'))
      ?.split('\n'),
  ).toEqual([
    'timing fits of workers',
    'kind  phase    times                                                      observations   error  confidence  workers',
    '   1  prefill  15.18 µs a token, 0.842 ns a pair, 16.5 ms a prompt              143.25  0.0512        0.91  2 18446744073709551615',
    '   1  decode   5.74 ms a token, 54.01 ms more as prompts fill the worker             0       0           0',
  ]);
  expect(renderDecision(RECORD)).not.toContain('timing fits');
});
