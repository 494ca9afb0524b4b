import { describe, expect, it } from 'vitest';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import {
  defineHintPolicy,
  type HintAction,
  type HintPolicyDefinition,
  type KvHint,
  type LogFields,
  ManualClock,
  NO_LOG,
} from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { hintBooking, hintFleet } from './hint.fixtures.ts';
import { createSoloRuntime, type HintBooking, type HintFleet, type HintStageResult } from './index.ts';

const partition = { model: 'tiny', routingGroup: 'default' };

/** What a rank advertises. */
type Advertised = Omit<NonNullable<Parameters<typeof hintFleet>[0]>, 'rank'>;

const fleetOf = (advertised: Advertised): HintFleet => hintFleet({ rank: 3, ...advertised });
const booking = (changes: Partial<HintBooking> = {}): HintBooking =>
  hintBooking({ slot: 5, rank: 3, ...changes });

async function stageOf(
  definitions: readonly HintPolicyDefinition[],
  advertised: Advertised = {},
  ports: { metrics?: Metrics; log?: typeof NO_LOG; clock?: ManualClock } = {},
) {
  const runtime = await createSoloRuntime({
    hints: definitions.map((definition) => ({ definition })),
    partition,
    role: 'aggregated',
    blockSize: 16,
    clock: ports.clock ?? new ManualClock(),
    seed: 1,
    log: ports.log ?? NO_LOG,
    ...(ports.metrics ? { metrics: ports.metrics } : {}),
    fleet: fleetOf(advertised),
  });
  const stage = runtime.hintStage;
  if (stage === null) throw new Error('no stage');
  return stage;
}

const action = (n: number): HintAction => ({ type: 'acme.mark', version: '1.0', payload: { n } });
const actions = (count: number): HintAction[] => Array.from({ length: count }, (_, n) => action(n));

/** A policy that answers what `build` returns, whatever it is. */
function policy(
  type: string,
  build: (context: never) => unknown,
  declared?: readonly string[],
): HintPolicyDefinition {
  return defineHintPolicy({
    type,
    ...(declared ? { actions: declared } : {}),
    create: () => ({ buildHints: build as () => HintAction[] }),
  });
}

const sends = (type: string, count: number): HintPolicyDefinition => policy(type, () => actions(count));
const ids = (result: HintStageResult): string[] => (result.hint?.actions ?? []).map((one) => one.action_id);
const upTo = (count: number): string[] => Array.from({ length: count }, (_, at) => `a${at + 1}`);
const outcomes = (result: HintStageResult): string[] =>
  result.policies.map(({ name, result: what, reason }) => [name, what, reason].filter(Boolean).join(' '));

describe('a stage without policies', () => {
  it('is idle and says only whether the rank takes hints', async () => {
    const stage = await stageOf([]);
    expect(stage.idle).toBe(true);
    expect(stage.run(booking())).toEqual({
      hint: null,
      capable: true,
      policies: [],
      actionPolicies: [],
      commit: null,
    });
    expect((await stageOf([sends('one', 1)])).idle).toBe(false);
  });

  it('hands a caller’s envelope on, and says that nobody sends a commit', async () => {
    const stage = await stageOf([]);
    const incomingHint = (await stageOf([sends('one', 1)])).run(booking()).hint;
    expect(stage.run(booking({ incomingHint })).hint?.actions).toHaveLength(1);
    const commit = { sourceSlot: 1, prefixBlocks: 4, additionalBlocks: 4, stopOnFailure: false };
    expect(stage.run(booking({ commit })).commit?.failure).toBe('no_sender');
  });
});

