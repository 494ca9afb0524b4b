import { expect, test } from 'vitest';
import { routerConfigFixture, workerFixture } from '../../tests/gateway-fixtures.ts';
import type { EventFeed } from '../events/index.ts';
import type { Worker } from '../fleet/index.ts';
import { type ReadinessFacts, readinessOf } from './readiness.ts';

const FEED: EventFeed = {
  lastSequence: 3,
  lastTime: null,
  restored: false,
  lastBatchAt: 0,
  batches: 4,
  gaps: 0,
  missedBatches: 0,
  restarts: 0,
  stale: false,
  partial: false,
  isRecovering: false,
  canReplay: true,
  duplicates: 0,
  replays: { asked: 0, answered: 0, timed_out: 0, failed: 0, too_old: 0 },
  replayedBatches: 0,
  pendingBatches: 0,
  pendingBytes: 0,
  overflows: 0,
  rejected: {},
  rejectedBlocks: {},
  unknownRemoves: 0,
  mismatchedBlockSize: null,
  lastError: null,
};
const ADVERTISED = {
  epoch: 'e',
  model: 'tiny',
  workerType: 'aggregated',
  blockSize: 16,
  hashScheme: 'x',
  reportsOutcomes: true,
  ranks: new Map(),
};
const CONNECTED = { worker: 1n, rank: 0, endpoint: 'tcp://a:1', replay: null, connected: true };

function facts(over: Partial<ReadinessFacts>): ReadinessFacts {
  return {
    config: routerConfigFixture(),
    workers: [workerFixture()],
    starting: false,
    answered: () => true,
    subscriptions: [CONNECTED],
    feed: () => FEED,
    blockSizeOf: () => 16,
    roles: [{ role: 'aggregated', hints: [] }],
    failures: [],
    unheard: () => 0,
    ...over,
  };
}

const HINTS = [{ role: 'aggregated' as const, hints: [{ name: 'mark', type: 'mark', listed: true }] }];
const CAPABLE = {
  ...ADVERTISED,
  ranks: new Map([[0, { routerHint: true, actions: null, sourceControlEndpoint: null }]]),
};
const DIVIDED = [workerFixture({ role: 'prefill' }), workerFixture({ id: 2n, role: 'decode' })];
const lost: Worker = { ...workerFixture(), state: 'gone' };

test('a router with a ready worker, connected events and equal block sizes has nothing to say', () => {
  expect(readinessOf(facts({ workers: [{ ...workerFixture(), capabilities: ADVERTISED }] }))).toEqual({
    reasons: [],
    warnings: [],
  });
  // An engine that has stored nothing yet sends nothing: silence alone is no fault.
  expect(readinessOf(facts({ feed: () => null, unheard: () => 2 })).warnings).toEqual([]);
  const capable = [{ ...workerFixture(), capabilities: CAPABLE }];
  expect(readinessOf(facts({ workers: capable, roles: HINTS })).warnings).toEqual([]);
});

test('a worker that is lost while others serve its model is named, with what that means', () => {
  const three = [
    workerFixture(),
    { ...workerFixture({ id: 2n }), state: 'gone' as const },
    { ...workerFixture({ id: 3n }), state: 'suspect' as const },
    { ...workerFixture({ id: 4n }), state: 'draining' as const },
  ];
  const { reasons, warnings } = readinessOf(facts({ workers: three }));
  const { url } = three[1]!.spec;
  expect([reasons, warnings]).toEqual([
    [],
    [
      `worker 2 of model tiny at ${url} is gone: its health checks fail, so it gets no requests`,
      `worker 3 of model tiny at ${url} is suspect: it broke a connection, and gets no requests until a health check succeeds`,
    ],
  ]);
});

test('prefill and decode workers serve together, and decode workers alone where they may', () => {
  expect(readinessOf(facts({ workers: DIVIDED }))).toEqual({ reasons: [], warnings: [] });
  const config = routerConfigFixture();
  const disaggregation = { ...config.router.disaggregation, decodeFallback: true };
  const may = { ...config, router: { ...config.router, disaggregation } };
  const [, decode = lost] = DIVIDED;
  expect(readinessOf(facts({ config: may, workers: [decode] }))).toEqual({ reasons: [], warnings: [] });
});

