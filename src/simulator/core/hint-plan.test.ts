import { describe, expect, it } from 'vitest';
import { SimulatorLog } from '../../../tests/support/simulator-log.ts';
import { createBlockHasher } from '../../kv/index.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';
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
    expect(plan.retains).toMatchObject([{ actionId: 'a3', priority: 5, ttlMs: 1000 }]);
    expect(plan.outcomes[1]).toEqual({ action_id: 'a2', outcome: 'rejected', reason: 'unsupported' });
    expect(plan.outcomes[3]).toEqual({ action_id: 'a4', outcome: 'rejected', reason: 'unsupported' });
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
    expect(planHints(null, null)).toEqual({ messageId: '', fetch: null, retains: [], outcomes: [] });
  });
});

describe('kv.retain', () => {
  it('keeps blocks longer than later ones until its time is over, and says how many it found', () => {
    const engine = createSimulatedEngine(
      { ...DEFAULT_ENGINE_SETTINGS, blockSize: 4, kvBlocks: 8, timing: 'none' },
      { hasher: createBlockHasher() },
    );
    const log = new SimulatorLog();
    const serve = (id: string, family: number, now: number, hint: unknown = null): void => {
      const tokens = Uint32Array.from({ length: 12 }, (_, index) => family * 100 + index);
      engine.submit({ id, tokens, outputTokens: 1, sessionId: null, hint }, now);
      engine.advance(now, log);
    };
    serve('a', 1, 0);
    const kept = [...log.everStored];
    const block_hashes = [...kept.map(BigInt), 12345n];
    serve('keep', 9, 1, envelope(action('a1', 'kv.retain@1.0', { block_hashes, priority: 1, ttl_ms: 100 })));
    expect(log.outcomes.get('keep')).toEqual([
      { action_id: 'a1', outcome: 'clipped', blocks_asked: 4, blocks_done: 3 },
    ]);
    for (const family of [2, 3, 4]) serve(`other-${family}`, family, 10);
    expect(kept.every((hash) => log.resident.has(hash))).toBe(true);
    for (const family of [5, 6, 7]) serve(`late-${family}`, family, 200);
    expect(kept.some((hash) => log.resident.has(hash))).toBe(false);
  });
});
