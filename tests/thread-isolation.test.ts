// Thread isolation in the built program: what a policy that never returns, or ends its process, costs those beside it.
import { afterEach, describe, expect, it } from 'vitest';
import {
  check,
  complete,
  decisionOf,
  eventually,
  metric,
  promptOf,
  recordingRelay,
  routerYaml,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterEach(stopAll);

const POLICIES = `import { defineHintPolicy, type HintAction } from 'pointsman/plugin';
import { testHintPolicy } from 'pointsman/testing';
export const bad = defineHintPolicy({
  type: 'bad',
  isolation: 'thread',
  create: ({ log }) => ({
    buildHints({ promptTokens }): HintAction[] {
      if (promptTokens === 48) for (;;);
      if (promptTokens === 64) process.exit(1);
      console.log('told', promptTokens, typeof testHintPolicy);
      return [{ type: 'acme.bad', version: '1.0', payload: { promptTokens } }];
    },
  }),
});
export const good = defineHintPolicy({
  type: 'good',
  create: ({ rng }) => ({
    buildHints({ promptTokens, session, capabilities, partition, worker }) {
      const payload = { promptTokens, partition: { ...partition }, worker: { ...worker }, draw: rng.next() };
      return [{ type: 'acme.good', version: '1.0', payload }];
    },
  }),
});
`;

/** Tokens of the prompts, in turn; 48 loops. */
const LENGTHS = [40, 48, 40, 40, 56, 40];

/** What the engine was sent of the good policy, byte for byte but for ids. */
const goodActions = (bodies: readonly string[]) =>
  bodies.map((body) => /"action_type":"acme\.good".*?"payload":(\{.*?\}\})/.exec(body)?.[1] ?? body);

describe('a hostile policy in a thread', () => {
  it('costs its own actions, and the good one beside it sends byte for byte what it sends alone', async () => {
    const { engines } = await simulators(1, '--no-action-set');
    const run = async (hints: string) => {
      const relay = await recordingRelay(engines[0]!.url);
      const router = await serve({
        'policies.ts': POLICIES,
        'router.yaml': routerYaml(
          [relay],
          `plugins: [./policies.ts]\nworker_selection: { aggregated: { hints: [${hints}] } }`,
        ).replace('router: {', 'router: { seed: 3,'),
      });
      const results: string[][] = [];
      for (const [index, tokens] of LENGTHS.entries()) {
        const { requestId } = await complete(router.url, promptOf(index, tokens), {}, ',"model":"tiny"');
        const { hints: recorded } = await decisionOf(router, requestId);
        results.push(
          recorded?.policies.map(({ name, result, reason }) =>
            [name, result, reason].filter(Boolean).join(' '),
          ) ?? [],
        );
      }
      return { router, relay, results };
    };
    const alone = await run('{ type: good }');
    const beside = await run('{ type: bad, deadline: 2s }, { type: good }');
    expect(goodActions(beside.relay.bodies)).toEqual(goodActions(alone.relay.bodies));
    expect(goodActions(alone.relay.bodies)[0]).toContain('"draw":');
    expect(beside.results[0]).toEqual(['bad sent', 'good sent']);
    expect(beside.results[1]).toEqual(['bad dropped timed_out', 'good sent']);
    // What follows does not wait for the next thread.
    const later = beside.results.slice(2).map(([bad]) => bad ?? '');
    expect(later.filter((bad) => !['bad skipped restarting', 'bad sent'].includes(bad))).toEqual([]);
    expect(beside.results.every(([, good]) => good === 'good sent')).toBe(true);
    const { admin, url } = beside.router;
    const lost = 'pointsman_plugin_threads_lost_total{plugin="bad",reason="timed_out"}';
    expect(await metric(admin, lost)).toBe(1);
    await eventually('the thread is back', async () => {
      const { requestId } = await complete(url, promptOf(9, 40), {}, ',"model":"tiny"');
      const { hints } = await decisionOf(beside.router, requestId);
      return hints?.policies[0]?.result === 'sent' ? true : undefined;
    });
    const ends = await complete(url, promptOf(9, 64), {}, ',"model":"tiny"');
    const { hints } = await decisionOf(beside.router, ends.requestId);
    expect(hints?.policies[0]).toMatchObject({ name: 'bad', result: 'dropped', reason: 'thread_died' });
    // What the plugin wrote went to standard error, and modules of the program are there in the thread.
    expect(beside.router.log()).toContain('told 40 function');
  });
});

describe('check', () => {
  it('starts the threads, and says in the words of a start why one does not', async () => {
    const broken = `import { isMainThread } from 'node:worker_threads';
import { defineHintPolicy } from 'pointsman/plugin';
if (!isMainThread) throw new Error('I need the main thread');
export default defineHintPolicy({ type: 'main-only', create: () => ({ buildHints: () => [] }) });
`;
    const yaml = `plugins: [./broken.ts]
worker_selection:
  aggregated:
    hints: [{ type: main-only, isolation: thread }]
`;
    const { code, out } = await check({ 'broken.ts': broken, 'router.yaml': yaml });
    expect(code).toBe(2);
    const { problems } = JSON.parse(out) as { problems: { text: string }[] };
    expect(problems.map(({ text }) => text.replace(/^.*router\.yaml/, 'router.yaml'))).toEqual([
      'router.yaml:4:13: worker_selection.aggregated.hints[0]: main-only of ./broken.ts cannot run in a thread: cannot load ./broken.ts: I need the main thread (thrown at broken.ts:3)',
    ]);
    const fine = await check({
      'policies.ts': POLICIES,
      'router.yaml': 'plugins: [./policies.ts]\nworker_selection: { aggregated: { hints: [{ type: bad }] } }',
    });
    expect(fine.code).toBe(0);
  });
});
