import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHintPolicy, type HintAction } from '../plugin/index.ts';
import { openHintPolicy, type TrialBooking, testHintPolicy } from './index.ts';

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
    const session = { sessionId: 's' };
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
    const error = '33 actions; the envelope takes 32 more';
    expect(tooMany).toEqual({ actions: [], dropped: 'no_room', error, ran: true });
    const unsupported = await testHintPolicy(mark, { context: { capabilities: ['kv.fetch@1.0'] } });
    expect(unsupported.dropped).toBe('unsupported_action');
    expect(unsupported.error).toBe('action acme.mark@1.0; the rank accepts kv.fetch@1.0');
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

  it('names the input that the policy reads and does not declare', async () => {
    const forgot = defineHintPolicy({
      type: 'forgot',
      // @ts-expect-error it is not declared
      create: () => ({ buildHints: ({ load }) => (load.activeRequests > 0 ? [] : []) }),
    });
    expect((await testHintPolicy(forgot)).error).toBe(
      "Cannot read properties of undefined (reading 'activeRequests'); load is there only for those who list 'load' under inputs",
    );
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

it('shows the policy the cache and the load of the booked rank', async () => {
  const seen = defineHintPolicy({
    type: 'seen',
    inputs: ['cache', 'load'],
    create: () => ({
      buildHints: ({ cache, load }) => [
        {
          type: 'acme.seen',
          version: '1.0',
          payload: { device: cache.deviceBlocks, queue: load.activePrefillTokens, known: load.available },
        },
      ],
    }),
  });
  const payloads = async (context: TrialBooking) =>
    (await testHintPolicy(seen, { context })).actions.map(({ payload }) => payload);
  expect(await payloads({ cache: { deviceBlocks: 3 }, load: { activePrefillTokens: 70 } })).toEqual([
    { device: 3, queue: 70, known: 1 },
  ]);
  expect(await payloads({})).toEqual([{ device: 0, queue: 0, known: 0 }]);
});

it('books again and again with one instance, each time with a context of its own', async () => {
  const ended: string[] = [];
  const once = defineHintPolicy({
    type: 'once',
    inputs: ['kv-copy-locations'],
    create: ({ clock, partition }) => {
      const seen = new Map<string, number>();
      return {
        buildHints({ copyLocations, session, worker }) {
          const copy = copyLocations.bestSource(1);
          if (session === null) throw new Error(`no session on ${worker.workerId}`);
          if (copy === null || clock.now() - (seen.get(session.sessionId) ?? -1000) < 1000) return [];
          seen.set(session.sessionId, clock.now());
          return [{ type: 'acme.mark', version: '1.0', payload: { source: copy.source.workerId } }];
        },
        dispose: () => void ended.push(`${partition?.model} ${seen.size}`),
      };
    },
  });
  const source = (workerId: bigint) => [{ source: { workerId, rank: 0 }, blockHashes: [1n, 2n] }];
  const { book, clock, dispose } = await openHintPolicy(once, {
    context: { partition: { model: 'tiny', routingGroup: 'default' }, copySources: source(2n) },
  });
  const a = { session: { sessionId: 'a' } };
  const sent = (context: Parameters<typeof book>[0]) => book(context).actions.map(({ payload }) => payload);
  expect(sent(a)).toEqual([{ source: 2n }]);
  expect(sent(a)).toEqual([]);
  expect(sent({ session: { sessionId: 'b' }, copySources: source(3n) })).toEqual([{ source: 3n }]);
  clock.advanceTo(1000);
  expect(sent(a)).toEqual([{ source: 2n }]);
  for (const workerId of [4n, 5n]) {
    const lost = book({ worker: { workerId, rank: 0 } });
    expect(lost).toMatchObject({ dropped: 'threw', error: `no session on ${workerId}` });
  }
  await dispose();
  expect(ended).toEqual(['tiny 2']);
});
