// What the router makes of one request that two workers serve: bookings, hints, records, constraints, and who computes its prompt.
import { describe, expect, it } from 'vitest';
import type { EngineReport, EngineRequest, EngineTransport } from '../src/engines/index.ts';
import {
  defineHintPolicy,
  defineRequestClassifier,
  defineWorkerSelectionPolicy,
  linearCost,
} from '../src/plugin/index.ts';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { type DividedFleetOptions, dividedFleet } from './support/divided-fleet.ts';
import { countedTokens } from './support/road-request.ts';

const PROMPT = countedTokens(2000);

/** A fleet whose requests to engines are kept. */
async function observed(options: Partial<DividedFleetOptions> = {}) {
  const sent: EngineRequest[] = [];
  const world = await dividedFleet({
    prefill: 1,
    decode: 1,
    ...options,
    transport: (engines) => {
      const inner = options.transport?.(engines) ?? engines;
      return {
        dispatch(request, sink) {
          sent.push(request);
          return inner.dispatch(request, sink);
        },
        close: () => inner.close(),
      };
    },
  });
  return { ...world, sent };
}

/** Engines whose prefill legs end as told. */
function prefillAnswers(answer: { readonly report: Partial<EngineReport>; readonly body?: string }) {
  return (engines: EngineTransport): EngineTransport => ({
    dispatch(request, sink) {
      if (request.role !== 'prefill') return engines.dispatch(request, sink);
      queueMicrotask(() => {
        sink.head(200, { 'content-type': 'application/json' }, []);
        if (answer.body !== undefined) sink.data(Buffer.from(answer.body));
        sink.finished({
          promptTokens: 2000,
          cachedTokens: 0,
          outputTokens: 1,
          finishReason: 'length',
          source: 'usage',
          ...answer.report,
        });
      });
      return { abort: () => undefined, pause: () => undefined, resume: () => undefined };
    },
    close: () => engines.close(),
  });
}

