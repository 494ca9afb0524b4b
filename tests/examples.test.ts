// The examples run, and the pages that show them show what is in the files.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { runCli } from '../src/cli/run.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const configurations = readdirSync(`${root}examples`).filter((name) => name.endsWith('.yaml'));
const pages = [
  'README.md',
  ...readdirSync(`${root}docs`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const shown = pages.flatMap((page) =>
  [...readFileSync(root + page, 'utf8').matchAll(/```ts file=(\S+)\n([\s\S]*?)```/g)].map((match) => ({
    page,
    file: match[1] ?? '',
    text: match[2] ?? '',
  })),
);

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const printed = { out: '', err: '' };
  const code = await runCli(args, {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    env: {},
    fancy: false,
    exit: () => {},
  });
  return { code, ...printed };
}

test('there are examples, and pages that show them', () => {
  expect(configurations.length).toBeGreaterThan(2);
  expect(shown.length).toBeGreaterThan(2);
});

test.each(configurations)('examples/%s passes check without a warning', async (name) => {
  const { code, out } = await run('check', `${root}examples/${name}`);
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('no errors, 0 warnings') });
});

test.each(shown)('$page shows $file as it is', ({ file, text }) => {
  expect(text).toBe(readFileSync(root + file, 'utf8'));
});

test.each(configurations)('a trace replays under examples/%s', async (name) => {
  const trace = `${root}tests/fixtures/mooncake_conversation_sample.jsonl`;
  const options = ['--workers', '3', '--block-size', '512', '--kv-blocks', '400', '--json'];
  const { code, out } = await run('replay', trace, '--compare', `${root}examples/${name}`, ...options);
  expect(code).toBe(0);
  const [report] = JSON.parse(out).runs;
  expect(report.completed).toBe(200);
});