test('a model whose policies cannot be created is told of, and stops the router only where no other is served', () => {
  const failure = (model: string, role: 'aggregated' | 'decode' = 'aggregated', due = false) => ({
    due,
    partition: { model, routingGroup: 'default' },
    role,
    reason: `model ${model} cannot be served in role ${role}: create of hint policy p threw for role ${role}`,
  });
  const workers = ['tiny', 'late'].map((model) => workerFixture({ model }));
  const other = readinessOf(
    facts({ workers, subscriptions: null, failures: [failure('late'), failure('tiny', 'decode')] }),
  );
  expect(other).toEqual({ reasons: [], warnings: [failure('late').reason] });
  const failures = [failure('late'), failure('tiny')];
  const none = readinessOf(facts({ workers, subscriptions: null, failures }));
  expect(none.reasons).toEqual(failures.map(({ reason }) => reason));
  // Only a request tries a model again, and none comes while the router is not ready.
  const oneDue = [failure('late'), failure('tiny', 'aggregated', true)];
  const again = readinessOf(facts({ workers, subscriptions: null, failures: oneDue }));
  expect(again).toEqual({ reasons: [], warnings: none.reasons });
});

test.each<[Partial<ReadinessFacts>, string]>([
  [{ starting: true }, 'workers are still being asked about themselves'],
  [{ config: routerConfigFixture({ models: new Map() }) }, 'no model is configured'],
  [{ workers: [] }, 'there are no workers'],
  [
    { workers: [lost, lost, { ...lost, state: 'suspect' }] },
    'none of the 3 workers is ready (2 gone, 1 suspect)',
  ],
  [
    { workers: [workerFixture({ role: 'encode' })] },
    'none of the 1 workers gets requests: it has role encode',
  ],
  [
    { workers: [workerFixture({ role: 'decode' })] },
    'model tiny is served by prefill and decode workers, and no prefill worker is ready; router.decode_fallback: true lets decode workers compute prompts',
  ],
  [
    {
      workers: [
        workerFixture({ role: 'prefill' }),
        { ...lost, spec: { ...lost.spec, id: 2n, role: 'decode' } },
      ],
    },
    'model tiny is served by prefill and decode workers, and no decode worker is ready',
  ],
])('is not ready and says why (%#)', (over, reason) => {
  expect(readinessOf(facts(over)).reasons).toEqual([reason]);
});