describe('the envelope', () => {
  it('carries numbered actions in list order under the request’s id', async () => {
    const stage = await stageOf([sends('one', 1), sends('two', 2)]);
    const result = stage.run(booking());
    const entry = { action_type: 'acme.mark', action_version: '1.0' };
    expect(result).toEqual({
      hint: {
        protocol_version: '0.1',
        message_id: 'req-1',
        actions: [
          { action_id: 'a1', ...entry, payload: { n: 0 } },
          { action_id: 'a2', ...entry, payload: { n: 0 } },
          { action_id: 'a3', ...entry, payload: { n: 1 } },
        ],
      },
      commit: null,
      capable: true,
      policies: [
        { name: 'one', result: 'sent', actions: 1, us: 0 },
        { name: 'two', result: 'sent', actions: 2, us: 0 },
      ],
      actionPolicies: ['one', 'two', 'two'],
    });
  });

  it('does not exist without actions', async () => {
    const result = (await stageOf([sends('none', 0)])).run(booking());
    expect(result.hint).toBeNull();
    expect(outcomes(result)).toEqual(['none nothing']);
  });

  it('holds at most 4 MiB of payloads: who comes too late with too much is dropped, who fits is not', async () => {
    // With its key and quotes exactly one.
    const mebibyte = 'x'.repeat(2 ** 20 - 8);
    const megabytes = (type: string, count: number) =>
      policy(type, () => Array.from({ length: count }, () => ({ ...action(0), payload: { t: mebibyte } })));
    const stage = await stageOf([
      megabytes('three', 3),
      megabytes('two', 2),
      megabytes('one', 1),
      sends('none-left', 1),
    ]);
    const result = stage.run(booking());
    expect(outcomes(result)).toEqual([
      'three sent',
      'two dropped no_room',
      'one sent',
      'none-left dropped no_room',
    ]);
    expect(ids(result)).toEqual(upTo(4));
  });

  it.each<[string, readonly number[], readonly string[], number]>([
    ['32 fit', [32], ['p0 sent'], 32],
    ['33 do not', [33], ['p0 dropped no_room'], 0],
    ['20 + 20: the second is dropped', [20, 20], ['p0 sent', 'p1 dropped no_room'], 20],
    [
      '20 + 13 + 12: the second is dropped, the third kept',
      [20, 13, 12],
      ['p0 sent', 'p1 dropped no_room', 'p2 sent'],
      32,
    ],
  ])('takes policies whole or not at all: %s', async (_, counts, expected, total) => {
    const stage = await stageOf(counts.map((count, at) => sends(`p${at}`, count)));
    const result = stage.run(booking());
    expect(outcomes(result)).toEqual(expected);
    expect(ids(result)).toEqual(upTo(total));
  });

  it('is out of the policy’s hands once it returned', async () => {
    const kept: { hashes: BigUint64Array; list: HintAction[] } = { hashes: BigUint64Array.of(5n), list: [] };
    kept.list = [{ type: 'acme.mark', version: '1.0', payload: { block_hashes: kept.hashes } }];
    const stage = await stageOf([policy('keeper', () => kept.list)]);
    const { hint } = stage.run(booking());
    kept.hashes[0] = 6n;
    kept.list.length = 0;
    expect(hint?.actions[0]?.payload).toEqual({ block_hashes: BigUint64Array.of(5n) });
    expect(hint?.actions).toHaveLength(1);
  });
});

describe('the capability gate', () => {
  it('runs no policy for a rank that takes no hints, or is not known', async () => {
    let ran = 0;
    const counting = policy('counting', () => {
      ran += 1;
      return actions(1);
    });
    const deaf = await stageOf([counting], { routerHint: false });
    const nothing = { hint: null, capable: false, policies: [], actionPolicies: [] };
    expect(deaf.run(booking({ incomingHint: incoming(1) }))).toEqual(nothing);
    const open = await stageOf([counting]);
    expect(open.run(booking({ rank: 4 }))).toEqual(nothing);
    expect(ran).toBe(0);
  });

  it('drops an output with any action the rank does not accept, or the policy did not declare', async () => {
    const mixed = () => [action(0), { type: 'kv.fetch', version: '1.0', payload: {} }];
    const stage = await stageOf(
      [
        policy('mixed', mixed),
        policy('narrow', mixed, ['acme.mark@1.0']),
        policy('good', () => actions(1), ['acme.mark@1.0']),
      ],
      { actions: ['acme.mark@1.0'] },
    );
    const result = stage.run(booking());
    expect(outcomes(result)).toEqual([
      'mixed dropped unsupported_action',
      'narrow dropped undeclared_action',
      'good sent',
    ]);
    expect(ids(result)).toEqual(['a1']);
  });

  it('sends everything to a rank that advertises no list', async () => {
    const odd = policy('odd', () => [{ type: 'x.y', version: '9', payload: {} }]);
    expect(ids((await stageOf([odd])).run(booking()))).toEqual(['a1']);
  });
});

