import { expect, test } from 'vitest';
import { programName } from './program-name.ts';

const npx = { npm_lifecycle_event: 'npx', npm_config_local_prefix: '/clone' };

test.each([
  ['a program on the path', {}, '/usr/bin/pointsman', '/home', 'pointsman'],
  ['node, from the folder of the clone', {}, '/clone/dist/cli/main.js', '/clone', 'node dist/cli/main.js'],
  ['node, from elsewhere', {}, '/clone/dist/cli/main.js', '/home', 'node /clone/dist/cli/main.js'],
  ['npx in the clone', npx, '/clone/dist/cli/main.js', '/clone/policies', 'npx pointsman'],
  ['npx from elsewhere', npx, '/clone/dist/cli/main.js', '/home', 'npx --prefix /clone pointsman'],
  [
    'a script of npm that is no npx',
    { ...npx, npm_lifecycle_event: 'start' },
    '/a/pointsman',
    '/a',
    'pointsman',
  ],
])('%s is named as it was called', (_, env, script, folder, expected) => {
  expect(programName(env, script, folder)).toBe(expected);
});
