import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeEventBatch, encodeEventBatch } from '../../events/index.ts';
import { EXECUTED_ACTIONS, planHints } from './hint-plan.ts';

function action(action_id: string, name: string, payload: unknown) {
  const [action_type, action_version] = name.split('@');
  return { action_id, action_type, action_version, payload };
}

function envelope(...actions: unknown[]) {
  return { protocol_version: '0.1', message_id: 'm', actions };
}

const fetchPayload = { source_control_endpoint: 'tcp://127.0.0.1:1', block_hashes: [1n, 2n ** 64n - 1n] };

describe('planHints', () => {
  it('plans the actions it can execute and rejects the others by name', () => {
    const plan = planHints(
      envelope(
        action('a1', 'kv.fetch@1.0', fetchPayload),
        action('a2', 'kv.move@1.0', {}),
        action('a3', 'kv.retain@1.0', { block_hashes: [7], priority: 5, ttl_ms: 1000 }),
        action('a4', 'kv.fetch@2.0', fetchPayload),
      ),
      null,
    );
    expect(plan.fetch).toMatchObject({ actionId: 'a1', blockHashes: BigUint64Array.of(1n, 2n ** 64n - 1n) });
    expect(plan.work).toMatchObject([{ kind: 'retain', actionId: 'a3', priority: 5, ttlMs: 1000 }]);
    expect(plan.outcomes[1]).toEqual({ action_id: 'a2', outcome: 'rejected', reason: 'unsupported' });
    expect(plan.outcomes[3]).toEqual({ action_id: 'a4', outcome: 'rejected', reason: 'unsupported' });
  });

  it('takes no ids that events could not repeat', () => {
    const [longest, longer] = ['\u{ffff}'.repeat(256), 'x'.repeat(257)];
    const hint = envelope(
      action(longest, 'kv.prefetch@1.0', { block_hashes: [] }),
      action(longer, 'kv.prefetch@1.0', { block_hashes: [] }),
    );
    const plan = planHints({ ...hint, message_id: longest }, null);
    expect([plan.messageId, plan.work.map(({ actionId }) => actionId)]).toEqual([longest, [longest]]);
    expect(plan.outcomes[1]).toEqual({ action_id: '', outcome: 'rejected', reason: 'malformed' });
    expect(planHints({ ...hint, message_id: longer }, null)).toMatchObject({ messageId: '', work: [] });
    const told = { kind: 'hint-outcome', messageId: longest, actionId: longest } as const;
    const events = [{ ...told, outcome: 'accepted', reason: null, blocks: 1 } as const];
    expect(decodeEventBatch(encodeEventBatch({ timestamp: 0, events, rank: 0 })).events).toEqual(events);
  });

  it('acts on the first fetch only', () => {
    const plan = planHints(
      envelope(action('a1', 'kv.fetch@1.0', fetchPayload), action('a2', 'kv.fetch@1.0', fetchPayload)),
      EXECUTED_ACTIONS,
    );
    expect(plan.fetch?.actionId).toBe('a1');
    expect(plan.outcomes[1]).toEqual({ action_id: 'a2', outcome: 'rejected', reason: 'policy' });
  });

  it('does not execute what the engine does not advertise', () => {
    const plan = planHints(envelope(action('a1', 'kv.fetch@1.0', fetchPayload)), ['kv.retain@1.0']);
    expect(plan.fetch).toBeNull();
    expect(plan.outcomes).toEqual([{ action_id: 'a1', outcome: 'rejected', reason: 'unsupported' }]);
  });

  it('accepts what it was told to accept, without an effect, whether or not it advertises anything', () => {
    const hint = envelope(
      action('a1', 'acme.pin@1.0', { any: 'thing' }),
      action('a2', 'acme.pin@2.0', {}),
      action('a3', 'acme.pin@1.0', 'no object'),
      action('a4', 'kv.fetch@1.0', fetchPayload),
    );
    for (const advertised of [null, [...EXECUTED_ACTIONS, 'acme.pin@1.0']]) {
      const plan = planHints(hint, advertised, ['acme.pin@1.0', 'kv.fetch@1.0']);
      expect(plan.fetch?.actionId).toBe('a4');
      expect(plan.outcomes.slice(0, 3)).toEqual([
        { action_id: 'a1', outcome: 'accepted', reason: 'no_effect' },
        { action_id: 'a2', outcome: 'rejected', reason: 'unsupported' },
        { action_id: 'a3', outcome: 'rejected', reason: 'malformed' },
      ]);
    }
  });

  it('rejects malformed envelopes as a whole and malformed actions one by one', () => {
    const whole = [7, [], {}, { ...envelope(), protocol_version: '0.2' }, { ...envelope(), actions: 1 }];
    for (const hint of [
      ...whole,
      envelope(...new Array(33).fill(action('a', 'kv.fetch@1.0', fetchPayload))),
    ]) {
      expect(planHints(hint, null).outcomes).toEqual([
        { action_id: '', outcome: 'rejected', reason: 'malformed' },
      ]);
    }
    const broken = [
      null,
      action('a1', 'kv.fetch@1.0', null),
      action('a1', 'kv.fetch@1.0', { block_hashes: [1n] }),
      action('a1', 'kv.fetch@1.0', { ...fetchPayload, block_hashes: [-1n] }),
      action('a1', 'kv.fetch@1.0', { ...fetchPayload, block_hashes: [2 ** 60] }),
      action('a1', 'kv.fetch@1.0', { ...fetchPayload, block_hashes: ['1'] }),
      action('a1', 'kv.retain@1.0', { block_hashes: [1n], priority: 101, ttl_ms: 1 }),
      action('a1', 'kv.retain@1.0', { block_hashes: [1n], priority: 1, ttl_ms: 0 }),
    ];
    for (const one of broken) {
      const plan = planHints(envelope(one, action('a2', 'kv.fetch@1.0', fetchPayload)), null);
      expect(plan.outcomes[0]).toMatchObject({ outcome: 'rejected', reason: 'malformed' });
      expect(plan.fetch?.actionId).toBe('a2');
    }
  });

  it('has no outcomes without a hint', () => {
    expect(planHints(null, null)).toEqual({ messageId: '', fetch: null, work: [], outcomes: [] });
  });
});

