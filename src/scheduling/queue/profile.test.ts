// Which class a request waits in.
import { describe, expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../../config/index.ts';
import { profileOf } from './profile.ts';

const ROOT = `default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: cached }, { min_tokens: 3072, bucket: uncached }]
policy_classes:
  - { name: cached, policy_family: standard, cache_bucket: cached, queue_policy: wspt, quantum: 2048, prefill_busy_threshold_frac: 16 }
  - { name: uncached, policy_family: standard, cache_bucket: uncached, quantum: 512, prefill_busy_threshold_frac: 16, busy_worker_ratio: 0.95 }
  - { name: latency_cached, policy_family: latency, cache_bucket: cached, quantum: 4096 }
  - { name: latency_uncached, policy_family: latency, cache_bucket: uncached, quantum: 1024 }
  - { name: custom_priority, quantum: 4096, queue_policy: wspt, request_queue_limit_per_worker: 128 }
`;
const OWN = `models:
  big:
    default_policy_family: only
    uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
    policy_classes: [{ name: one, policy_family: only, cache_bucket: any, quantum: 7 }]
  small: { block_size: 16 }
`;
const profile = (yaml: string, model = 'small') =>
  profileOf(queueSettingsOf(parseConfig(yaml, 'p.yaml').config), model);
const nameOf = (yaml: string, name: string | null, uncached: number, model = 'small'): string | undefined => {
  const found = profile(yaml, model);
  return found?.classes[found.classOf(name, uncached)]?.name;
};

describe('the profile of a model', () => {
  it('is its own, else the root, else one class by the queue keys of router', () => {
    expect(profile(ROOT + OWN, 'big')?.classes.map(({ name }) => name)).toEqual(['one']);
    expect(profile(ROOT + OWN)?.classes).toHaveLength(5);
    expect(profile('router: { router_queue_threshold: 2.5, router_queue_policy: wspt }')?.classes).toEqual([
      {
        name: 'default',
        family: null,
        bucket: null,
        policy: 'wspt',
        quantum: 1,
        prefillBusyThreshold: null,
        prefillBusyThresholdFrac: 2.5,
        busyWorkerRatio: null,
        requestLimit: null,
        rawIslLimit: null,
        cachedLimit: null,
      },
    ]);
  });

  it('is none by default: nothing queues', () => {
    expect(profile('')).toBeNull();
    expect(profile(OWN)).toBeNull();
    expect(profile(OWN, 'big')?.queues).toBe(false);
    expect(profile(ROOT)?.queues).toBe(true);
    expect(profile('router: { router_queue_threshold: 0 }')?.queues).toBe(true);
  });
});

describe('the class of a request', () => {
  it.each([
    [null, 0, 'cached'],
    [null, 3071, 'cached'],
    [null, 3072, 'uncached'],
    ['latency', 10, 'latency_cached'],
    ['latency', 1e6, 'latency_uncached'],
    ['standard', 1e6, 'uncached'],
    ['custom_priority', 1e6, 'custom_priority'],
    // Classes of the matrix have no name to ask for, and unknown ones mean the default family.
    ['latency_cached', 1e6, 'uncached'],
    ['nobody', 1, 'cached'],
    ['', 1, 'cached'],
  ])('asked for as %j with %i uncached tokens is %s', (name, uncached, expected) => {
    expect(nameOf(ROOT, name, uncached)).toBe(expected);
  });

  it('is the one class where there is no profile', () => {
    expect(nameOf('router: { router_queue_threshold: 1 }', 'anything', 5)).toBe('default');
  });
});