describe('a policy that misbehaves loses its own actions only', () => {
  it.each<[string, () => unknown, string]>([
    [
      'throws',
      () => {
        throw new Error('boom');
      },
      'threw',
    ],
    [
      'throws what has no text',
      () => {
        throw Object.create(null);
      },
      'threw',
    ],
    [
      'throws an error whose message throws',
      () => {
        throw Object.defineProperty(new Error(), 'message', {
          get() {
            throw new Error('no');
          },
        });
      },
      'threw',
    ],
    ['returns a promise', async () => actions(1), 'promise'],
    ['returns nothing', () => undefined, 'malformed'],
  ])('when it %s', async (_, build, reason) => {
    const stage = await stageOf([sends('before', 1), policy('bad', build), sends('after', 2)]);
    const result = stage.run(booking());
    expect(outcomes(result)).toEqual(['before sent', `bad dropped ${reason}`, 'after sent']);
    expect(ids(result)).toEqual(['a1', 'a2', 'a3']);
    expect(result.actionPolicies).toEqual(['before', 'after', 'after']);
    expect(result.policies[1]?.error_code).toBe(reason === 'threw' ? 'PM_PLUGIN_THREW' : undefined);
  });

  it('is counted by reason every time and logged once', async () => {
    const counted: [string, MetricLabels | undefined, number | undefined][] = [];
    const lines: LogFields[] = [];
    const metrics: Metrics = {
      count: (...call) => void counted.push([call[0], call[1], call[2]]),
      observe() {},
      gauge() {},
    };
    const log = { ...NO_LOG, warn: (_: string, fields?: LogFields) => void lines.push(fields ?? {}) };
    const bomb = policy('bomb', () => {
      throw new Error('boom');
    });
    const stage = await stageOf([bomb, sends('good', 2)], {}, { metrics, log });
    stage.run(booking());
    stage.run(booking());
    const dropped = ['pointsman_hint_outputs_dropped_total', { policy: 'bomb', reason: 'threw' }, undefined];
    const sent = ['pointsman_hint_actions_total', { policy: 'good' }, 2];
    expect(counted).toEqual([dropped, sent, dropped, sent]);
    expect(lines).toEqual([{ policy: 'bomb', reason: 'threw', error: 'boom' }]);
  });

  it('is logged with the action that was refused and the set it is not in, without its payload', async () => {
    const lines: LogFields[] = [];
    const log = { ...NO_LOG, warn: (_: string, fields?: LogFields) => void lines.push(fields ?? {}) };
    const mixed = () => [action(0), { type: 'acme.pin', version: '1.0', payload: { secret: 'prompt' } }];
    const names = Array.from({ length: 20 }, (_, n) => `acme.a${n}@1.0`);
    const narrow = policy('narrow', mixed, ['acme.mark@1.0']);
    const stage = await stageOf(
      [policy('mixed', mixed), narrow],
      { actions: ['acme.mark@1.0', ...names] },
      { log },
    );
    const picky = await stageOf([policy('mixed', mixed)], { actions: [] }, { log });
    stage.run(booking());
    picky.run(booking({ incomingHint: incoming(1) }));
    const accepted = `acme.mark@1.0, ${names.slice(0, 15).join(', ')} and 5 more`;
    const unsupported = { policy: 'mixed', reason: 'unsupported_action' };
    expect(lines).toEqual([
      { ...unsupported, error: `action acme.pin@1.0; the rank accepts ${accepted}` },
      {
        policy: 'narrow',
        reason: 'undeclared_action',
        error: 'action acme.pin@1.0; the policy declares acme.mark@1.0',
      },
      { ...unsupported, policy: 'incoming', error: 'action acme.mark@1.0; the rank accepts none' },
      { ...unsupported, error: 'action acme.mark@1.0; the rank accepts none' },
    ]);
  });
});

