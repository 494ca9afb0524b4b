// The example package examples/tenant-fair: compiles against the published surface alone, its tests pass, its configuration is right.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { complete, routerYaml, serve, simulators, stopAll } from './support/live-processes.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-tenant-fair-'));

function run(...args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  } catch (thrown) {
    const { stderr, stdout } = thrown as { readonly stderr?: unknown; readonly stdout?: unknown };
    return `${stdout ?? ''}${stderr ?? ''}` || String(thrown);
  }
}

beforeAll(() => {
  cpSync(join(root, 'examples/tenant-fair'), folder, { recursive: true });
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/pointsman'), 'dir');
  symlinkSync(join(root, 'node_modules/zod'), join(folder, 'node_modules/zod'), 'dir');
});
afterAll(async () => {
  await stopAll();
  rmSync(folder, { recursive: true });
});

it('compiles, and what was built is loaded as a plugin', () => {
  expect(run(join(root, 'node_modules/typescript/bin/tsc'), '-p', '.')).toBe('');
  const printed = run(
    '--input-type=module',
    '-e',
    "console.log((await import('./dist/index.js')).default.type)",
  );
  expect(printed).toBe('tenant-fair\n');
});

it('has tests that pass', () => {
  const printed = run(join(root, 'node_modules/jiti/lib/jiti-cli.mjs'), 'test/tenant-fair.test.ts');
  expect(printed).toMatch(/^(?:#|ℹ) pass [1-9]/m);
  expect(printed).toMatch(/^(?:#|ℹ) fail 0$/m);
});

it('has a configuration that check accepts', () => {
  const printed = run(join(root, 'dist/cli/main.js'), 'check', 'router.yaml');
  expect(printed).toMatch(/^request classifier: tenant-fair [0-9a-f]+$/m);
  expect(printed).toContain('no errors, 0 warnings');
});

it('tells tenants apart by an agent header in a running router', async () => {
  const { engines } = await simulators(1);
  const parameters =
    '{ tokens_per_second: 0.001, burst_tokens: 30, max_wait_seconds: 0, tenant_header: X-Codex-Tenant }';
  const { url } = await serve({
    'router.yaml': routerYaml(
      engines,
      `plugins: ["${join(root, 'examples/tenant-fair/src/index.ts')}"]
request_classifier: { type: tenant-fair, parameters: ${parameters} }`,
    ),
  });
  const status = async (tenant: string, session: string) => {
    const headers = { 'x-dynamo-session-id': session, 'x-codex-tenant': tenant };
    const prompt = Array.from({ length: 20 }, (_, token) => token);
    return complete(url, prompt, headers, ',"model":"tiny"').then(
      () => 200,
      (thrown: unknown) => Number(/^Error: (\d+)/.exec(String(thrown))?.[1]),
    );
  };
  // One tenant's sessions share its tokens; another has its own.
  expect(await status('acme', 's1')).toBe(200);
  expect(await status('acme', 's2')).toBe(429);
  expect(await status('other', 's1')).toBe(200);
});
