// Copies that selection commits: sent first, or the booking degraded, or freed once and made anew without the credit.
import { describe, expect, it } from 'vitest';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  type HintAction,
  linearCostWithCopies,
} from '../plugin/index.ts';
import { prompt, REPORT, type TestRoadOptions, testRoad, workerSpec } from './road.fixtures.ts';

const kvcr = defineWorkerSelectionPolicy({
  type: 'counts-on-copies',
  commitments: ['kv-copy'],
  create: () => ({ cost: linearCostWithCopies({ shared_cache_multiplier: 0.5 }) }),
});
const kvFetch = defineHintPolicy({
  type: 'fetch',
  inputs: ['kv-copy-locations'],
  commitments: ['kv-copy'],
  create: () => ({
    buildHints({ committedKvCopy, copyLocations }) {
      const copy = committedKvCopy ?? copyLocations.bestSource(1);
      if (copy === null) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});

/** Names the committed copy, unless told to fail. */
const sender = (fail: (() => readonly HintAction[]) | null) =>
  defineHintPolicy({
    type: 'sender',
    commitments: ['kv-copy'],
    create: () => ({
      buildHints: ({ committedKvCopy }) =>
        fail?.() ?? [
          { type: 'kv.fetch', version: '1.0', payload: { prefix: committedKvCopy?.prefixBlocks ?? 0 } },
        ],
    }),
  });
const mark = defineHintPolicy({
  type: 'mark',
  create: () => ({ buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: {} }] }),
});
const nothing = () => [];
const throws = () => {
  throw new Error('no');
};

const TOKENS = prompt(1, 2048);

/** The golden vector: worker 1 holds 64 blocks and is busy with 8,192 tokens, worker 2 holds 8, worker 3 none. */
async function golden(options: TestRoadOptions) {
  const built = await testRoad({
    selection: { definition: kvcr },
    workers: [workerSpec(1n), workerSpec(2n), workerSpec(3n)],
    ...options,
  });
  const constraints = {
    pinnedWorker: { workerId: 1n, rank: null },
    allowedWorkers: null,
    requiredTaints: [],
    preferredTaints: new Map<string, number>(),
    temperature: null,
    priority: 0,
    strictPriority: 0,
  };
  const busy = built.arrive({ tokens: prompt(9, 8192), constraints });
  built.cache(1n, TOKENS.subarray(0, 1024));
  built.cache(2n, TOKENS.subarray(0, 128));
  const finish = () => {
    built.transport.last.sink.finished(REPORT);
    busy.ticket.abort();
    built.expectIdle();
  };
  return { ...built, finish, arriveIt: () => built.arrive({ tokens: TOKENS }) };
}

const commitOf = (record: { hints: { commit: unknown } | null } | null) => record?.hints?.commit;

describe('a committed copy', () => {
  it('names the best source, is sent first, and stands in the record with the blocks that were credited', async () => {
    const built = await golden({ hints: [{ definition: mark }, { definition: kvFetch }] });
    const request = built.arriveIt();
    expect(request.sink.heard[0]).toBe('booked 2/0');
    const record = request.record();
    expect(commitOf(record)).toEqual({
      source: { worker_id: 1n, dp_rank: 0 },
      prefix_blocks: 64,
      additional_blocks: 56,
      result: 'sent',
      reason: null,
    });
    const { hint } = built.transport.last.request;
    expect(hint?.actions.map((one) => [one.action_id, one.action_type])).toEqual([
      ['a1', 'kv.fetch'],
      ['a2', 'acme.mark'],
    ]);
    expect(hint?.actions[0]?.payload.block_hashes).toHaveLength(64);
    expect(record?.prediction).toMatchObject({ cached_tokens: 128, with_hints_tokens: 1024 });
    const costs = record?.candidates.map((one) => one.eligible && [one.cost, one.overlap_blocks.shared]);
    expect(costs).toEqual([
      [704 + 512, 0],
      [220, 56],
      [224, 64],
    ]);
    for (const one of record?.candidates ?? []) {
      if (!one.eligible || one.terms === null) throw new Error('no terms');
      expect(one.terms.prefill + one.terms.decode_blocks).toBe(one.cost);
    }
    built.finish();
  });

  it.each<[string, () => readonly HintAction[]]>([
    ['nothing', nothing],
    ['threw', throws],
  ])('that the sender fails to send (%s) is dispatched without, by default', async (reason, fail) => {
    const built = await golden({ hints: [{ definition: sender(fail) }, { definition: mark }] });
    const request = built.arriveIt();
    expect(request.sink.heard).toEqual(['booked 2/0']);
    expect(commitOf(request.record())).toMatchObject({ result: 'degraded', reason });
    expect(built.transport.last.request.hint?.actions.map((one) => one.action_type)).toEqual(['acme.mark']);
    built.finish();
  });

  it('that cannot be sent frees its booking once under release, and selection decides again without the credit', async () => {
    // The busy request is the first run.
    let runs = 0;
    const fail = () => {
      runs += 1;
      return runs === 2 ? throws() : nothing();
    };
    const hints = [{ definition: sender(fail) }, { definition: mark }];
    const built = await golden({ hints, onCommitFailure: 'release' });
    const request = built.arriveIt();
    expect(request.sink.heard).toEqual(['booked 2/0']);
    expect(built.road.activeBookings()).toBe(2);
    const attempts = built.decisions?.ofRequest('r2') ?? [];
    expect(attempts.map((one) => [one.attempt, one.booking.released, one.outcome?.status])).toEqual([
      [1, 'commit_failed', 409],
      [2, null, undefined],
    ]);
    expect(commitOf(attempts[0] ?? null)).toMatchObject({ result: 'released', reason: 'threw' });
    expect(commitOf(attempts[1] ?? null)).toBeNull();
    const shared = attempts[1]?.candidates.map((one) => one.eligible && one.overlap_blocks.shared);
    expect(shared).toEqual([0, 0, 0]);
    expect(request.sink.decisionId).toBe(attempts[1]?.id);
    expect(attempts.map((one) => one.hints?.message_id)).toEqual(['r2', 'r2/2']);
    expect(built.transport.last.request.hint?.message_id).toBe('r2/2');
    // The policies behind the sender ran for the second booking alone.
    expect(attempts.map((one) => one.hints?.policies.map((policy) => policy.name))).toEqual([
      ['sender'],
      ['sender', 'mark'],
    ]);
    built.finish();
  });

  it('is not made again after its source has gone: the booking degrades, and the sender runs without it', async () => {
    const built = await golden({ hints: [{ definition: mark }, { definition: kvFetch }] });
    // The index forgets what worker 1 announced between the match and the hint: no hash of it is known any more.
    const index = built.index!;
    const externalHashes = index.externalHashes.bind(index);
    index.externalHashes = (owner, ...rest) => (owner === 0 ? 0 : externalHashes(owner, ...rest));
    const request = built.arriveIt();
    expect(commitOf(request.record())).toMatchObject({
      source: null,
      result: 'degraded',
      reason: 'source_gone',
    });
    built.finish();
  });

  const pinnedTo2 = {
    pinnedWorker: { workerId: 2n, rank: null },
    allowedWorkers: null,
    requiredTaints: [],
    preferredTaints: new Map<string, number>(),
    temperature: null,
    priority: 0,
    strictPriority: 0,
  };

  it('is asked of the peer with fewer requests in flight where two hold the same', async () => {
    const built = await golden({ hints: [{ definition: kvFetch }] });
    built.cache(3n, TOKENS.subarray(0, 1024));
    const request = built.arrive({ tokens: TOKENS, constraints: pinnedTo2 });
    expect(commitOf(request.record())).toMatchObject({
      source: { worker_id: 3n, dp_rank: 0 },
      result: 'sent',
    });
    built.finish();
  });

  it('moves to the next source that covers what was credited when the first cannot be named', async () => {
    const built = await golden({ hints: [{ definition: kvFetch }] });
    built.cache(3n, TOKENS.subarray(0, 1024));
    const index = built.index!;
    const externalHashes = index.externalHashes.bind(index);
    index.externalHashes = (owner, ...rest) => (owner === 2 ? 0 : externalHashes(owner, ...rest));
    const request = built.arrive({ tokens: TOKENS, constraints: pinnedTo2 });
    expect(commitOf(request.record())).toMatchObject({
      source: { worker_id: 1n, dp_rank: 0 },
      result: 'sent',
    });
    built.finish();
  });

  it('that fails while its client leaves frees the booking once, and nothing is booked again', async () => {
    let leave = (): void => undefined;
    const hints = [
      {
        definition: sender(() => {
          leave();
          return [];
        }),
      },
    ];
    const built = await golden({ hints, onCommitFailure: 'release' });
    // The worker is taken away in the middle of the stage, which ends the exchange.
    leave = () => built.road.workerGone(2n);
    const request = built.arriveIt();
    expect(request.sink.heard).toEqual(['failed PM_ENGINE_LOST before head']);
    expect(built.road.activeBookings()).toBe(1);
    expect(built.transport.dispatched).toHaveLength(1);
  });
});
