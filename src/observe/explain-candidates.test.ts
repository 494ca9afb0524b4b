import { expect, it } from 'vitest';
import { timeCost } from '../plugin/index.ts';
import { decisionInput } from './decision-input.fixtures.ts';
import type { DecisionInput } from './decision-input.ts';
import type { DecisionRecord } from './decision-record.ts';
import { DecisionRing } from './decision-ring.ts';
import { renderDecision } from './explain.ts';
import { candidates } from './explain-candidates.ts';
import { NO_METRICS } from './metrics-port.ts';

const options = {
  timing: { prefill_us_per_token: 100, attention_ns_per_pair: 0, decode_ms: 10, decode_fill_ms: 0 },
  ...{
    prefill_weight: 4,
    interference_weight: 0.5,
    waiting_weight: 0,
    crowding_weight: 0,
    decode_weight: 0.1,
  },
  ...{ kv_bytes_per_token: 125_000, host_gbps: 10 },
};
const cost = timeCost(options);

const ring = (bytes = 2 ** 20) =>
  new DecisionRing({ bytes, candidates: 64, startMs: 0, hashId: (text) => text, metrics: NO_METRICS });

const column = (...values: number[]) => Float64Array.from(values);

/** Three workers that hold nothing, 25 blocks in host memory, and 25 on the device behind a prompt of 600 tokens. */
function timed(): DecisionInput {
  const input = decisionInput(
    [
      { id: 1n, cost: 500 },
      { id: 2n, host: 25, cost: 380 },
      { id: 3n, device: 25, taint: 2, cost: 850 },
    ],
    { promptTokens: 1000, row: 1, costWeights: null, timeCost: cost, outputTokens: 100 },
    [{ id: 4n, reason: 'draining' }],
  );
  const columns = {
    ...input.columns,
    inFlightBlocks: column(0, 0, 5),
    prefillRequests: column(0, 0, 1),
    prefillTokens: column(0, 0, 600),
    prefillAttention: column(0, 0, 180_000),
    prefillFrontMs: column(0, 0, 5),
    decodeRequests: column(0, 0, 1),
    bookedPromptTokens: column(0, 0, 2600),
  };
  return { ...input, columns };
}

function recorded(input: DecisionInput): DecisionRecord {
  const decisions = ring();
  return decisions.get(decisions.open(input).id) ?? expect.unreachable();
}

it('a decision by a cost in time shows what it read of each candidate, and the terms of the cost', () => {
  expect(candidates(recorded(timed()))).toBe(
    `candidates (4), lowest cost first, terms in ms: cost = (sum of term × weight) × taint; decode for 100 output tokens
place  worker  rank  cost  device  host  disk  shared  in flight  waiting  waiting tokens  decoding  booked tokens             tokens to compute  queue  host read  prefill    ×  decode    ×  taint
    1       2     0   380       0    25     0       0          0        0               0         0              0  <- picked                600      0         40       60    4    1000  0.1      1
    2       1     0   500       0     0     0       0          0        0               0         0              0                          1000      0                 100    4    1000  0.1      1
    3       3     0   850      25     0     0       0          5        1             600         1           2600                           600     55                  60  4.5    1000  0.1      2
worker 4 rank 0: not eligible, draining`,
  );
});

it('a cost that counts on copies shows what a peer holds, the copy, and what was known of copies', () => {
  const input = timed();
  const columns = {
    ...input.columns,
    hasCopies: true,
    copyableBlocks: column(25, 0, 0),
    sourcePrefixBlocks: column(25, 25, 0),
  };
  const copyLink = { latencyMs: 5, blockMs: 0.2, confidence: 1 };
  const counting = timeCost({ ...options, peer_copies: true });
  const counted = { ...input, columns, timeCost: counting, costs: column(370, 380, 850), copyLink };
  const record = recorded(counted);
  expect(record.copy_link).toEqual({ latency_ms: 5, block_ms: 0.2, confidence: 1 });
  expect(candidates(record)).toBe(
    `candidates (4), lowest cost first, terms in ms: cost = (sum of term × weight) × taint; decode for 100 output tokens
place  worker  rank  cost  device  host  disk  shared  source prefix  in flight  waiting  waiting tokens  decoding  booked tokens             tokens to compute  queue  host read  peer copy  ×  prefill    ×  decode    ×  taint
    1       1     0   370       0     0     0      25             25          0        0               0         0              0                           600      0                    10  3       60    4    1000  0.1      1
    2       2     0   380       0    25     0       0             25          0        0               0         0              0  <- picked                600      0         40                     60    4    1000  0.1      1
    3       3     0   850      25     0     0       0              0          5        1             600         1           2600                           600     55                                60  4.5    1000  0.1      2
worker 4 rank 0: not eligible, draining`,
  );
  expect(renderDecision(record)).toContain(
    '\n\ncopies from peers took 5 ms and 0.2 ms a block, confidence 1\n\n',
  );
  expect(renderDecision(recorded({ ...counted, copyLink: null }))).toContain(
    '\n\ncopies from peers: none was measured, times as the policy states them\n\n',
  );
  expect(recorded(input)).not.toHaveProperty('copy_link');
});

it('a cost that counts the pressure on KV pools shows it, in the weight of the prompt too', () => {
  const input = timed();
  const columns = { ...input.columns, cachePressure: column(0, 0, 0.25) };
  const crowded = timeCost({ ...options, crowding_weight: 2 });
  const costs = column(500, 380, 910);
  const lines = candidates(recorded({ ...input, columns, costs, timeCost: crowded })).split('\n');
  expect(lines[1]).toContain('booked tokens  cache pressure ');
  expect(lines[4]).toMatch(/^ +3 +3 +0 +910 .* 2600 +0\.25 +600 +55 +60 +5 +1000 +0\.1 +2$/);
});

it('terms that no candidate has are left out, and preferred taints of a request whose worker was given', () => {
  const input = timed();
  const columns = { ...input.columns, hostBlocks: column(0, 0, 0) };
  const costs = column(Number.NaN, Number.NaN, 425);
  const lines = candidates(recorded({ ...input, columns, costs, row: 2, by: 'pinned' })).split('\n');
  expect(lines[1]).toContain('queue  prefill');
  expect(lines[2]).toMatch(/^ +1 +3 +0 +425 .* 55 +60 +4\.5 +1000 +0\.1 +1$/);
});

it('decisions by costs in time and by others share the ring, each with its own', () => {
  // The least ring: a segment has room for a few decisions.
  const decisions = ring(64 * 1024);
  const plain = decisionInput([{ id: 7n, device: 9, cost: 3 }], {}, [{ id: 8n, reason: 'gone' }]);
  for (let turn = 0; turn < 60; turn += 1) {
    const { id } = decisions.open(turn % 3 === 0 ? plain : timed());
    const kept = [decisions.get(id), decisions.list(2, {})[1]].filter((one) => one != null);
    for (const { candidates: rows, candidates_total: total } of kept) {
      expect(rows).toHaveLength(total);
      const found = rows.map((row) => (row.eligible ? (row.time_terms?.total ?? row.cost) : row.reason));
      expect(found).toEqual(total === 2 ? [3, 'gone'] : [500, 380, 850, 'draining']);
    }
  }
  expect(decisions.bytes).toBeLessThanOrEqual(64 * 1024);
});
