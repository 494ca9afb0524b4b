import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHintPolicy, type HintAction } from '../plugin/index.ts';
import { testHintPolicy } from './index.ts';

const mark = defineHintPolicy({
  type: 'mark',
  parameters: z.strictObject({ copies: z.int().min(0).default(1) }),
  actions: ['acme.mark@1.0'],
  create: ({ parameters }) => ({
    buildHints: ({ promptTokens, session, worker }) =>
      Array.from({ length: parameters.copies }, (): HintAction => {
        const payload = {
          tokens: promptTokens,
          session: session?.sessionId ?? null,
          worker: worker.workerId,
        };
        return { type: 'acme.mark', version: '1.0', payload };
      }),
  }),
});

describe('testHintPolicy', () => {
  it('gives the actions as they would be sent', async () => {
    const session = { sessionId: 's', agentHeaders: {} };
    const { actions, dropped, ran } = await testHintPolicy(mark, {
      parameters: { copies: 2 },
      context: { promptTokens: 100, session, worker: { workerId: 9n, rank: 1 } },
    });
    const payload = { tokens: 100, session: 's', worker: 9n };
    const entry = { action_type: 'acme.mark', action_version: '1.0', payload };
    expect(actions).toEqual([
      { action_id: 'a1', ...entry },
      { action_id: 'a2', ...entry },
    ]);
    expect([dropped, ran]).toEqual([null, true]);
  });

  it('says why an output would be dropped', async () => {
    const tooMany = await testHintPolicy(mark, { parameters: { copies: 33 } });
    expect(tooMany).toEqual({ actions: [], dropped: 'no_room', error: null, ran: true });
    const unsupported = await testHintPolicy(mark, { context: { capabilities: ['kv.fetch@1.0'] } });
    expect(unsupported.dropped).toBe('unsupported_action');
  });

  it('says what the policy threw', async () => {
    const slip = defineHintPolicy({
      type: 'slip',
      create: () => ({
        buildHints() {
          throw new Error('no such block');
        },
      }),
    });
    const result = await testHintPolicy(slip);
    expect(result).toEqual({ actions: [], dropped: 'threw', error: 'no such block', ran: true });
  });

  it('does not run the policy for a rank that takes no hints', async () => {
    const result = await testHintPolicy(mark, { context: { routerHint: false } });
    expect(result).toEqual({ actions: [], dropped: null, error: null, ran: false });
  });

  it('refuses parameters as a start would', async () => {
    await expect(testHintPolicy(mark, { parameters: { copis: 2 } })).rejects.toThrow(
      'mark: parameters.copis: unknown key "copis" (did you mean "copies"?)',
    );
  });
});
