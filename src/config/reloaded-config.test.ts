import { expect, test } from 'vitest';
import { parseConfig, reloadedConfig } from './index.ts';

const SURROUNDINGS = { env: { TOKEN: 'secret', OTHER: 'another' }, readFile: () => '' };
const config = (yaml: string) => parseConfig(yaml, 'router.yaml', SURROUNDINGS);

const BASE = `listen: { host: 127.0.0.1, port: 8000 }
admin: { host: 127.0.0.1, port: 8001, token: { env: TOKEN } }
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
workers: [{ id: 1, url: "http://127.0.0.1:9000", dialect: sim }]
`;

test('live keys are taken, start keys keep their value, and each that differs is named', () => {
  const running = config(BASE).config;
  const read = config(`listen: { host: "::1", port: 9000 }
admin: { host: "::1", port: 9001, token: { env: OTHER } }
limits: { index_bytes: 1MiB, decision_bytes: 1MiB, body_bytes: 2MiB, drain: 7s }
models:
  tiny: { block_size: 32, tokens: { source: estimate } }
  big: { block_size: 16, tokens: { source: estimate } }
workers:
  - { id: 2, model: tiny, url: "http://127.0.0.1:9002", dialect: sim }
  - { id: 3, model: big, url: "http://127.0.0.1:9003", dialect: sim }
router: { use_kv_events: false, router_prefill_load_model: throughput, mode: random, overlap_score_credit: 2 }
observe: { log_level: debug, candidates: 3 }
`);
  const { config: next, warnings } = reloadedConfig(running, read.config);
  expect([next.listen, next.admin, next.models]).toEqual([running.listen, running.admin, running.models]);
  expect(next.limits).toEqual({ ...running.limits, bodyBytes: 2 * 2 ** 20, drainMs: 7000 });
  expect(next.router).toEqual({ ...running.router, mode: 'random', overlapScoreCredit: 2 });
  expect(next.workers.map(({ id }) => id)).toEqual([2n]);
  expect(next.observe).toEqual({ candidates: 3, engineLoad: false, logLevel: 'debug' });
  const waits = 'changed, but it takes effect only at the next start; the running value stays';
  const model = waits.replace('it takes', 'a model takes');
  expect(warnings.map((one) => read.source.render(one))).toEqual([
    `router.yaml:1:11: listen.host: ${waits}`,
    `router.yaml:1:24: listen.port: ${waits}`,
    `router.yaml:2:10: admin.host: ${waits}`,
    `router.yaml:2:23: admin.port: ${waits}`,
    `router.yaml:2:35: admin.token: ${waits}`,
    `router.yaml:3:11: limits.index_bytes: ${waits}`,
    `router.yaml:3:30: limits.decision_bytes: ${waits}`,
    `router.yaml:10:11: router.use_kv_events: ${waits}`,
    `router.yaml:10:33: router.router_prefill_load_model: ${waits}`,
    `router.yaml:5:3: models.tiny: ${model}`,
    `router.yaml:6:3: models.big: ${model}`,
    'router.yaml:9:5: workers[1]: is not added: its model big is known only after the next start',
  ]);
  expect(JSON.stringify(warnings)).not.toContain('another');
});

test('a file that says the same again waits for nothing', () => {
  const running = config(BASE).config;
  const { config: next, warnings } = reloadedConfig(running, config(`# moved\n${BASE}`).config);
  expect([next, warnings]).toEqual([running, []]);
});

test('queue profiles are live, at the root and of a model, and stand alone among the keys of a model', () => {
  const profile = (quantum: number) =>
    `default_policy_family: f, uncached_isl_buckets: [{ min_tokens: 0, bucket: b }], policy_classes: [{ name: a, policy_family: f, cache_bucket: b, quantum: ${quantum} }]`;
  const of = (own: string, root: string) =>
    config(BASE.replace('block_size: 16,', `block_size: 16, ${own}`) + root).config;
  const running = of('', '');
  const read = of(`${profile(5)},`, 'router: { router_queue_threshold: 3, router_queue_policy: wspt }\n');
  const { config: next, warnings } = reloadedConfig(running, read);
  expect(warnings).toEqual([]);
  expect(next.models.get('tiny')).toEqual(read.models.get('tiny'));
  expect([next.router.queueThreshold, next.router.queuePolicy]).toEqual([3, 'wspt']);
  const back = reloadedConfig(next, running);
  expect([back.config.models.get('tiny'), back.warnings]).toEqual([running.models.get('tiny'), []]);
  const rootRead = config(
    `${BASE}${profile(7).replaceAll(', uncached', '\nuncached').replaceAll(', policy_classes', '\npolicy_classes')}\n`,
  ).config;
  expect(reloadedConfig(running, rootRead).config.queueProfile?.classes[0]?.quantum).toBe(7);
});
