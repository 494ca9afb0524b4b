import { expect, it, test } from 'vitest';
import { NO_THRESHOLDS, parseConfig, reloadedConfig, thresholdsOf } from './index.ts';

const config = (yaml: string) => parseConfig(yaml, 'router.yaml').config;
const MODELS =
  'models: { a: { active_decode_blocks_threshold: 0.5, tokens: { source: estimate } }, b: { tokens: { source: estimate } } }\n';

function problem(yaml: string): string {
  try {
    config(yaml);
  } catch (thrown) {
    return String(thrown instanceof Error ? thrown.message : thrown);
  }
  return 'none';
}

test('no model has a threshold unless one is given', () => {
  const { router, models } = config('models: { a: { tokens: { source: estimate } } }');
  expect(router.busyThresholds).toEqual(NO_THRESHOLDS);
  expect(thresholdsOf({ router, models }, 'a')).toEqual(NO_THRESHOLDS);
});

test('each threshold of a model wins over the one of the router, 0 included', () => {
  const read = config(
    `${MODELS.replace('0.5', '0')}router: { active_decode_blocks_threshold: 0.9, active_prefill_tokens_threshold: 1000 }`,
  );
  expect([thresholdsOf(read, 'a'), thresholdsOf(read, 'b'), thresholdsOf(read, 'unknown')]).toEqual([
    { activeDecodeBlocks: 0, activePrefillTokens: 1000, activePrefillTokensFrac: null },
    { activeDecodeBlocks: 0.9, activePrefillTokens: 1000, activePrefillTokensFrac: null },
    { activeDecodeBlocks: 0.9, activePrefillTokens: 1000, activePrefillTokensFrac: null },
  ]);
});

it.each([
  ['active_decode_blocks_threshold: 1.5', 'expected a number from 0 to 1, found 1.5'],
  ['active_decode_blocks_threshold: -0.1', 'expected a number from 0 to 1, found -0.1'],
  ['active_decode_blocks_threshold: 90%', 'expected a number from 0 to 1, found "90%"'],
  ['active_prefill_tokens_threshold: 1.5', 'found 1.5'],
  ['active_prefill_tokens_threshold: -1', 'found -1'],
  ['active_prefill_tokens_threshold_frac: -2', 'found -2'],
  ['active_prefill_tokens_threshold_frac: .inf', 'found'],
  ['active_prefil_tokens_threshold: 5', 'did you mean "active_prefill_tokens_threshold"?'],
])('%s is refused, under router as under a model', (key, message) => {
  expect(problem(`router: { ${key} }`)).toContain(message);
  expect(problem(`models: { a: { ${key} } }`)).toContain(message);
});

test('thresholds of models take effect on reload, unlike all else of a model', () => {
  const running = config(MODELS);
  const next = reloadedConfig(
    running,
    config(
      'models: { a: { active_decode_blocks_threshold: 0.8, tokens: { source: estimate } }, b: { block_size: 32, active_prefill_tokens_threshold: 7, tokens: { source: estimate } } }',
    ),
  );
  expect(next.warnings.map(({ path }) => path.join('.'))).toEqual(['models.b']);
  expect(thresholdsOf(next.config, 'a').activeDecodeBlocks).toBe(0.8);
  expect(thresholdsOf(next.config, 'b').activePrefillTokens).toBe(7);
  expect(next.config.models.get('b')?.blockSize).toBeNull();
});
