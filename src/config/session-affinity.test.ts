import { expect, it } from 'vitest';
import { parseConfig } from './load.ts';

const read = (keys: string) => parseConfig(`router: { session_affinity: { ${keys} } }`, 'router.yaml');
const problemsOf = (keys: string): string => {
  try {
    read(keys);
    return '';
  } catch (thrown) {
    return String(thrown);
  }
};

it('reads the keys of session affinity', () => {
  const { config, warnings } = read('mode: hard, ttl: 90s, subagents: own, max_sessions: 7');
  expect(config.router.sessionAffinity).toEqual({
    mode: 'hard',
    ttlMs: 90_000,
    groupsSubagents: false,
    maxSessions: 7,
  });
  expect(warnings).toEqual([]);
});

it.each([
  ['ttl: 1s', 'ttl: 999ms'],
  ['ttl: 8760h', 'ttl: 8761h'],
  ['max_sessions: 1', 'max_sessions: 0'],
  ['max_sessions: 1000000', 'max_sessions: 1000001'],
])('takes %s and not %s', (most, more) => {
  expect(problemsOf(`mode: soft, ${most}`)).toBe('');
  expect(problemsOf(`mode: soft, ${more}`)).toContain(`router.session_affinity.${more.split(':')[0]}`);
});

it('warns of keys without a mode, as nothing is bound then', () => {
  const warned = (keys: string) => {
    const { source, warnings } = read(keys);
    return warnings.map((warning) => source.render(warning));
  };
  expect(warned('ttl: 1m')).toEqual([
    'router.yaml:1:11: router.session_affinity: has no effect without mode: soft, or mode: hard',
  ]);
  expect(warned('mode: off, ttl: 1m')).toEqual([]);
  expect(warned('mode: soft')).toEqual([]);
});
