import { describe, expect, it } from 'vitest';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreEachWorker,
} from '../plugin/index.ts';
import { conversationTrace, replayTrial } from './index.ts';

const fetchAny = defineHintPolicy({
  type: 'fetch-any',
  inputs: ['kv-copy-locations'],
  create: () => ({
    buildHints({ copyLocations }) {
      const copy = copyLocations.bestSource(1);
      if (copy === null) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});

const lowestId = defineWorkerSelectionPolicy({
  type: 'lowest-id',
  create: ({ rng }) => ({
    scorers: [scoreEachWorker({ cost: ({ workerId }) => Number(workerId) })],
    picker: pickLowestCost(rng),
  }),
});

/** Sends an action of its own for requests of child sessions. */
const pinChildren = defineHintPolicy({
  type: 'pin-children',
  actions: ['acme.pin@1.0'],
  create: () => ({
    buildHints: ({ session }) =>
      session?.parentSessionId === undefined
        ? []
        : [{ type: 'acme.pin', version: '1.0', payload: { parent: session.parentSessionId } }],
  }),
});

describe('replayTrial', () => {
  it('shows policies the sessions of the trace, and sends what the engines are told to accept', async () => {
    const trace = conversationTrace({ conversations: 2, turns: 2 }).map((row) =>
      row.session_id === 'conversation-2'
        ? { ...row, session_context: { session_id: 'child', parent_session_id: 'conversation-1' } }
        : row,
    );
    const trial = { hints: [{ definition: pinChildren }], trace };
    const { decisions, faults, warnings } = await replayTrial({ ...trial, acceptActions: ['acme.pin@1.0'] });
    expect([faults, warnings]).toEqual([[], []]);
    const action = { type: 'acme.pin@1.0', policy: 'pin-children', outcome: 'accepted', reason: 'no_effect' };
    for (const { actions, request } of decisions) {
      const isChild = trace[request]?.session_id === 'conversation-2';
      expect(actions).toEqual(isChild ? [{ ...action, blocksDone: null }] : []);
    }
    const refused = await replayTrial(trial);
    expect(refused.faults).toEqual([
      { policy: 'pin-children', lost: 'actions', reason: 'unsupported_action', count: 2 },
    ]);
    expect(refused.warnings.join()).toContain(
      'action acme.pin@1.0; the rank accepts kv.fetch@1.0, kv.retain@1.0',
    );
    await expect(replayTrial({ ...trial, acceptActions: ['pin'] })).rejects.toThrow(
      'cannot accept the action "pin"; it must look like acme.pin@1.0',
    );
  });

  it('runs a hint policy in front of simulated engines, which carry its actions out', async () => {
    const trial = { selection: 'round-robin', trace: conversationTrace({ conversations: 6 }) };
    const { decisions, faults, warnings, ...rest } = await replayTrial({
      ...trial,
      hints: [{ definition: fetchAny }],
    });
    expect([faults, warnings]).toEqual([[], []]);
    expect(rest.completed).toBe(30);
    const fetches = decisions.flatMap(({ actions }) => actions);
    expect(new Set(fetches.map(({ policy, type }) => `${policy} ${type}`))).toEqual(
      new Set(['fetch-any kv.fetch@1.0']),
    );
    expect(fetches.some(({ blocksDone, outcome }) => outcome === 'accepted' && (blocksDone ?? 0) > 0)).toBe(
      true,
    );
    expect(rest.hitRate).toBeGreaterThan((await replayTrial({ ...trial, hints: [] })).hitRate);
  });

  it('shows what each worker cost, and whom it chose', async () => {
    const { decisions, requestsPerWorker } = await replayTrial({
      selection: { definition: lowestId },
      trace: [{ timestamp: 5, input_length: 600, output_length: 2, hash_ids: [1, 2] }],
      workers: 3,
    });
    expect(decisions).toEqual([
      {
        request: 0,
        workerId: 1n,
        rank: 0,
        promptTokens: 600,
        costs: [
          { workerId: 1n, cost: 1 },
          { workerId: 2n, cost: 2 },
          { workerId: 3n, cost: 3 },
        ],
        predictedTokens: null,
        cachedTokens: 0,
        actions: [],
        ttftMs: expect.any(Number),
      },
    ]);
    expect(requestsPerWorker).toEqual([1, 0, 0]);
  });

  it('gives the same result for the same input, and runs the default hints of a built-in policy', async () => {
    const once = await replayTrial({ selection: 'kvcr', kvBlocks: 200, speedup: 4 });
    expect(once).toEqual(await replayTrial({ selection: 'kvcr', kvBlocks: 200, speedup: 4 }));
    expect(once.decisions.length).toBe(80);
  });

  it('counts what a policy does wrong and says what it threw', async () => {
    const slip = defineHintPolicy({
      type: 'slip',
      create: () => ({
        buildHints() {
          throw new Error('no such block');
        },
      }),
    });
    const { faults, warnings } = await replayTrial({
      hints: [{ definition: slip }],
      trace: conversationTrace({ conversations: 2, turns: 1 }),
    });
    expect(faults).toEqual([{ policy: 'slip', lost: 'actions', reason: 'threw', count: 2 }]);
    expect(warnings.join()).toContain('no such block');
  });

  it('refuses what a start would, and a row that is no request', async () => {
    await expect(
      replayTrial({ selection: { definition: lowestId, parameters: { weight: 1 } } }),
    ).rejects.toThrow('unknown key "weight"');
    await expect(
      replayTrial({ trace: [{ timestamp: 0, input_length: 600, output_length: 1, hash_ids: [1] }] }),
    ).rejects.toThrow('hash_ids has 1 entries, but input_length 600 makes 2 blocks');
    const slip: object = { sessionId: 's' };
    await expect(
      replayTrial({
        trace: [{ timestamp: 0, input_length: 5, output_length: 1, hash_ids: [1], ...slip }],
      }),
    ).rejects.toThrow('a row has no field "sessionId" (did you mean "session_id"?)');
    await expect(replayTrial({ trace: [] })).rejects.toThrow('a trace has at least one request');
  });
});

describe('conversationTrace', () => {
  it('makes turns that hold all of the conversation before them', () => {
    const trace = conversationTrace({ conversations: 2, turns: 2, systemBlocks: 1, turnBlocks: 1, seed: 7 });
    expect(trace.map(({ hash_ids: ids }) => ids.length).sort()).toEqual([2, 2, 3, 3]);
    expect(new Set(trace.map(({ hash_ids: ids }) => ids[0]))).toEqual(new Set([0]));
    expect(trace.map(({ timestamp }) => timestamp)).toEqual(
      trace.map(({ timestamp }) => timestamp).toSorted((a, b) => a - b),
    );
    expect(trace).toEqual(
      conversationTrace({ conversations: 2, turns: 2, systemBlocks: 1, turnBlocks: 1, seed: 7 }),
    );
  });
});
