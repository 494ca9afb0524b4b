// Hint policies from files, through the built program, onto the wire: what a simulated engine in another process is sent.
import { afterEach, describe, expect, it } from 'vitest';
import {
  check,
  complete,
  completeOn,
  decisionOf,
  metric,
  promptOf,
  recordingRelay,
  routerYaml,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

/** Fifteen lines, with types, the program's own contract and the program's zod. */
const MARK = `import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'mark',
  parameters: z.strictObject({ ttl_ms: z.int().min(1).default(60_000), head: z.bigint() }),
  actions: ['kv.retain@1.0'],
  create: ({ parameters }) => ({
    buildHints({ promptTokens, worker }) {
      const all: readonly bigint[] = [0n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n];
      const payload = { block_hashes: BigUint64Array.from(all), priority: 7, ...parameters, promptTokens, worker: worker.workerId };
      return [{ type: 'kv.retain', version: '1.0', payload }];
    },
  }),
});
`;

const BOMB = `import { defineHintPolicy } from 'pointsman/plugin';
const create = () => ({ buildHints(): never { throw new RangeError('no hints today'); } });
export default defineHintPolicy({ type: 'bomb', create });
`;

/** Emits as many actions as the session's id says at its place: \`burst-20-13-12\`. */
const BURST = `import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';
export default defineHintPolicy({
  type: 'burst',
  parameters: z.strictObject({ place: z.int() }),
  create: ({ parameters: { place } }) => ({
    buildHints({ session }) {
      const count = Number(session?.sessionId.split('-')[place] ?? 0);
      return Array.from({ length: count }, (_, n) => ({ type: 'acme.mark', version: '1.0', payload: { place, n } }));
    },
  }),
});
`;

/** Nine actions of nearly 1 MiB each. */
const FLOOD = `import { defineHintPolicy } from 'pointsman/plugin';
const action = { type: 'acme.mark', version: '1.0', payload: { text: 'x'.repeat(1_048_000) } };
export default defineHintPolicy({ type: 'flood', create: () => ({ buildHints: () => Array(9).fill(action) }) });
`;

const SENT_MARK =
  '"actions":[{"action_id":"a1","action_type":"kv.retain","action_version":"1.0","payload":{' +
  '"block_hashes":[0,9007199254740993,9223372036854775808,18446744073709551615],"priority":7,"ttl_ms":5000,' +
  '"head":18446744073709551615,"promptTokens":40,"worker":1}}]';

describe('a hint policy in a bare folder', () => {
  it('runs without a build, its envelope arrives byte for byte, and a throwing neighbour loses only its own', async () => {
    expect(MARK.trimEnd().split('\n')).toHaveLength(15);
    const { engines } = await simulators(1, '--no-action-set');
    const relay = await recordingRelay(engines[0]!.url);
    const router = await serve({
      'mark.ts': MARK,
      'bomb.ts': BOMB,
      'router.yaml': routerYaml(
        [relay],
        `plugins: [./mark.ts, ./bomb.ts]
worker_selection:
  aggregated:
    hints: [{ type: bomb }, { type: mark, parameters: { ttl_ms: 5000, head: 18446744073709551615 } }]`,
      ),
    });
    const prompt = promptOf(1, 40);
    const answer = await complete(router.url, prompt, {}, ',"model":"tiny"');
    expect(relay.bodies).toEqual([
      `{"prompt":[${prompt.join()}],"max_tokens":2,"model":"tiny-sim","stream":false,"kv_transfer_params":{"kv_hint":{"protocol_version":"0.1","message_id":"${answer.requestId}",${SENT_MARK}}}}`,
    ]);
    // The engine reports to the router, not to the client.
    expect(answer.outcomes).toBeNull();
    const { hints } = await decisionOf(router, answer.requestId);
    expect(hints).toMatchObject({
      message_id: answer.requestId,
      capable: true,
      sent: [{ action_id: 'a1', type: 'kv.retain@1.0', policy: 'mark', outcome: 'missing', blocks_done: 0 }],
      policies: [
        { name: 'bomb', result: 'dropped', reason: 'threw', error_code: 'PM_PLUGIN_THREW' },
        { name: 'mark', result: 'sent', actions: 1 },
      ],
    });
    expect(router.log()).toContain('no hints today');
    const dropped = 'pointsman_hint_outputs_dropped_total{policy="bomb",reason="threw"}';
    expect(await metric(router.admin, dropped)).toBe(1);
    const { roles } = (await (await fetch(`${router.admin}/plugins`)).json()) as {
      roles: { containment: unknown[] }[];
    };
    expect(roles[0]?.containment).toMatchObject([
      { part: 'hint', plugin: 'bomb', state: 'ok', failures: 1, trips: 0, skips: 0, retryInMs: 0 },
      { part: 'hint', plugin: 'mark', state: 'ok', failures: 0 },
    ]);
  });

  it('shares 32 actions with the others: an output is taken whole or dropped whole', async () => {
    const { engines } = await simulators(1, '--no-action-set');
    const relay = await recordingRelay(engines[0]!.url);
    const hints = [0, 1, 2].map((n) => `{ type: burst, name: burst-${n}, parameters: { place: ${n + 1} } }`);
    const router = await serve({
      'burst.ts': BURST,
      'router.yaml': routerYaml(
        [relay],
        `plugins: [./burst.ts]\nworker_selection: { aggregated: { hints: [${hints.join(', ')}] } }`,
      ),
    });
    /** Ids, and how many actions came from each policy. */
    const sent = async (session: string) => {
      const before = relay.bodies.length;
      const { requestId } = await complete(
        router.url,
        promptOf(2, 40),
        { 'x-dynamo-session-id': session },
        ',"model":"tiny"',
      );
      const body = JSON.parse(relay.bodies[before] ?? '') as {
        kv_transfer_params?: { kv_hint: { actions: { action_id: string; payload: { place: number } }[] } };
      };
      const actions = body.kv_transfer_params?.kv_hint.actions ?? [];
      const record = await decisionOf(router, requestId);
      expect(record.hints?.sent.map(({ action_id, outcome }) => [action_id, outcome])).toEqual(
        actions.map(({ action_id }) => [action_id, 'rejected']),
      );
      return {
        ids: actions.map(({ action_id }) => action_id),
        places: [1, 2, 3].map((place) => actions.filter(({ payload }) => payload.place === place).length),
        results: record.hints?.policies.map(({ result, reason }) => reason ?? result),
      };
    };
    const ids = (count: number) => Array.from({ length: count }, (_, n) => `a${n + 1}`);
    expect(await sent('burst-32')).toEqual({
      ids: ids(32),
      places: [32, 0, 0],
      results: ['sent', 'nothing', 'nothing'],
    });
    expect(await sent('burst-33')).toEqual({
      ids: [],
      places: [0, 0, 0],
      results: ['no_room', 'nothing', 'nothing'],
    });
    expect(await sent('burst-20-20')).toEqual({
      ids: ids(20),
      places: [20, 0, 0],
      results: ['sent', 'no_room', 'nothing'],
    });
    expect(await sent('burst-20-13-12')).toEqual({
      ids: ids(32),
      places: [20, 0, 12],
      results: ['sent', 'no_room', 'sent'],
    });
    const outcomes = 'pointsman_hint_outcomes_total{type="acme.mark@1.0",outcome="rejected"}';
    expect(await metric(router.admin, outcomes)).toBe(32 + 20 + 32);
  });

  it('sends nothing that the engine says it does not take', async () => {
    const { engines } = await simulators(1);
    const relay = await recordingRelay(engines[0]!.url);
    const router = await serve({
      'mark.ts': MARK,
      'burst.ts': BURST,
      'router.yaml': routerYaml(
        [relay],
        `plugins: [./mark.ts, ./burst.ts]
worker_selection:
  aggregated:
    hints:
      - { type: burst, parameters: { place: 1 } }
      - { type: mark, parameters: { ttl_ms: 5000, head: 18446744073709551615 } }`,
      ),
    });
    const { requestId } = await complete(
      router.url,
      promptOf(3, 40),
      { 'x-dynamo-session-id': 'burst-2' },
      ',"model":"tiny"',
    );
    expect(relay.bodies).toHaveLength(1);
    expect(relay.bodies[0]).toContain(`"message_id":"${requestId}",${SENT_MARK}}`);
    expect((await decisionOf(router, requestId)).hints?.policies).toMatchObject([
      { name: 'burst', result: 'dropped', reason: 'unsupported_action' },
      { name: 'mark', result: 'sent', actions: 1 },
    ]);
    const dropped = 'pointsman_hint_outputs_dropped_total{policy="burst",reason="unsupported_action"}';
    expect(await metric(router.admin, dropped)).toBe(1);
  });

  it('cannot make the request too large for the engine', async () => {
    const { engines } = await simulators(1, '--no-action-set', '--body-bytes', '8388608');
    const relay = await recordingRelay(engines[0]!.url);
    const router = await serve({
      'flood.ts': FLOOD,
      'burst.ts': BURST,
      'router.yaml': routerYaml(
        [relay],
        `plugins: [./flood.ts, ./burst.ts]
worker_selection: { aggregated: { hints: [{ type: flood }, { type: burst, parameters: { place: 1 } }] } }`,
      ),
    });
    const { requestId } = await complete(
      router.url,
      promptOf(5, 40),
      { 'x-dynamo-session-id': 'burst-1' },
      ',"model":"tiny"',
    );
    expect((await decisionOf(router, requestId)).hints?.policies).toMatchObject([
      { name: 'flood', result: 'dropped', reason: 'no_room' },
      { name: 'burst', result: 'sent', actions: 1 },
    ]);
    expect(relay.bodies[0]?.length).toBeLessThan(2000);
  });

  it('may use the console without getting between the program and its readers', async () => {
    const noisy = `console.log('loading');\n${BOMB}console.info('loaded');\n`;
    const policies = 'plugins: [./noisy.ts]\nworker_selection: { aggregated: { hints: [{ type: bomb }] } }';
    const checked = await check({ 'noisy.ts': noisy, 'router.yaml': policies });
    expect(checked).toMatchObject({ code: 0, err: 'loading\nloaded\n' });
    expect(JSON.parse(checked.out)).toMatchObject({ ok: true, problems: [] });
  });

  it('runs for no request to an engine that takes no hints', async () => {
    const { engines } = await simulators(1);
    const relay = await recordingRelay(engines[0]!.url);
    const yaml = routerYaml(
      [relay],
      `plugins: [./bomb.ts]\nworker_selection: { aggregated: { hints: [{ type: bomb }] } }`,
    );
    const router = await serve({
      'bomb.ts': BOMB,
      'router.yaml': yaml.replace('dialect: sim', 'dialect: sim, capabilities: none'),
    });
    const { requestId } = await completeOn(router, 1, promptOf(4, 40));
    expect(relay.bodies[0]).not.toContain('kv_hint');
    expect((await decisionOf(router, requestId)).hints).toMatchObject({ capable: false, policies: [] });
  });
});
