// Rules between the keys of a queue profile.
import { expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';

const NOTHING = { env: {}, readFile: () => '' };
const SOUND = `default_policy_family: standard
policy_classes:
  - { name: short, policy_family: standard, cache_bucket: cached, quantum: 2048 }
  - { name: long, policy_family: standard, cache_bucket: uncached, quantum: 512 }
  - { name: express, quantum: 4096, queue_policy: wspt }
uncached_isl_buckets: [{ min_tokens: 0, bucket: cached }, { min_tokens: 3072, bucket: uncached }]
`;

function problems(text: string): string[] {
  try {
    parseConfig(text, 'p.yaml', NOTHING);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.report().split('\n');
  }
}

test('a whole profile is right, at the root and for a model', () => {
  expect(problems(SOUND)).toEqual([]);
  expect(problems(`models:\n  m:\n${SOUND.replace(/^/gm, '    ')}`)).toEqual([]);
});

test.each([
  [
    /^default.*\n/,
    '',
    ['p.yaml:1:1: policy_classes: needs default_policy_family beside it; a queue profile has all three keys'],
  ],
  [
    'family: standard\n',
    'family: standrd\n',
    [
      'p.yaml:1:24: default_policy_family: no policy class has policy_family standrd (did you mean "standard"?)',
    ],
  ],
  [
    'min_tokens: 0',
    'min_tokens: 1',
    ['p.yaml:6:38: uncached_isl_buckets[0].min_tokens: the first bucket starts at 0'],
  ],
  [
    'min_tokens: 3072',
    'min_tokens: 0',
    ['p.yaml:6:73: uncached_isl_buckets[1].min_tokens: buckets are in rising order, and 0 is not above 0'],
  ],
  ['name: long', 'name: short', ['p.yaml:4:13: policy_classes[1].name: policy class "short" is given twice']],
  [
    'name: express',
    'name: standard',
    [
      'p.yaml:5:13: policy_classes[2].name: "standard" is a policy family, so a class without one cannot have that name',
    ],
  ],
  [
    'name: express',
    'name: express, policy_family: standard',
    ['p.yaml:5:5: policy_classes[2]: has policy_family and cache_bucket both, or neither'],
  ],
  [
    'cache_bucket: uncached',
    'cache_bucket: cached',
    [
      'p.yaml:3:3: policy_classes: family standard has no class for bucket uncached',
      'p.yaml:4:5: policy_classes[1]: another class already stands for family standard and bucket cached',
    ],
  ],
  [
    'cache_bucket: uncached',
    'cache_bucket: uncachd',
    [
      'p.yaml:3:3: policy_classes: family standard has no class for bucket uncached',
      'p.yaml:4:58: policy_classes[1].cache_bucket: no bucket is named "uncachd" (did you mean "uncached"?)',
    ],
  ],
  [
    'name: express',
    'name: express, busy_worker_ratio: 0.5',
    [
      'p.yaml:5:22: policy_classes[2].busy_worker_ratio: needs prefill_busy_threshold or prefill_busy_threshold_frac beside it, which say who is busy',
    ],
  ],
  [
    'name: express',
    'name: express, busy_worker_ratio: 0, prefill_busy_threshold: 1',
    ['p.yaml:5:41: policy_classes[2].busy_worker_ratio: expected a number above 0, up to 1, found 0'],
  ],
  [
    'name: express',
    'name: ex press',
    ['p.yaml:5:13: policy_classes[2].name: "ex press" is no name of letters, digits, "_", "." and "-"'],
  ],
  [
    'queue_policy: wspt',
    'queue_policy: lcfs',
    ['p.yaml:5:51: policy_classes[2].queue_policy: expected one of fcfs, wspt, found "lcfs"'],
  ],
])('%s as %j is refused', (from, to, expected) => {
  expect(
    problems(SOUND.replace(from, to)).map((line) => line.replace(/ \(did you mean "fcfs"\?\)/, '')),
  ).toEqual(expected);
});
