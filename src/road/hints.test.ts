import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  exactJsonStringify,
  type HintJson,
  type KvCopy,
  type LogFields,
  NO_LOG,
  PointsmanError,
  pickWorker,
  timeCost,
} from '../plugin/index.ts';
import { jsonBytes } from './hint-size.ts';
import { prompt, REPORT, type TestRoadOptions, testRoad } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const fetchFromPeer = defineHintPolicy({
  type: 'fetch',
  inputs: ['kv-copy-locations'],
  create: () => ({
    buildHints({ copyLocations }) {
      const copy = copyLocations.bestSource(1);
      if (copy === null) return [];
      return [
        {
          type: 'kv.fetch',
          version: '1.0',
          payload: { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes },
        },
        { type: 'kv.retain', version: '1.0', payload: { ttl_ms: 5 } },
      ];
    },
  }),
});

/** A prompt cached on worker 1 and a request that is booked on worker 2. */
async function fetching(options: TestRoadOptions = {}) {
  const built = await testRoad({ hints: [{ definition: fetchFromPeer }], ...options });
  built.cache(1n, prompt(1, 64));
  const constraints = {
    pinnedWorker: { workerId: 2n, rank: null },
    allowedWorkers: null,
    requiredTaints: [],
    preferredTaints: new Map<string, number>(),
    temperature: null,
    priority: 0,
    strictPriority: 0,
  };
  return { ...built, request: built.arrive({ tokens: prompt(1, 100), constraints }) };
}