const incoming = (count: number): KvHint => ({
  protocol_version: '0.1',
  message_id: 'from-caller',
  actions: actions(count).map(({ type, version, payload }, at) => ({
    action_id: `x${at}`,
    action_type: type,
    action_version: version,
    payload,
  })),
});

describe('a trusted caller’s envelope', () => {
  it('comes first, is renumbered, counts toward the cap and keeps its message id', async () => {
    const stage = await stageOf([sends('big', 13), sends('small', 12)]);
    const result = stage.run(booking({ incomingHint: incoming(20) }));
    expect(outcomes(result)).toEqual(['incoming sent', 'big dropped no_room', 'small sent']);
    expect(ids(result)).toEqual(upTo(32));
    expect(result.hint?.message_id).toBe('from-caller');
    expect(result.actionPolicies[0]).toBe('incoming');
    expect(result.actionPolicies[31]).toBe('small');
  });

  it('is sent even where no policy runs, and dropped where the rank does not accept it', async () => {
    const alone = await stageOf([]);
    expect(ids(alone.run(booking({ incomingHint: incoming(2) })))).toEqual(['a1', 'a2']);
    const picky = await stageOf([], { actions: ['kv.fetch@1.0'] });
    const result = picky.run(booking({ incomingHint: incoming(2) }));
    expect(result.hint).toBeNull();
    expect(outcomes(result)).toEqual(['incoming dropped unsupported_action']);
  });
});

describe('the context', () => {
  it('holds the base facts, frozen, and of the inputs only the declared ones', async () => {
    const seen: object[] = [];
    const look = (type: string, inputs: readonly ('cache' | 'load' | 'kv-copy-locations')[]) =>
      defineHintPolicy({
        type,
        inputs,
        create: () => ({
          buildHints(context) {
            seen.push(context);
            return [];
          },
        }),
      });
    const table = createCandidateTable(2);
    table.count = 2;
    table.hasTierMatches = true;
    table.deviceBlocks.set([1, 4]);
    table.loadAvailable.set([1, 1]);
    table.activeRequests.set([9, 2]);
    const stage = await stageOf(
      [look('bare', []), look('both', ['cache', 'load']), look('copies', ['kv-copy-locations'])],
      {
        actions: ['a@1'],
      },
    );
    stage.run(booking({ selected: { table, row: 1 } }));
    const base = {
      requestId: 'req-1',
      worker: { workerId: 7n, rank: 3 },
      role: 'aggregated',
      partition,
      promptTokens: 100,
      blockSize: 16,
      session: null,
      capabilities: new Set(['a@1']),
    };
    expect(seen[0]).toEqual(base);
    expect(seen[1]).toEqual({
      ...base,
      cache: {
        effectiveOverlapBlocks: 0,
        cachedTokens: 0,
        deviceBlocks: 4,
        hostBlocks: 0,
        diskBlocks: 0,
        hasTierMatches: true,
      },
      load: { available: 1, activePrefillTokens: 0, decodeCostBlocks: 0, activeRequests: 2 },
    });
    expect(Object.keys(seen[2]!)).toEqual([...Object.keys(base), 'copyLocations']);
    expect(seen.every(Object.isFrozen)).toBe(true);
  });

  it('tells the time each policy took, in microseconds of the injected clock', async () => {
    const clock = new ManualClock(1000);
    const slow = policy('slow', () => {
      clock.advanceTo(clock.now() + 2.5);
      return [];
    });
    const result = (await stageOf([slow], {}, { clock })).run(booking());
    expect(result.policies[0]?.us).toBe(2500);
  });
});

it('says of a policy without actions that it found no copy, where that was its last question', async () => {
  const asks = (type: string, ask: boolean): HintPolicyDefinition =>
    defineHintPolicy({
      type,
      inputs: ['kv-copy-locations'],
      create: () => ({
        buildHints({ copyLocations }) {
          if (ask) copyLocations.bestSource(1);
          return [];
        },
      }),
    });
  const stage = await stageOf([asks('asks', true), asks('does-not', false), sends('none', 0)]);
  expect(outcomes(stage.run(booking()))).toEqual([
    'asks nothing no_copy_source',
    'does-not nothing',
    'none nothing',
  ]);
});