describe('payloads', () => {
  const [directive] = [{ priority: 3 }];
  const read = (name: string, payload: unknown) => {
    const plan = planHints(envelope(action('a1', name, payload)), null);
    return plan.outcomes[0]?.reason === 'malformed' ? 'malformed' : (plan.work[0] ?? plan.fetch);
  };
  const most = (count: number) => new BigUint64Array(count);

  it('are read with their defaults', () => {
    expect(read('kv.evict@1.0', { block_hashes: [1] })).toMatchObject({
      ...{ kind: 'evict', tier: 'all', executeAt: 'admission', ownFrom: null },
    });
    const later = { block_hashes: [], execute_at: 'request_completion', current_request_block_start: 3 };
    expect(read('kv.evict@1.0', { ...later, tier: 'device' })).toMatchObject({
      ...{ tier: 'device', executeAt: 'request_completion', ownFrom: 3 },
    });
    expect(read('kv.prefetch@1.0', { block_hashes: [1, 2] })).toMatchObject({ kind: 'prefetch' });
    const directives = [
      { end: 64, priority: 90 },
      { start: 64, priority: 50, duration: 2.5 },
      { covers_output: true, priority: 0, duration: null },
    ];
    expect(read('kv.retain@1.1', { scope: 's', directives })).toMatchObject({
      kind: 'retain-ranges',
      scope: 's',
      directives: [
        { start: 0, end: 64, priority: 90, ttlMs: null },
        { start: 64, end: null, priority: 50, ttlMs: 2500 },
        { start: null, end: null, priority: 0, ttlMs: null },
      ],
    });
  });

  it.each([
    ['kv.evict@1.0', { block_hashes: [1], tier: 'host' }],
    ['kv.evict@1.0', { block_hashes: [1], execute_at: 'never' }],
    ['kv.evict@1.0', { block_hashes: [1], current_request_block_start: 3 }],
    [
      'kv.evict@1.0',
      { block_hashes: [1], execute_at: 'request_completion', current_request_block_start: -1 },
    ],
    ['kv.evict@1.0', { block_hashes: most(65_537) }],
    ['kv.evict@1.0', {}],
    ['kv.prefetch@1.0', { block_hashes: most(4097) }],
    ['kv.retain@1.0', { block_hashes: most(65_537), priority: 1, ttl_ms: 1 }],
    ['kv.retain@1.0', { block_hashes: [1], priority: 1, ttl_ms: 86_400_001 }],
    ['kv.retain@1.1', { directives: [] }],
    ['kv.retain@1.1', { directives: new Array(129).fill(directive) }],
    ['kv.retain@1.1', { directives: [directive], more: 1 }],
    ['kv.retain@1.1', { directives: [directive], scope: 7 }],
    ['kv.retain@1.1', { directives: [{ ...directive, more: 1 }] }],
    ['kv.retain@1.1', { directives: [{ priority: 101 }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, start: 5, end: 5 }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, duration: 2_592_001 }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, duration: Number.NaN }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, covers_output: true, start: 0 }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, covers_output: true, end: null }] }],
    ['kv.retain@1.1', { directives: [{ priority: 1, covers_output: false }] }],
    [
      'kv.retain@1.1',
      {
        directives: [
          { start: 10, priority: 2 },
          { end: 10, priority: 1 },
        ],
      },
    ],
    [
      'kv.retain@1.1',
      {
        directives: [
          { covers_output: true, priority: 2 },
          { end: 10, priority: 1 },
        ],
      },
    ],
  ])('%s is refused: case %#', (name, payload) => {
    expect(read(name, payload)).toBe('malformed');
  });

  it('are taken at their limits', () => {
    for (const [name, payload] of [
      ['kv.evict@1.0', { block_hashes: most(65_536) }],
      ['kv.prefetch@1.0', { block_hashes: most(4096) }],
      ['kv.retain@1.0', { block_hashes: most(65_536), priority: 100, ttl_ms: 86_400_000 }],
      [
        'kv.retain@1.1',
        { directives: new Array(128).fill({ priority: 100, duration: 2_592_000 }), scope: 's'.repeat(256) },
      ],
    ] as const) {
      expect(read(name, payload)).toMatchObject({ actionId: 'a1' });
    }
  });

  it('of token ranges share a scope within an envelope, and have bounds together', () => {
    const ranges = (id: string, scope: string | null, count = 1) =>
      action(id, 'kv.retain@1.1', { scope, directives: new Array(count).fill(directive) });
    const reasons = (...actions: unknown[]) =>
      planHints(envelope(...actions), null).outcomes.map(({ reason }) => reason === 'malformed');
    expect(reasons(ranges('a1', 's'), ranges('a2', 't'), ranges('a3', 's'))).toEqual([false, true, false]);
    expect(reasons(ranges('a1', null, 100), ranges('a2', null, 29), ranges('a3', null, 28))).toEqual([
      ...[false, true, false],
    ]);
    const many = Array.from({ length: 17 }, (_, index) => ranges(`a${index}`, null));
    expect(reasons(...many).map((refused, index) => refused === index >= 16)).not.toContain(false);
  });

  it('never break the engine, whatever they hold', () => {
    const value = fc.letrec((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom(null, true, -1, 0, 1, 2 ** 53, 1.5, Number.NaN, '', 's', 1n, -1n, 2n ** 64n),
        fc.array(tie('node'), { maxLength: 4 }),
        fc.dictionary(
          fc.constantFrom(
            ...['block_hashes', 'priority', 'ttl_ms', 'tier', 'execute_at', 'directives', 'start', 'end'],
            ...['scope', 'duration', 'covers_output', 'current_request_block_start', '__proto__'],
          ),
          tie('node'),
          { maxKeys: 5 },
        ),
      ),
    })).node;
    const actions = fc.array(fc.tuple(fc.constantFrom(...EXECUTED_ACTIONS, 'constructor@1'), value), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(actions, (list) => {
        const hint = envelope(...list.map(([name, payload], index) => action(`a${index}`, name, payload)));
        const plan = planHints(hint, null);
        expect(plan.outcomes.length).toBe(list.length);
        for (const { outcome, reason } of plan.outcomes) {
          expect([outcome, ['malformed', 'no_room', 'policy', 'unsupported'].includes(reason!)]).toEqual([
            ...['rejected', true],
          ]);
        }
        for (const { position } of plan.work) expect(plan.outcomes[position]?.reason).toBe('no_room');
      }),
      { numRuns: 500 },
    );
  });
});
