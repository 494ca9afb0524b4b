import { expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { untestedWarnings } from './start-problems.ts';

function warnings(yaml: string): string[] {
  const { config, source } = parseConfig(yaml, 'router.yaml');
  return untestedWarnings(config).map((problem) => source.render(problem));
}

const WORKERS = `workers:
  - { id: 1, url: "http://127.0.0.1:1", dialect: sim, capabilities: none, total_kv_blocks: 100 }
  - { id: 2, url: "http://127.0.0.1:2", dialect: sim, capabilities: none, max_num_batched_tokens: 100 }
  - { id: 3, url: "http://127.0.0.1:3", dialect: sim, capabilities: ask }
  - { id: 4, url: "http://127.0.0.1:4", dialect: sim, capabilities: { total_kv_blocks: 9, max_num_batched_tokens: 9 } }
  - { id: 5, url: "http://127.0.0.1:5", dialect: sim, capabilities: { epoch: e } }
`;

it('a threshold is named that never tests a worker, as nobody says its capacity', () => {
  const models = 'models: { m: { tokens: { source: estimate }, active_prefill_tokens_threshold_frac: 2 } }\n';
  expect(
    warnings(
      `${models}router: { active_decode_blocks_threshold: 0.9, active_prefill_tokens_threshold: 5 }\n${WORKERS}`,
    ),
  ).toEqual([
    'router.yaml:2:11: router.active_decode_blocks_threshold: never tests 2 of 5 workers of model m (http://127.0.0.1:2, http://127.0.0.1:5): total_kv_blocks is not known; give it to them, or capabilities: ask',
    'router.yaml:1:46: models.m.active_prefill_tokens_threshold_frac: never tests 2 of 5 workers of model m (http://127.0.0.1:1, http://127.0.0.1:5): max_num_batched_tokens is not known; give it to them, or capabilities: ask',
  ]);
});

it('nothing is said where every capacity is or may become known, or no part of one is asked for', () => {
  const models = 'models: { m: { tokens: { source: estimate } } }\n';
  expect(warnings(`${models}router: { active_prefill_tokens_threshold: 5 }\n${WORKERS}`)).toEqual([]);
  expect(warnings(models + WORKERS)).toEqual([]);
});

it('a queue threshold is named that takes a pass for a huge one, as nobody says its size', () => {
  const models = 'models: { m: { tokens: { source: estimate } } }\n';
  const takes =
    'takes the passes of 2 of 5 workers of model m (http://127.0.0.1:1, http://127.0.0.1:5) for 10,000,000 tokens: max_num_batched_tokens is not known; give it to them, or capabilities: ask';
  expect(warnings(`${models}router: { router_queue_threshold: 2 }\n${WORKERS}`)).toEqual([
    `router.yaml:2:11: router.router_queue_threshold: ${takes}`,
  ]);
  // Any at all is more than 0 of a pass of any size.
  expect(warnings(`${models}router: { router_queue_threshold: 0 }\n${WORKERS}`)).toEqual([]);
  const profile = `default_policy_family: f
uncached_isl_buckets: [{ min_tokens: 0, bucket: b }]
policy_classes:
  - { name: a, policy_family: f, cache_bucket: b, quantum: 1, prefill_busy_threshold_frac: 4 }
  - { name: c, quantum: 1, prefill_busy_threshold: 4096 }
`;
  expect(warnings(`${models}${profile}${WORKERS}`)).toEqual([
    `router.yaml:5:63: policy_classes[0].prefill_busy_threshold_frac: ${takes}`,
  ]);
});
