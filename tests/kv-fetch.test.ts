// `kv.fetch` and `kv.retain` over real wires: router, engines and the channel between engines in processes of their own. What is
// fetched is what the source holds at that moment; whatever goes wrong costs a bounded wait and a recompute, and is counted.
import { afterEach, describe, expect, it } from 'vitest';
import {
  complete,
  completeOn,
  decisionOf,
  eventLink,
  eventually,
  metric,
  metricReaches,
  promptOf,
  routerYaml,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

const FETCH = 'worker_selection: { aggregated: { hints: [{ type: kv_fetch }] } }';
/** 20 full blocks and a rest. */
const PROMPT = promptOf(1, 330);

const outcomes = ({ admin }: Serving, outcome: string, type = 'kv.fetch@1.0') =>
  metric(admin, `pointsman_hint_outcomes_total{type="${type}",outcome="${outcome}"}`);
const asked = (url: string, answer: string) =>
  metric(url, `pointsman_sim_fetch_requests_total{answer="${answer}"}`);

/** The prompt is cached on worker 1, and the router knows. */
async function cachedOnFirst(router: Serving): Promise<void> {
  const stored = 'pointsman_kv_events_total{kind="stored"}';
  const before = await metric(router.admin, stored);
  const { worker, cachedTokens } = await completeOn(router, 1, PROMPT);
  expect([worker, cachedTokens]).toEqual(['1:0', 0]);
  await metricReaches(router.admin, stored, before + 1);
}

/** What the record says of the only action. */
async function recorded(router: Serving, requestId: string) {
  const { hints, prediction, report, outcome } = await decisionOf(router, requestId);
  const [action, ...others] = hints?.sent ?? [];
  expect(others).toEqual([]);
  return {
    action: action && [action.action_id, action.type, action.policy, action.outcome, action.blocks_done],
    predicted: [prediction?.cached_tokens, prediction?.with_hints_tokens],
    cached: report?.cached_tokens,
    status: outcome?.status,
  };
}

/** An envelope as only a router, or a caller it trusts, may send it. */
function fetchHint(control: string, hashes: readonly bigint[]): string {
  const payload = `{"source_control_endpoint":"${control}","block_hashes":[${hashes.join()}]}`;
  const action = `{"action_id":"own","action_type":"kv.fetch","action_version":"1.0","payload":${payload}}`;
  return `"kv_hint":{"protocol_version":"0.1","message_id":"by-hand","actions":[${action}]}`;
}

describe('kv.fetch', () => {
  it('brings what the other engine holds, and what came counts as cached in usage, record and metrics', async () => {
    const { engines } = await simulators(3);
    const [first, second, third] = engines;
    const router = await serve({ 'router.yaml': routerYaml(engines, FETCH) });
    await cachedOnFirst(router);
    const answer = await completeOn(router, 2, PROMPT);
    expect(answer).toMatchObject({ worker: '2:0', cachedTokens: 320, outcomes: null });
    expect(await recorded(router, answer.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'accepted', 20],
      predicted: [0, 320],
      cached: 320,
      status: 200,
    });
    expect(await Promise.all([first, second, third].map((engine) => asked(engine!.url, 'reserved')))).toEqual(
      [1, 0, 0],
    );
    expect(await metric(second!.url, 'vllm:prefix_cache_hits_total{model_name="tiny-sim"}')).toBe(320);
    expect(await outcomes(router, 'accepted')).toBe(1);
    expect(await metric(router.admin, 'pointsman_predicted_cached_tokens_total{model="tiny"}')).toBe(320);
    expect(await metric(router.admin, 'pointsman_reported_cached_tokens_total{model="tiny"}')).toBe(320);
    // Fetched blocks are announced like computed ones: now the second holds the prompt and has nothing to fetch.
    await eventually('the router knows of the copy', async () => {
      const again = await completeOn(router, 2, PROMPT);
      const { prediction, hints } = await decisionOf(router, again.requestId);
      return prediction?.cached_tokens === 320 && hints?.sent.length === 0 ? true : undefined;
    });
  });

  it('takes only what the source still holds when its other blocks were evicted meanwhile', async () => {
    const source = (await simulators(1, '--kv-blocks', '30')).engines[0]!;
    const target = (await simulators(1)).engines[0]!;
    const link = await eventLink(source);
    const workers = [{ url: source.url, kvEvents: link.endpoint }, target];
    const router = await serve({ 'router.yaml': routerYaml(workers, FETCH) });
    await cachedOnFirst(router);
    // The router does not hear of the eviction: 30 blocks minus 25 for this leaves 5 of the prompt's, its first ones.
    link.cut();
    await complete(source.url, promptOf(2, 399));
    const clipped = await completeOn(router, 2, PROMPT);
    expect(clipped.cachedTokens).toBe(80);
    expect(await recorded(router, clipped.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'clipped', 5],
      predicted: [0, 320],
      cached: 80,
      status: 200,
    });
    expect([await outcomes(router, 'clipped'), await asked(source.url, 'reserved')]).toEqual([1, 1]);
  });

  it('recomputes when all of the blocks were evicted', async () => {
    const source = (await simulators(1, '--kv-blocks', '30')).engines[0]!;
    const target = (await simulators(1)).engines[0]!;
    const link = await eventLink(source);
    const workers = [{ url: source.url, kvEvents: link.endpoint }, target];
    const router = await serve({ 'router.yaml': routerYaml(workers, FETCH) });
    await cachedOnFirst(router);
    link.cut();
    await complete(source.url, promptOf(2, 470));
    const answer = await completeOn(router, 2, PROMPT);
    expect(await recorded(router, answer.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'missing', 0],
      predicted: [0, 320],
      cached: 0,
      status: 200,
    });
    expect([await outcomes(router, 'missing'), await asked(source.url, 'nothing_held')]).toEqual([1, 1]);
  });

  it('recomputes after a bounded wait when the source is dead', async () => {
    const source = (await simulators(1)).engines[0]!;
    const target = (await simulators(1, '--fetch-reserve-timeout-ms', '100')).engines[0]!;
    const dead = await simulators(1);
    dead.kill();
    await dead.exited;
    // Only its control channel is dead: an engine that died whole would be a source until the router notices, however long that is.
    const said = await (await fetch(`${source.url}/kv_hints/capabilities`)).text();
    const capabilities: unknown = JSON.parse(said.replace(source.control, dead.engines[0]!.control));
    const workers = [{ url: source.url, capabilities }, { url: target.url }];
    const router = await serve({ 'router.yaml': routerYaml(workers, FETCH) });
    await cachedOnFirst(router);
    const answer = await completeOn(router, 2, PROMPT);
    expect(await recorded(router, answer.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'missing', 0],
      predicted: [0, 320],
      cached: 0,
      status: 200,
    });
    expect(await outcomes(router, 'missing')).toBe(1);
    // The wait is over for good: the engine works on.
    expect((await completeOn(router, 2, PROMPT)).cachedTokens).toBe(320);
  });

  it('recomputes when the source dies while the blocks move, and frees both ends when the client leaves instead', async () => {
    // At this rate the 20 blocks take most of an hour.
    const slow = ['--nic-gbps', '0.0000001'];
    const sources = await simulators(1, ...slow);
    const target = (await simulators(1, ...slow, '--fetch-timeout-ms', '3000')).engines[0]!;
    const source = sources.engines[0]!;
    const router = await serve({ 'router.yaml': routerYaml([source, target], FETCH) });
    await cachedOnFirst(router);
    const client = new AbortController();
    const left = fetch(`${router.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-dynamo-worker-instance-id': '2' },
      body: JSON.stringify({ model: 'tiny', prompt: PROMPT }),
      signal: client.signal,
    });
    await metricReaches(source.url, 'pointsman_sim_fetch_requests_total{answer="reserved"}', 1);
    client.abort();
    await expect(left).rejects.toThrow('aborted');
    await eventually('nothing is held and nothing waits', async () => {
      const held = await metric(source.url, 'vllm:kv_cache_usage_perc{model_name="tiny-sim"}');
      const waiting = await metric(target.url, 'vllm:num_requests_waiting{model_name="tiny-sim"}');
      return held === 0 && waiting === 0 ? true : undefined;
    });
    expect(await metric(router.admin, 'pointsman_bookings_active')).toBe(0);
    expect(await outcomes(router, 'unreported')).toBe(1);

    const answer = completeOn(router, 2, PROMPT);
    await metricReaches(source.url, 'pointsman_sim_fetch_requests_total{answer="reserved"}', 2);
    sources.kill();
    const { requestId, cachedTokens } = await answer;
    expect(cachedTokens).toBe(0);
    expect((await recorded(router, requestId)).action?.slice(3)).toEqual(['missing', 0]);
  });

  it('asks only for what the target lacks', async () => {
    const { engines } = await simulators(2);
    const router = await serve({ 'router.yaml': routerYaml(engines, FETCH) });
    await cachedOnFirst(router);
    await completeOn(router, 2, PROMPT.slice(0, 170));
    await eventually('the target’s own blocks are known', async () => {
      const { requestId } = await completeOn(router, 2, PROMPT.slice(0, 170));
      return (await decisionOf(router, requestId)).prediction?.cached_tokens === 160 ? true : undefined;
    });
    const { requestId } = await completeOn(router, 2, PROMPT);
    expect(await recorded(router, requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'accepted', 10],
      predicted: [160, 320],
      cached: 320,
      status: 200,
    });
  });

  it('brings the copy that kvcr committed, threshold or not, and what was credited counts as cached', async () => {
    const { engines } = await simulators(2);
    const kvcr =
      'worker_selection: { aggregated: { type: kvcr, hints: [{ type: kv_fetch, parameters: { min_additional_blocks: 1000 } }] } }';
    const router = await serve({ 'router.yaml': routerYaml(engines, kvcr) });
    await cachedOnFirst(router);
    const answer = await completeOn(router, 2, PROMPT);
    expect(answer).toMatchObject({ worker: '2:0', cachedTokens: 320 });
    expect(await recorded(router, answer.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'kv_fetch', 'accepted', 20],
      predicted: [0, 320],
      cached: 320,
      status: 200,
    });
    expect((await decisionOf(router, answer.requestId)).hints?.commit).toMatchObject({
      prefix_blocks: 20,
      additional_blocks: 20,
      result: 'sent',
      reason: null,
    });
    const settled = 'pointsman_kv_copy_commits_settled_total{policy="kvcr",result="sent",reason=""}';
    expect(await metric(router.admin, 'pointsman_kv_copy_commits_made_total{policy="kvcr"}')).toBe(1);
    expect(await metric(router.admin, settled)).toBe(1);
  });

  it('works with the envelope of a trusted caller, every digit of its hashes kept', async () => {
    const { engines } = await simulators(2);
    const [source, target] = engines;
    const link = await eventLink(source!);
    const workers = [{ url: source!.url, kvEvents: link.endpoint }, target!];
    const router = await serve({ 'router.yaml': routerYaml(workers, '') });
    await cachedOnFirst(router);
    const hint = fetchHint(source!.control, link.stored.slice(0, 20));
    expect(link.stored.slice(0, 20).some((hash) => hash > 2n ** 63n)).toBe(true);
    const answer = await completeOn(router, 2, PROMPT, `,"kv_transfer_params":{${hint}}`);
    expect(await recorded(router, answer.requestId)).toEqual({
      action: ['a1', 'kv.fetch@1.0', 'incoming', 'accepted', 20],
      predicted: [0, 320],
      cached: 320,
      status: 200,
    });
  });

  it('is not offered between engines that hash differently, and misses when forced', async () => {
    const source = (await simulators(1)).engines[0]!;
    const strangers = (await simulators(2, '--hash-seed', '7')).engines;
    const link = await eventLink(source);
    const workers = [{ url: source.url, kvEvents: link.endpoint }, ...strangers];
    const router = await serve({ 'router.yaml': routerYaml(workers, FETCH) });
    await cachedOnFirst(router);
    const offered = await completeOn(router, 2, PROMPT);
    expect(offered.cachedTokens).toBe(0);
    const { hints, prediction } = await decisionOf(router, offered.requestId);
    expect(hints?.policies).toMatchObject([{ name: 'kv_fetch', result: 'nothing' }]);
    expect([hints?.sent, prediction]).toMatchObject([[], { cached_tokens: 0, with_hints_tokens: 0 }]);
    // By hand, with the hashes that the source announced: straight to the engine, then through the router.
    const hint = `,"kv_transfer_params":{${fetchHint(source.control, link.stored.slice(0, 20))}}`;
    const straight = await complete(strangers[1]!.url, PROMPT, {}, hint);
    expect(straight.cachedTokens).toBe(0);
    expect(JSON.parse(straight.outcomes ?? '')).toMatchObject({
      message_id: 'by-hand',
      outcomes: [
        { action_id: 'own', outcome: 'missing', reason: 'hash_mismatch', blocks_asked: 20, blocks_done: 0 },
      ],
    });
    const through = await completeOn(router, 2, promptOf(4, 330), hint);
    const forced = await decisionOf(router, through.requestId);
    expect(forced.hints).toMatchObject({
      message_id: 'by-hand',
      sent: [{ action_id: 'a1', policy: 'incoming', outcome: 'missing', blocks_done: 0 }],
    });
    expect(forced.report?.cached_tokens).toBe(0);
    expect([await asked(source.url, 'reserved'), await asked(source.url, 'nothing_held')]).toEqual([0, 0]);
    expect(await outcomes(router, 'missing')).toBe(1);
  });
});

/** Retains the blocks that its parameters name, in every envelope. */
const RETAIN = `import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';
export default defineHintPolicy({
  type: 'retain_head',
  parameters: z.strictObject({ blocks: z.array(z.coerce.bigint()) }),
  actions: ['kv.retain@1.0'],
  create: ({ parameters }) => ({
    buildHints: () => [
      {
        type: 'kv.retain',
        version: '1.0',
        payload: { block_hashes: BigUint64Array.from(parameters.blocks), priority: 50, ttl_ms: 600_000 },
      },
    ],
  }),
});
`;

describe('kv.retain', () => {
  it('keeps the blocks it names while others go, and reports how many it found', async () => {
    const engine = (await simulators(1, '--kv-blocks', '30')).engines[0]!;
    const link = await eventLink(engine);
    await complete(engine.url, PROMPT);
    await eventually('the prompt is announced', async () => (link.stored.length >= 20 ? true : undefined));
    // Without a hint nothing of the prompt is left after others came.
    await complete(engine.url, promptOf(5, 470));
    expect((await complete(engine.url, PROMPT)).cachedTokens).toBe(0);

    const head = link.stored.slice(0, 5);
    const policies = `plugins: [./retain.ts]
worker_selection: { aggregated: { hints: [{ type: retain_head, parameters: { blocks: [${head.join()}] } }] } }`;
    const router = await serve({
      'retain.ts': RETAIN,
      'router.yaml': routerYaml([{ url: engine.url, kvEvents: link.endpoint }], policies),
    });
    const through = async (prompt: readonly number[]) => {
      const { requestId } = await completeOn(router, 1, prompt);
      return recorded(router, requestId);
    };
    const action = (outcome: string, blocks: number) => ({
      action: ['a1', 'kv.retain@1.0', 'retain_head', outcome, blocks],
    });
    expect(await through(PROMPT)).toMatchObject(action('accepted', 5));
    for (const seed of [6, 7, 8])
      expect(await through(promptOf(seed, 390))).toMatchObject(action('accepted', 5));
    expect(await through(PROMPT)).toMatchObject({ ...action('accepted', 5), cached: 80 });
    // Retained is not pinned: a prompt that needs the room gets it, and the next report says so.
    await complete(engine.url, promptOf(9, 440));
    expect(await through(promptOf(10, 32))).toMatchObject(action('clipped', 2));
    expect(await outcomes(router, 'accepted', 'kv.retain@1.0')).toBe(5);
    // Four of those before had declarations on these blocks, and are told of later: blocks were evicted all the same.
    const clipped = 'pointsman_hint_outcomes_total{type="kv.retain@1.0",outcome="clipped"}';
    await metricReaches(router.admin, clipped, 5);
  });
});

describe('what engines say of hint actions', () => {
  it('reaches the record also when it comes by event after the answer', async () => {
    const { engines } = await simulators(2);
    const link = await eventLink(engines[1]!);
    const workers = [engines[0]!, { url: engines[1]!.url, kvEvents: link.endpoint }];
    const router = await serve({ 'router.yaml': routerYaml(workers, FETCH) });
    await cachedOnFirst(router);
    const { requestId } = await completeOn(router, 2, PROMPT);
    expect((await recorded(router, requestId)).action?.[3]).toBe('accepted');
    const late = {
      kind: 'hint-outcome',
      actionId: 'a1',
      outcome: 'clipped',
      reason: null,
      blocks: 3,
    } as const;
    await link.publish([
      { ...late, messageId: 'of-nobody' },
      { ...late, messageId: requestId },
    ]);
    await eventually('the late outcome is recorded', async () => {
      const { action } = await recorded(router, requestId);
      return action?.[3] === 'clipped' && action[4] === 3 ? true : undefined;
    });
    expect([await outcomes(router, 'accepted'), await outcomes(router, 'clipped')]).toEqual([1, 1]);
  });

  it('is counts only when it does not fit its header, and then no action is said to be done', async () => {
    const { engines } = await simulators(1);
    const router = await serve({ 'router.yaml': routerYaml(engines, '') });
    const action = (n: number) =>
      `{"action_id":"${String(n).padStart(256, 'x')}","action_type":"kv.retain","action_version":"1.0","payload":{"block_hashes":[${n}],"priority":1,"ttl_ms":1}}`;
    const actions = Array.from({ length: 32 }, (_, n) => action(n));
    const hint = `,"kv_transfer_params":{"kv_hint":{"protocol_version":"0.1","message_id":"m","actions":[${actions.join()}]}}`;
    const { outcomes: header } = await complete(engines[0]!.url, PROMPT, {}, hint);
    expect(header).toBe('{"message_id":"m","counts":{"missing":32}}');
    // The router numbers actions itself, so that 32 reports on them fit.
    const { requestId } = await completeOn(router, 1, PROMPT, hint);
    const { hints } = await decisionOf(router, requestId);
    expect(hints?.sent.map(({ action_id, outcome }) => [action_id, outcome])).toEqual(
      Array.from({ length: 32 }, (_, n) => [`a${n + 1}`, 'missing']),
    );
    expect(await outcomes(router, 'missing', 'kv.retain@1.0')).toBe(32);
  });
});