describe('hints on the road', () => {
  it('go out with the request, and raise what is expected to be cached', async () => {
    const { request, transport } = await fetching();
    const { hint } = transport.last.request;
    expect(hint).toMatchObject({
      message_id: 'r1',
      actions: [
        {
          action_id: 'a1',
          action_type: 'kv.fetch',
          payload: { source_control_endpoint: 'tcp://127.0.0.1:7001' },
        },
        { action_id: 'a2', action_type: 'kv.retain' },
      ],
    });
    expect(request.record()).toMatchObject({
      prediction: { cached_tokens: 0, with_hints_tokens: 64 },
      hints: {
        message_id: 'r1',
        capable: true,
        sent: [
          { action_id: 'a1', type: 'kv.fetch@1.0', policy: 'fetch', outcome: null, blocks_done: null },
          { action_id: 'a2', type: 'kv.retain@1.0', policy: 'fetch', bytes: '{"ttl_ms":5}'.length },
        ],
        policies: [{ name: 'fetch', result: 'sent', actions: 2 }],
      },
    });
  });

  it('are recorded as none, with whether the rank takes any, where no policy is there', async () => {
    const built = await testRoad();
    const { sink, record } = built.arrive();
    expect(sink.heard).toEqual(['booked 1/0']);
    expect(record()?.hints).toMatchObject({ capable: true, sent: [], policies: [], commit: null });
  });

  it('of a trusted caller go out where no policy is there, recorded or not', async () => {
    const action = {
      action_id: 'x',
      action_type: 'kv.retain',
      action_version: '1.0',
      payload: { ttl_ms: 5 },
    };
    const incomingHint = { protocol_version: '0.1', message_id: 'mine', actions: [action] } as const;
    for (const built of [await testRoad(), await testRoad({ decisions: null })]) {
      built.arrive({ incomingHint });
      expect(built.transport.last.request.hint).toMatchObject({
        message_id: 'mine',
        actions: [{ action_type: 'kv.retain' }],
      });
      built.arrive();
      expect(built.transport.last.request.hint).toBeNull();
    }
  });

  it('are recorded with what the head, later events and silence say of them', async () => {
    const { request, transport, road } = await fetching();
    const outcomes = () =>
      request.record()?.hints?.sent.map(({ outcome, reason, blocks_done }) => [outcome, reason, blocks_done]);
    const reported = { reason: 'no_room', blocksAsked: null, bytes: null };
    transport.last.sink.head(200, {}, [
      { actionId: 'a1', outcome: 'deferred', blocksDone: null, ...reported },
      { actionId: 'a7', outcome: 'accepted', blocksDone: 1, ...reported },
    ]);
    expect(outcomes()).toEqual([
      ['deferred', 'no_room', null],
      [null, null, null],
    ]);
    transport.last.sink.finished(REPORT);
    expect(outcomes()).toEqual([
      ['deferred', 'no_room', null],
      ['unreported', null, null],
    ]);
    road.hintOutcome({ messageId: 'r1', actionId: 'a1', outcome: 'accepted', reason: null, blocks: 3 });
    road.hintOutcome({ messageId: 'r9', actionId: 'a2', outcome: 'accepted', reason: null, blocks: 3 });
    expect(outcomes()).toEqual([
      ['accepted', null, 3],
      ['unreported', null, null],
    ]);
  });

  it('teach how long copies from that source take, where the engine says so', async () => {
    const links: (KvCopy['link'] | undefined)[] = [];
    const seeing = defineHintPolicy({
      type: 'seeing',
      inputs: ['kv-copy-locations'],
      create: () => ({
        buildHints({ copyLocations }) {
          links.push(copyLocations.bestSource(1)?.link);
          return [];
        },
      }),
    });
    const hints = [{ definition: seeing }, { definition: fetchFromPeer }];
    const { arrive, transport, request } = await fetching({ hints });
    const told = { outcome: 'accepted' as const, reason: null, blocksAsked: 4 };
    const copied = { ...told, blocksDone: 4, bytes: 4_000_000, ms: 30 };
    const constraints = { ...NO_CONSTRAINTS, pinnedWorker: { workerId: 2n, rank: null } };
    // No copy, not how long, and nobody's action: nothing is learnt of these.
    transport.last.sink.head(200, {}, [
      { ...copied, actionId: 'a2' },
      { ...told, actionId: 'a1', blocksDone: 4, bytes: 4_000_000 },
      { ...copied, actionId: 'a9' },
    ]);
    arrive({ tokens: prompt(1, 100), constraints });
    transport.last.sink.head(200, {}, [{ ...copied, actionId: 'a1' }]);
    arrive({ tokens: prompt(1, 100), constraints });
    expect(request.record()?.hints?.sent).toHaveLength(2);
    expect(links.slice(0, 2)).toEqual([null, null]);
    const link = links[2];
    expect(link?.confidence).toBeGreaterThan(0);
    // It starts from 3 ms and 100 Gbit/s; one observation goes part of the way.
    expect((link?.latencyMs ?? 0) + 4 * (link?.blockMs ?? 0)).toBeGreaterThan(5);
  });

  it('that have blocks copied leave less to compute on the worker, and say so to later selections', async () => {
    const seen: (readonly unknown[])[] = [];
    const selection = defineWorkerSelectionPolicy({
      type: 'looking',
      create: () => ({
        picker: pickWorker({
          inputs: ['request-phases', 'kv-copy-locations'],
          pick: ({ phases, copies }) => {
            seen.push([phases.prefillTokens[1], copies.link === null]);
            return 1;
          },
        }),
      }),
    });
    const { arrive, transport } = await fetching({ selection: { definition: selection } });
    arrive({ tokens: prompt(500, 10) });
    const copied = {
      actionId: 'a1',
      outcome: 'accepted' as const,
      reason: null,
      blocksAsked: 4,
      blocksDone: 4,
    };
    transport.dispatched[0]?.sink.head(200, {}, [{ ...copied, bytes: 4_000_000, ms: 30 }]);
    arrive({ tokens: prompt(600, 10) });
    // 100 tokens, of which 64 are copied; then 10 more.
    expect(seen.slice(-2)).toEqual([
      [36, true],
      [46, false],
    ]);
  });

  it.each([
    ['rejected', true, 110],
    ['missing', true, 110],
    ['missing', false, 110],
    ['clipped', true, 46],
    ['deferred', true, 46],
  ] as const)(
    'leave all to compute where the copy is %s (with the head: %j)',
    async (outcome, isInHead, left) => {
      const seen: (number | undefined)[] = [];
      const selection = defineWorkerSelectionPolicy({
        type: 'looking',
        create: () => ({
          picker: pickWorker({
            inputs: ['request-phases'],
            pick: ({ phases }) => {
              seen.push(phases.prefillTokens[1]);
              return 1;
            },
          }),
        }),
      });
      const { arrive, request, road, transport } = await fetching({ selection: { definition: selection } });
      arrive({ tokens: prompt(500, 10) });
      const told = { actionId: 'a1', outcome, reason: null };
      const report = () => {
        if (isInHead)
          transport.dispatched[0]?.sink.head(200, {}, [
            { ...told, blocksAsked: 4, blocksDone: 0, bytes: null },
          ]);
        else road.hintOutcome({ messageId: 'r1', ...told, blocks: 0 });
      };
      report();
      report();
      arrive({ tokens: prompt(600, 10) });
      expect(seen.at(-1)).toBe(left);
      transport.dispatched[0]?.sink.finished(REPORT);
      report();
      arrive({ tokens: prompt(700, 10) });
      expect(seen.at(-1)).toBe(20);
      expect(request.record()?.outcome).not.toBeNull();
    },
  );

  it('that have blocks copied are in the terms of a cost that counts on copies, as long as these took lately', async () => {
    const timing = { prefill_us_per_token: 1000, attention_ns_per_pair: 0, decode_ms: 10, decode_fill_ms: 0 };
    const soonest = defineWorkerSelectionPolicy({
      type: 'soonest',
      create: () => ({ cost: timeCost({ timing, peer_copies: true }) }),
    });
    const { arrive, request, transport } = await fetching({ selection: { definition: soonest } });
    const told = { outcome: 'accepted' as const, reason: null, blocksAsked: 4 };
    transport.last.sink.head(200, {}, [{ ...told, actionId: 'a1', blocksDone: 4, bytes: 4_000_000, ms: 30 }]);
    transport.last.sink.finished(REPORT);
    const later = arrive({ tokens: prompt(1, 100) });
    const [before, after] = [request.record(), later.record()].map((record) => {
      const found = record?.candidates.find(({ worker_id: id }) => id === 2n);
      if (found?.eligible !== true) return expect.unreachable();
      expect(found.time_inputs?.source_prefix_blocks).toBe(4);
      expect(found.time_terms?.copied_blocks).toBe(4);
      expect(found.time_terms?.total).toBeCloseTo(found.cost ?? Number.NaN, 9);
      return { link: record?.copy_link, ms: found.time_terms?.parts.peer_copy?.ms ?? 0 };
    });
    expect(before?.link).toBeNull();
    expect(after?.link?.confidence).toBeGreaterThan(0);
    expect(after?.ms).toBeGreaterThan(before?.ms ?? Number.NaN);
  });

  it('that an engine rejects are named in the log once per policy, action and reason', async () => {
    const warned: (LogFields | undefined)[] = [];
    const log = { ...NO_LOG, warn: (_: string, fields?: LogFields) => void warned.push(fields) };
    const { transport, arrive } = await fetching({ log });
    const rejected = (actionId: string, reason: string | null) => {
      const told = { reason, blocksDone: null, blocksAsked: null, bytes: null };
      return { actionId, outcome: 'rejected' as const, ...told };
    };
    transport.last.sink.head(200, {}, [rejected('a1', 'unsupported'), rejected('a2', 'unsupported')]);
    const constraints = { ...NO_CONSTRAINTS, pinnedWorker: { workerId: 2n, rank: null } };
    for (let more = 0; more < 2; more += 1) {
      arrive({ tokens: prompt(1, 100), constraints });
      transport.last.sink.head(200, {}, [rejected('a1', 'unsupported'), rejected('a2', 'word word')]);
    }
    const policy = 'fetch';
    expect(warned).toEqual([
      { policy, action: 'kv.fetch@1.0', reason: 'unsupported' },
      { policy, action: 'kv.retain@1.0', reason: 'unsupported' },
      // What may be any text stays out of the log as it does of the record.
      { policy, action: 'kv.retain@1.0', reason: null },
    ]);
  });

  it('are given up as unreported when the request is aborted', async () => {
    const { request } = await fetching();
    request.ticket.abort();
    expect(request.record()?.hints?.sent.map(({ outcome }) => outcome)).toEqual(['unreported', 'unreported']);
  });

  it('of a policy that throws are lost, the request goes on', async () => {
    const bomb = defineHintPolicy({
      type: 'bomb',
      create: () => ({
        buildHints() {
          throw new PointsmanError('PM_INTERNAL', 'boom');
        },
      }),
    });
    const { arrive, transport, expectIdle } = await testRoad({ hints: [{ definition: bomb }] });
    const { record } = arrive();
    expect(transport.last.request.hint).toBeNull();
    expect(record()?.hints).toMatchObject({
      sent: [],
      policies: [{ name: 'bomb', result: 'dropped', reason: 'threw' }],
    });
    transport.last.sink.finished(REPORT);
    expectIdle();
  });
});

describe('the size of a payload', () => {
  it('is that of its JSON text', () => {
    const leaf: fc.Arbitrary<HintJson> = fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
      fc.bigInt(0n, (1n << 64n) - 1n),
      fc.array(fc.bigInt(0n, (1n << 64n) - 1n)).map((hashes) => BigUint64Array.from(hashes)),
    );
    const { value } = fc.letrec<{ value: HintJson }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        leaf,
        fc.array(tie('value')),
        fc.dictionary(fc.string(), tie('value')),
      ),
    }));
    fc.assert(
      fc.property(value, (payload) => {
        expect(jsonBytes(payload)).toBe(Buffer.byteLength(exactJsonStringify(payload)));
      }),
    );
  });

  it('counts digits right around every power of ten', () => {
    const around = Array.from({ length: 19 }, (_, power) => 10n ** BigInt(power + 1)).flatMap((ten) => [
      ten - 1n,
      ten,
    ]);
    const hashes = BigUint64Array.from([0n, ...around, (1n << 64n) - 1n]);
    expect(jsonBytes(hashes)).toBe(exactJsonStringify([...hashes]).length);
  });
});
