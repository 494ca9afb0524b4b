import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { exactJsonStringify } from '../plugin/index.ts';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';
import { parseTimingProfile, writtenTimingProfile } from './timing-profile.ts';

function load(profile: string | null) {
  return parseConfig('router:\n  timing_profile: ./timing.yaml\n', '/etc/pm/router.yaml', {
    env: {},
    readFile(path) {
      expect(path).toBe('/etc/pm/timing.yaml');
      if (profile === null) throw Object.assign(new Error('x'), { code: 'ENOENT' });
      return profile;
    },
  });
}

function problemsOf(profile: string | null): string {
  try {
    load(profile);
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.message;
    throw thrown;
  }
  return '';
}

test('a profile is read beside the configuration, in ms, and its file is one of those to watch', () => {
  const { config, files } = load(
    'kinds:\n' +
      '  - { model: tiny, role: prefill, engine: vllm, device: H100, prefill_us_per_token: 20, attention_ns_per_pair: 2, decode_ms: 7 }\n' +
      '  - { prefill_ms_per_prompt: 12, decode_fill_ms: 50, fixed: true }\n',
  );
  const [first, second] = config.router.timingProfile;
  expect(first).toMatchObject({
    model: 'tiny',
    role: 'prefill',
    engine: 'vllm',
    device: 'H100',
    fixed: false,
  });
  expect(first?.prefillTokenMs).toBeCloseTo(0.02, 12);
  expect(first?.prefillAttentionMs).toBeCloseTo(2e-6, 15);
  expect([first?.prefillPassMs, first?.decodeMs, first?.decodeFillMs]).toEqual([null, 7, null]);
  expect(second).toMatchObject({ model: null, role: null, prefillPassMs: 12, decodeFillMs: 50, fixed: true });
  expect(files).toEqual(['/etc/pm/timing.yaml']);
});

test.each<[string, string | null, readonly string[]]>([
  [
    'an unknown key',
    'kinds:\n  - { decode_msec: 5 }\n',
    ['/etc/pm/timing.yaml:2:7', 'did you mean "decode_ms"'],
  ],
  [
    'a time of 0',
    'kinds:\n  - decode_ms: 0\n',
    ['/etc/pm/timing.yaml:2:16', 'expected a number above 0, found 0'],
  ],
  [
    'a role that is none',
    'kinds:\n  - role: prefil\n',
    ['/etc/pm/timing.yaml:2:11', 'did you mean "prefill"'],
  ],
  ['no mapping', '- 1\n', ['the timing profile must be a YAML mapping']],
  ['a broken file', 'kinds: [\n', ['/etc/pm/timing.yaml']],
  ['a missing file', null, ['/etc/pm/router.yaml:2:', 'the timing profile ./timing.yaml cannot be read']],
  [
    'more kinds than are told apart',
    `kinds: [${Array.from({ length: 65 }, () => '{}').join(', ')}]\n`,
    ['has 65 kinds; at most 64 are told apart'],
  ],
])('%s is refused with its place', (_, profile, words) => {
  const text = problemsOf(profile);
  for (const word of words) expect(text).toContain(word);
});

test('what is written reads back the same', () => {
  const kind = {
    model: 'm',
    role: 'aggregated' as const,
    engine: 'sim',
    device: '',
    prefillTokenMs: 0.0152,
    prefillAttentionMs: 8.4e-7,
    prefillPassMs: 16.5,
    decodeMs: 5.74,
    decodeFillMs: 54.01,
    fixed: false,
  };
  const read = parseTimingProfile(JSON.parse(exactJsonStringify(writtenTimingProfile([kind]))));
  if ('problems' in read) throw new Error('it has problems');
  const [back] = read.kinds;
  expect(back).toEqual({
    ...kind,
    prefillTokenMs: expect.closeTo(kind.prefillTokenMs, 12),
    prefillAttentionMs: expect.closeTo(kind.prefillAttentionMs, 15),
  });
});

test('the profile that the page shows is one', () => {
  const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
  const [, profile = null] = /```yaml timing profile\n([\s\S]*?)```/.exec(page) ?? [];
  expect(profile).toContain('kinds:');
  expect(problemsOf(profile)).toBe('');
});