test.each<[Partial<ReadinessFacts>, string]>([
  [
    {
      workers: [workerFixture(), { ...lost, spec: { ...lost.spec, id: 2n, model: 'other' } }],
      config: other(),
    },
    'model other has no ready worker (1 gone)',
  ],
  [{ config: other() }, 'model other has no worker'],
  [
    { subscriptions: [{ ...CONNECTED, endpoint: null, connected: false }] },
    'worker 1 rank 0 announces no KV events: what it has cached is estimated from what is sent to it; name its endpoint under kv_events',
  ],
  [
    { subscriptions: [{ ...CONNECTED, connected: false }] },
    'the KV events of worker 1 rank 0 at tcp://a:1 are not connected',
  ],
  [
    { feed: () => ({ ...FEED, mismatchedBlockSize: 32 }) },
    "worker 1 rank 0 stores blocks of 32 tokens, which do not make up its model's blocks: what it has cached is estimated from what is sent to it; give the model a block_size that is a multiple of it",
  ],
  [
    { feed: () => ({ ...FEED, rejectedBlocks: { unknown_parent: 9 } }) },
    '9 blocks of worker 1 rank 0 were dropped, as the block before them never came: what it has cached is not fully known',
  ],
  [
    { feed: () => ({ ...FEED, rejected: { plain_tokens: 2, ambiguous_cache_namespace: 1 } }) },
    'KV events of worker 1 rank 0 were left out, so their blocks are not found (2 plain_tokens, 1 ambiguous_cache_namespace)',
  ],
  [
    { feed: () => ({ ...FEED, stale: true, missedBatches: 7 }) },
    '7 batches of KV events of worker 1 rank 0 were missed: what it has cached is not fully known',
  ],
  [
    { feed: () => ({ ...FEED, stale: true, missedBatches: 7, canReplay: false }) },
    '7 batches of KV events of worker 1 rank 0 were missed: what it has cached is not fully known; name its replay endpoint under kv_events, so that it is asked for them',
  ],
  [
    { feed: () => ({ ...FEED, stale: true, restored: true, canReplay: false }) },
    'the blocks of worker 1 rank 0 come from a copy that was not exact: what it has cached is not fully known; name its replay endpoint under kv_events, so that it is asked for all it holds',
  ],
  [
    { feed: () => ({ ...FEED, stale: true }) },
    'the blocks of worker 1 rank 0 were forgotten while its engine may have lived on: what it has cached is not fully known; it is asked for all it holds',
  ],
  [
    {
      feed: () => ({
        ...FEED,
        stale: true,
        replays: { asked: 4, answered: 1, timed_out: 2, failed: 1, too_old: 0 },
      }),
    },
    'worker 1 rank 0 was asked 3 times in vain for KV events that were missed; check its replay endpoint',
  ],
  [
    { feed: () => ({ ...FEED, partial: true }) },
    'worker 1 rank 0 no longer holds its first KV events: it may have cached more than is known, until it clears or starts anew',
  ],
  [
    { feed: () => ({ ...FEED, stale: true, rejected: { undecodable: 2 }, lastError: 'byte 3: cut short' }) },
    '2 batches of KV events of worker 1 rank 0 could not be read: what it has cached is not fully known (the latest: byte 3: cut short)',
  ],
  [
    { feed: () => ({ ...FEED, rejected: { failed: 5, unknown_parent: 1 }, lastError: 'the index is full' }) },
    '5 KV events of worker 1 rank 0 could not be applied: what it has cached is not fully known (the latest: the index is full)',
  ],
  [
    { feed: () => ({ ...FEED, rejected: { bigram_tokens: 4, extra_keys: 1, remote: 9 } }) },
    'KV events of worker 1 rank 0 were left out, so their blocks are not found (1 extra_keys, 4 bigram_tokens)',
  ],
  [
    { feed: () => null, unheard: () => 3 },
    'worker 1 rank 0 answered 3 prompts of new blocks, but none of its KV events at tcp://a:1 was heard: what it has cached is estimated from what is sent to it; check that its prefix cache and KV events are on, and the topic',
  ],
  [
    { roles: HINTS },
    'nobody reads the hints of mark: no ready worker of role aggregated advertises router_hint, so these policies never run',
  ],
  [
    { workers: [workerFixture(), workerFixture({ id: 2n, role: 'prefill' })] },
    'worker 2 has role prefill: its model tiny has no decode worker, and aggregated workers serve it',
  ],
  [
    { workers: [workerFixture(), workerFixture({ id: 2n, role: 'encode' })] },
    'worker 2 has role encode: this version sends it no requests',
  ],
  [
    { workers: [workerFixture({ id: 3n }), ...DIVIDED] },
    'worker 3 has role aggregated: its model tiny has decode workers, and they serve each request with a prefill worker',
  ],
  [
    { workers: DIVIDED, roles: [{ ...HINTS[0]!, role: 'decode' }] },
    'nobody reads the hints of mark: no ready worker of role decode advertises router_hint, so these policies never run',
  ],
  [
    { workers: [{ ...workerFixture(), capabilities: { ...ADVERTISED, blockSize: 32 } }] },
    'worker 1 advertises blocks of 32 tokens, but model tiny has 16: nothing it caches is found',
  ],
  [
    { workers: [workerFixture(), workerFixture({ id: 2n, dialect: 'auto' })] },
    'worker 2 has dialect "auto", but its engine does not say what it is; name its dialect: sim, vllm',
  ],
])('is ready but says what works worse than configured (%#)', (over, warning) => {
  expect(readinessOf(facts(over))).toEqual({ reasons: [], warnings: [warning] });
});

test('engines that were never reached are no ready workers, and only that is said of them', () => {
  const silent = {
    workers: [workerFixture(), { ...workerFixture({ id: 2n }), state: 'gone' as const }],
    answered: () => false,
    subscriptions: [{ ...CONNECTED, endpoint: null, connected: false }],
    roles: HINTS,
  };
  const { url } = workerFixture().spec;
  expect(readinessOf(facts(silent))).toEqual({
    reasons: ['none of the 2 workers is ready (1 silent, 1 gone)'],
    warnings: [
      'model tiny has no ready worker (1 silent, 1 gone)',
      `worker 1 has not answered at ${url} yet; it is asked again and again`,
      `worker 2 has not answered at ${url} yet; it is asked again and again`,
    ],
  });
  const one = readinessOf(facts({ ...silent, answered: (id) => id === 1n, roles: [] }));
  expect(one.reasons).toEqual([]);
});

test('says nothing about events where nobody reads them', () => {
  expect(readinessOf(facts({ subscriptions: null })).warnings).toEqual([]);
});

function other() {
  const config = routerConfigFixture();
  const [tiny] = config.models.values();
  return { ...config, models: new Map([...config.models, ['other', { ...tiny!, name: 'other' }]]) };
}
