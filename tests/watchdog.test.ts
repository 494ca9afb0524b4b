// The watchdog in the built program: a plugin that blocks the router for good ends it, and the log says which plugin it was.
import { afterEach, expect, it } from 'vitest';
import { complete, promptOf, routerYaml, serve, simulators, stopAll } from './support/live-processes.ts';

afterEach(stopAll);

/** Loops when a request of 48 tokens comes, at once or from a timer of its own. */
const LOOPS = `import { defineHintPolicy, defineRequestClassifier, defineWorkerSelectionPolicy, pickLowestCost, scoreWorkers } from 'pointsman/plugin';
const loop = (): never => { for (;;); };
export const hint = defineHintPolicy({
  type: 'looping-hint',
  create: () => ({ buildHints: ({ promptTokens }) => (promptTokens === 48 ? loop() : []) }),
});
export const timer = defineHintPolicy({
  type: 'looping-timer',
  create: () => ({
    buildHints({ promptTokens }) {
      if (promptTokens === 48) setTimeout(loop, 1);
      return [];
    },
  }),
});
export const scorer = defineWorkerSelectionPolicy({
  type: 'looping-scorer',
  create: ({ rng }) => ({
    scorers: [scoreWorkers({ score: (_rows, costs, { promptTokens }) => { promptTokens === 48 ? loop() : costs.fill(0); } })],
    picker: pickLowestCost(rng),
  }),
});
export const classifier = defineRequestClassifier({
  type: 'looping-classifier',
  create: () => ({ classify: ({ inputTokens }) => (inputTokens === 48 ? loop() : undefined) }),
});
`;

const aggregated = (entry: string): string => `worker_selection: { aggregated: { ${entry} } }`;

it.each([
  [
    'a hint policy',
    aggregated('type: dynamo-default-cost-fn, hints: [{ type: looping-hint, name: endless }]'),
    { plugin: 'endless', role: 'aggregated', part: 'hint' },
    'hint policy endless of role aggregated blocked the router: ending the process',
  ],
  [
    'a worker-selection policy',
    aggregated('type: looping-scorer'),
    { plugin: 'looping-scorer', role: 'aggregated', part: 'selection' },
    'worker-selection policy looping-scorer of role aggregated blocked the router: ending the process',
  ],
  [
    'a request classifier',
    'request_classifier: looping-classifier',
    { plugin: 'looping-classifier', role: null, part: 'classifier' },
    'request classifier looping-classifier blocked the router: ending the process',
  ],
  [
    "a plugin's own timer",
    aggregated('type: dynamo-default-cost-fn, hints: [{ type: looping-timer }]'),
    { plugin: null, role: null, part: null },
    'the router was blocked, and no callback of a plugin was running: ending the process',
  ],
])('an endless loop in %s ends the router and is named', async (_, section, place, message) => {
  const { engines } = await simulators(1);
  const policies = `plugins: [./loops.ts]
${section}
containment: { watchdog: 1s }`;
  const router = await serve({
    'loops.ts': LOOPS,
    'router.yaml': routerYaml([{ url: engines[0]!.url }], policies),
  });
  await complete(router.url, promptOf(1, 40), {}, ',"model":"tiny"');
  // The process may be gone before the answer, or after it.
  await complete(router.url, promptOf(1, 48), {}, ',"model":"tiny"').catch(() => null);
  expect(await router.ended).toBe('SIGKILL');
  const last = router.log().trimEnd().split('\n').at(-1) ?? '';
  expect(JSON.parse(last)).toMatchObject({ level: 'fatal', ...place, msg: message });
});