describe('the two legs of a request', () => {
  it('are one token in one piece, and the whole answer; the decode leg is sent what the prefill answered', async () => {
    const { sent, send, until, decisions } = await observed();
    const heard = send('r', PROMPT, {
      maxOutputTokens: 8,
      body: { prompt: 'x', max_tokens: 8, min_tokens: 4 },
    });
    until(() => heard.ends > 0);
    expect(heard.tokensAt).toHaveLength(8);
    const [prefill, decode] = sent;
    expect(sent).toHaveLength(2);
    expect(prefill).toMatchObject({
      requestId: 'r',
      role: 'prefill',
      stream: false,
      maxOutputTokens: 1,
      body: { prompt: 'x', max_tokens: 1 },
      handoff: { shape: 'vllm', params: { do_remote_decode: true, do_remote_prefill: false } },
    });
    expect(prefill?.body).not.toHaveProperty('min_tokens');
    expect(decode).toMatchObject({
      requestId: 'r',
      role: 'decode',
      stream: true,
      maxOutputTokens: 8,
      body: { prompt: 'x', max_tokens: 8, min_tokens: 4 },
      handoff: { shape: 'vllm', params: { do_remote_prefill: true, remote_num_tokens: 2000 } },
    });
    expect(decisions.map(({ role }) => role)).toEqual(['prefill', 'decode']);
  });

  it('are booked as what they are: prompt tokens there, all blocks here, whatever is shared or cached', async () => {
    const { send, until, decisions, router, time } = await observed();
    for (const id of ['a', 'b']) {
      const heard = send(id, PROMPT);
      until(() => heard.ends > 0);
    }
    time.runUntil(time.now() + 1);
    // A third that shares its prompt with one that decodes meanwhile.
    send('c', PROMPT, { maxOutputTokens: 400 });
    time.runUntil(time.now() + 200);
    const last = send('d', PROMPT);
    until(() => last.ends > 0);
    const ofRole = (role: string) => decisions.filter((one) => one.role === role);
    expect(ofRole('prefill').map(({ booking }) => [booking.prefill_tokens, booking.decode_blocks])).toEqual([
      [2000, 0],
      // All its blocks are cached there.
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
    for (const { booking, candidates, prediction } of ofRole('decode')) {
      expect([booking.prefill_tokens, booking.decode_blocks]).toEqual([0, 125]);
      expect(candidates[0]).toMatchObject({ overlap_blocks: { device: 0 } });
      expect(prediction).toBeNull();
    }
    await router.close();
  });

  it('are recorded both, and each names the other', async () => {
    const { send, until, router } = await observed({ handoff: 'bootstrap' });
    const heard = send('r', PROMPT);
    until(() => heard.ends > 0);
    const [prefill, decode] = router.decisions.ofRequest('r');
    expect(prefill?.handoff).toEqual({
      leg: 'prefill',
      kind: 'bootstrap',
      local: null,
      other: { decision_id: decode?.id, worker_id: 2n, dp_rank: 0 },
    });
    expect(decode?.handoff).toEqual({
      leg: 'decode',
      kind: 'bootstrap',
      local: null,
      other: { decision_id: prefill?.id, worker_id: 1n, dp_rank: 0 },
    });
    expect([prefill?.outcome?.status, decode?.outcome?.status]).toEqual([200, 200]);
    expect(prefill?.report?.output_tokens).toBe(1);
    await router.close();
  });

  it('keep both ranks: the decode engine is told of the rank that computes, and booked on its own (#9936, #5666)', async () => {
    const { sent, send, until, router } = await observed({
      handoff: 'bootstrap',
      worker: ({ id }) => (id === 1n ? { ranks: { first: 0, count: 4 } } : { ranks: { first: 0, count: 2 } }),
    });
    const pins = { pinnedPrefill: { workerId: 1n, rank: 3 }, pinnedWorker: { workerId: 2n, rank: 1 } };
    const heard = send('r', PROMPT, { constraints: { ...NO_CONSTRAINTS, ...pins } });
    until(() => heard.ends > 0);
    const [prefill, decode] = sent;
    expect([prefill?.rank, decode?.rank]).toEqual([3, 1]);
    const room = prefill?.handoff?.shape === 'sglang' ? prefill.handoff.room : -1n;
    expect(room % 4n).toBe(3n);
    expect(decode?.handoff).toEqual({ shape: 'sglang', host: 'virtual', port: 1, room, prefillRank: 3 });
    expect(router.decisions.ofRequest('r').map(({ pick }) => pick.dp_rank)).toEqual([3, 1]);
    await router.close();
  });

  it('have hints of their own role each', async () => {
    const mark = (type: string) =>
      defineHintPolicy({
        type,
        actions: [`${type}@1.0`],
        create: () => ({ buildHints: () => [{ type, version: '1.0', payload: {} }] }),
      });
    const { sent, send, until } = await observed({
      definitions: [mark('mark.prefill'), mark('mark.decode')],
      engine: { acceptedActions: ['mark.prefill@1.0', 'mark.decode@1.0'] },
      yaml: `worker_selection:
  prefill: { hints: [{ type: mark.prefill }] }
  decode: { hints: [{ type: mark.decode }] }`,
    });
    const heard = send('r', PROMPT);
    until(() => heard.ends > 0);
    expect(sent.map(({ hint }) => hint?.actions.map((action) => action.action_type))).toEqual([
      ['mark.prefill'],
      ['mark.decode'],
    ]);
    expect(sent.map(({ hint }) => hint?.message_id)).toEqual(['r/prefill', 'r']);
  });

  it('are classified once, before the prompt is computed', async () => {
    const log: string[] = [];
    const classifier = defineRequestClassifier({
      type: 'counting',
      create: () => ({
        classify: async ({ requestId }) => {
          log.push(`classify ${requestId}`);
          return {};
        },
        onEvent: ({ kind }) => void log.push(kind),
      }),
    });
    const { sent, send, time } = await observed({
      definitions: [classifier],
      yaml: 'request_classifier: counting',
    });
    const heard = send('r', PROMPT);
    expect(sent).toHaveLength(0);
    for (let turn = 0; turn < 10 && heard.ends === 0; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      time.runUntil(time.now() + 1000);
    }
    expect(heard.ends).toBe(1);
    expect(sent).toHaveLength(2);
    expect(log.filter((line) => line.startsWith('classify'))).toEqual(['classify r']);
  });
});

describe('a prefill that ends the request', () => {
  it('is the whole answer, without a word of the handoff', async () => {
    const body = '{"id":"x","choices":[{"index":0,"text":"!","finish_reason":"stop"}]}';
    const { send, held, router, decisions } = await observed({
      transport: prefillAnswers({ report: { finishReason: 'stop' }, body }),
    });
    const heard = send('r', PROMPT);
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard.report).toMatchObject({ finishReason: 'stop' });
    expect(decisions.map(({ role }) => role)).toEqual(['prefill']);
    expect(held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
    await router.close();
  });

  it('is an error when it does not say where the blocks are', async () => {
    const { send, held, router } = await observed({ transport: prefillAnswers({ report: {} }) });
    const heard = send('r', PROMPT);
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard.error).toMatchObject({
      code: 'PM_DISAGG_HANDOFF',
      status: 502,
      message:
        'prefill worker 1 computed the prompt and did not say where its KV lies (kv_transfer_params); is its KV connector configured?',
    });
    expect(held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
    await router.close();
  });
});

describe('a request that two workers cannot serve', () => {
  it('fails before anything is computed when it wants several answers', async () => {
    const { sent, send } = await observed();
    const heard = send('r', PROMPT, { body: { prompt: 'x', n: 2 } });
    expect(heard.error?.message).toBe(
      'n is 2, and this model is served by separate prefill and decode workers, which answer a prompt once; send n requests',
    );
    expect(sent).toEqual([]);
  });

  it('waits for no fallback that nobody configured: without prefill workers it is refused (#6678)', async () => {
    const { core, sent, send, router, time } = await observed();
    core.fleet.setState(1n, 'gone');
    const heard = send('r', PROMPT);
    expect(heard.error).toMatchObject({
      code: 'PM_DISAGG_NO_PREFILL',
      status: 503,
      message:
        'model "tiny" is served by separate prefill and decode workers, and no prefill worker is ready any more; router.decode_fallback: true lets decode workers compute prompts',
    });
    expect(sent).toEqual([]);
    // It is there again a second later.
    time.runUntil(time.now() + 2000);
    const next = send('r2', PROMPT);
    time.runUntil(time.now() + 20_000);
    expect(next.report).not.toBeNull();
    await router.close();
  });

  it('is computed by its decode worker where that is configured, and is load of prefill there', async () => {
    const { core, sent, send, until, decisions, router } = await observed({
      yaml: 'router: { decode_fallback: true }',
    });
    core.fleet.setState(1n, 'gone');
    const heard = send('r', PROMPT);
    until(() => heard.ends > 0);
    expect(heard.report).toMatchObject({ outputTokens: 4 });
    expect(sent.map(({ role, handoff }) => [role, handoff])).toEqual([['decode', null]]);
    expect(decisions[0]?.booking.prefill_tokens).toBe(2000);
    expect(decisions[0]?.handoff).toEqual({
      leg: 'decode',
      kind: null,
      local: 'no_prefill_worker',
      other: null,
    });
    await router.close();
  });

  it('is refused before its prompt is computed when no decode worker is ready', async () => {
    const { core, sent, send } = await observed();
    core.fleet.setState(2n, 'draining');
    const heard = send('r', PROMPT);
    expect(heard.error?.code).toBe('PM_SELECTION_NO_ENDPOINTS');
    expect(sent).toEqual([]);
  });

  it('is shed when every prefill worker is over its threshold, not sent anywhere else (#10631)', async () => {
    const { send, sent, time, router, held } = await observed({
      yaml: 'router: { active_prefill_tokens_threshold: 3000 }',
    });
    for (const id of ['a', 'b']) send(id, countedTokens(2000, id === 'a' ? 10_000 : 20_000));
    const shed = send('c', PROMPT);
    expect(shed.error).toMatchObject({ code: 'PM_SELECTION_OVERLOADED', status: 429 });
    expect(shed.error?.details.retry_after).toBeDefined();
    expect(sent.map(({ requestId, role }) => `${requestId} ${role}`)).toEqual(['a prefill', 'b prefill']);
    time.runUntil(time.now() + 60_000);
    expect(held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
    await router.close();
  });
});

describe('topology rules of a prefill worker', () => {
  const racks = (enforcement: 'required' | 'preferred', racksOf: Record<string, string | undefined>) =>
    observed({
      decode: 3,
      worker: ({ id }) => {
        const rack = racksOf[String(id)];
        return {
          topology: rack === undefined ? {} : { rack },
          ...(id === 1n && { kvTransfer: { domain: 'rack', enforcement, weight: 0.85 } }),
        };
      },
    });

  it('required: keep the decode leg within, also where others are idle', async () => {
    const { send, time, decisions } = await racks('required', { '1': 'r1', '2': 'r2', '3': 'r1', '4': 'r2' });
    for (let index = 0; index < 6; index += 1) send(`r${index}`, countedTokens(64, index * 100));
    time.runUntil(60_000);
    const chosen = decisions.filter(({ role }) => role === 'decode');
    expect(chosen.map(({ pick }) => pick.worker_id)).toEqual([3n, 3n, 3n, 3n, 3n, 3n]);
  });

  it.each([
    [
      'the worker does not say where it is',
      { '2': 'r1' },
      'its KV must stay within one rack, and its topology does not say which; give it topology.rack',
    ],
    [
      'no decode worker is there',
      { '1': 'r9', '2': 'r1' },
      'its KV must stay within rack r9, and no decode worker there is ready',
    ],
  ])('required: fail before the prompt is computed when %s', async (_, racksOf, why) => {
    const { send, sent, held } = await racks('required', racksOf);
    const heard = send('r', PROMPT);
    expect(heard.error).toMatchObject({
      code: 'PM_DISAGG_TOPOLOGY',
      message: `prefill worker 1 cannot be used: ${why}`,
    });
    expect(sent).toEqual([]);
    expect(held()).toEqual({ bookings: 0, blocks: 0, requests: 0 });
  });

  it('preferred: draw the decode leg there, as a taint of that weight', async () => {
    const { send, until, decisions } = await racks('preferred', {
      '1': 'r1',
      '2': 'r2',
      '3': 'r1',
      '4': 'r2',
    });
    const heard = send('r', PROMPT);
    until(() => heard.ends > 0);
    const decode = decisions.find(({ role }) => role === 'decode');
    expect(decode?.pick.worker_id).toBe(3n);
    const taintOf = (id: bigint): number | undefined => {
      const found = decode?.candidates.find((one) => one.worker_id === id);
      return found?.eligible ? found.terms?.taint : undefined;
    };
    // exp(−tanh(0.85)), as the reference has it.
    expect(taintOf(3n)).toBeCloseTo(0.50104, 5);
    expect([taintOf(2n), taintOf(4n)]).toEqual([1, 1]);
  });
});

describe('conditional disaggregation', () => {
  const conditional = 'conditional_disagg: true';

  it('keeps a prompt of which little is left with the decode worker that has it', async () => {
    const { send, until, sent, decisions } = await observed({
      decode: 2,
      yaml: `router: { ${conditional} }`,
    });
    const first = send('a', PROMPT);
    until(() => first.ends > 0);
    const holder = decisions.find(({ role }) => role === 'decode')?.pick.worker_id;
    const again = send('b', countedTokens(2200));
    until(() => again.ends > 0);
    expect(sent.map(({ requestId, role }) => `${requestId} ${role}`)).toEqual([
      'a prefill',
      'a decode',
      'b decode',
    ]);
    const kept = decisions.at(-1);
    expect(kept?.pick).toMatchObject({ worker_id: holder, by: 'pinned' });
    expect(kept?.handoff).toEqual({ leg: 'decode', kind: null, local: 'short', other: null });
    expect(again.report?.cachedTokens).toBe(125 * 16);
    // Another prompt is computed by the prefill worker.
    const other = send('c', countedTokens(2200, 50_000));
    until(() => other.ends > 0);
    expect(sent.at(-2)).toMatchObject({ requestId: 'c', role: 'prefill' });
  });

  it('off: never keeps one', async () => {
    const { send, until, sent } = await observed();
    for (const id of ['a', 'b']) {
      const heard = send(id, PROMPT);
      until(() => heard.ends > 0);
    }
    expect(sent.filter(({ role }) => role === 'prefill')).toHaveLength(2);
  });

  it('prefill_load: keeps prompts while the prefill workers have their hands full, unless the decode worker is guarded', async () => {
    for (const guard of [false, true]) {
      const threshold = guard ? ', conditional_disagg_decode_busy_threshold: 0.01' : '';
      const { send, sent } = await observed({
        yaml: `router: { ${conditional}, conditional_disagg_policy: prefill_load, conditional_disagg_prefill_busy_threshold: 0.2${threshold} }`,
      });
      send('a', countedTokens(2000, 10_000));
      send('b', countedTokens(2000, 20_000));
      expect(sent.map(({ requestId, role }) => `${requestId} ${role}`)).toEqual([
        'a prefill',
        guard ? 'b prefill' : 'b decode',
      ]);
    }
  });

  it('is skipped for a request that names its prefill worker', async () => {
    const { send, until, sent } = await observed({ yaml: `router: { ${conditional} }` });
    const constraints = { ...NO_CONSTRAINTS, pinnedPrefill: { workerId: 1n, rank: null } };
    for (const id of ['a', 'b']) {
      const heard = send(id, PROMPT, { constraints });
      until(() => heard.ends > 0);
    }
    expect(sent.filter(({ role }) => role === 'prefill')).toHaveLength(2);
  });
});

describe('selection policies', () => {
  it('decide per role', async () => {
    const asked: string[] = [];
    const policy = (type: string) =>
      defineWorkerSelectionPolicy({
        type,
        create: ({ role }) => {
          asked.push(`${type} ${role}`);
          return { cost: linearCost({ overlap_score_credit: 0 }) };
        },
      });
    const { send, until, decisions } = await observed({
      definitions: [policy('first'), policy('second')],
      yaml: 'worker_selection: { prefill: first, decode: second }',
    });
    const heard = send('r', PROMPT);
    until(() => heard.ends > 0);
    expect(decisions.map(({ role, policy: { type } }) => `${role} ${type}`)).toEqual([
      'prefill first',
      'decode second',
    ]);
  });
});
