// Reloads of the built program while clients call it: behaviour follows the files, and no request fails.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from './live-support.ts';
import { metric, routerYaml, type Serving, serve, simulators, stopAll } from './support/live-processes.ts';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));

afterEach(stopAll);

const policy = (
  body: string,
): string => `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { ROW } from './row.ts';
export default defineWorkerSelectionPolicy({
  type: 'fixed',
  create: () => ({ picker: pickWorker({ pick: () => { ${body} } }) }),
});
`;
const row = (value: number): string => `export const ROW = ${value};\n`;

const POLICIES = 'plugins: [./fixed.ts]\nworker_selection: { aggregated: fixed }\n';

async function start(
  policies = POLICIES,
): Promise<Serving & { readonly yaml: (policies: string) => string }> {
  const { engines } = await simulators(2);
  const yaml = (text: string): string =>
    routerYaml(
      engines.map(({ url }) => ({ url })),
      text,
    );
  const serving = await serve({
    'fixed.ts': policy('return ROW;'),
    'row.ts': row(0),
    'router.yaml': yaml(policies),
  });
  return { ...serving, yaml };
}

async function complete(url: string): Promise<{ readonly status: number; readonly worker: string }> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt: 'Hello town', max_tokens: 4 }),
  });
  await answer.text();
  return { status: answer.status, worker: answer.headers.get('x-pointsman-worker') ?? '' };
}

/** Clients that ask one after the other until they are told to stop. */
function clients(count: number, url: string) {
  const workers = new Set<string>();
  const statuses = new Map<number | string, number>();
  let stopped = false;
  let answers = 0;
  const one = async (): Promise<void> => {
    while (!stopped) {
      const { status, worker } = await complete(url).catch((thrown: unknown) => {
        return { status: String(thrown), worker: 'none' };
      });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      workers.add(worker);
      answers += 1;
    }
  };
  const running = Array.from({ length: count }, one);
  return {
    /** Waits until a whole round of answers came from one worker alone. */
    async allFrom(worker: string): Promise<void> {
      for (;;) {
        const from = answers + count;
        await until('every client was answered again', () => answers >= from);
        workers.clear();
        const to = answers + 2 * count;
        await until('every client was answered again', () => answers >= to);
        if (workers.size === 1 && workers.has(worker)) return;
      }
    },
    async stop(): Promise<Record<string, number>> {
      stopped = true;
      await Promise.all(running);
      return Object.fromEntries(statuses);
    },
  };
}

interface Plugins {
  readonly generation: number;
  readonly reload: {
    readonly result: string;
    readonly problems: string[];
    readonly warnings: string[];
  } | null;
  readonly refused: { readonly plugin: string | null; readonly reason: string }[];
  readonly plugins: { readonly version: string }[];
}

const plugins = async ({ admin }: Serving): Promise<Plugins> =>
  (await (await fetch(`${admin}/plugins`)).json()) as Plugins;

/** Waits for the next reload to end with a result. */
async function reloaded(serving: Serving, result: string): Promise<Plugins> {
  for (;;) {
    const status = await plugins(serving);
    if (status.reload?.result === result) return status;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function cli(...args: string[]): Promise<{ readonly code: unknown; readonly out: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (part: Buffer) => {
    out += part.toString();
  });
  const [code] = await once(child, 'close');
  return { code, out };
}

describe('files that change under 50 concurrent clients', () => {
  it('a policy and a file it imports take effect, and no request fails', async () => {
    const serving = await start();
    const load = clients(50, serving.url);
    await load.allFrom('1:0');
    serving.write('row.ts', row(1));
    await load.allFrom('2:0');
    serving.write('fixed.ts', policy('return 1 - ROW;'));
    await load.allFrom('1:0');
    const statuses = await load.stop();
    expect(Object.keys(statuses)).toEqual(['200']);
    expect((await plugins(serving)).generation).toBe(3);
    expect(await metric(serving.admin, 'pointsman_selection_fallbacks_total')).toBe(0);
  });

  it('a syntax error, a version that always throws and a deleted file leave the old one serving, with the reason', async () => {
    const serving = await start();
    const load = clients(50, serving.url);
    await load.allFrom('1:0');
    const [before] = (await plugins(serving)).plugins;

    serving.write('row.ts', 'export const ROW = ;\n');
    const broken = await reloaded(serving, 'failed');
    expect(broken.reload?.problems[0]).toMatch(
      /router\.yaml:\d+:\d+: plugins\[0\]: cannot load \.\/fixed\.ts: .*row\.ts:1:\d+/,
    );
    await until('the log tells', () => serving.log().includes('a reload failed, everything stays as it was'));

    serving.write('row.ts', row(1));
    await load.allFrom('2:0');
    const second = await plugins(serving);
    expect([second.generation, second.reload?.result]).toEqual([2, 'applied']);

    // One that is not proved yet gives way to the next; that one fails.
    serving.write('fixed.ts', policy(`throw new Error('never ' + ROW);`));
    const back = await reloaded(serving, 'rolled_back');
    expect([back.generation, back.plugins[0]?.version]).toEqual([2, second.plugins[0]?.version]);
    const why =
      /generation 3 was rolled back to 2: fixed \(role aggregated, version [0-9a-f]{12}\) tripped its breaker/;
    expect(back.refused).toMatchObject([{ plugin: './fixed.ts', reason: expect.stringMatching(why) }]);
    await until('the log tells', () => why.test(serving.log()));
    await load.allFrom('2:0');

    // Asked for again, the same content is not tried again.
    const again = await cli('plugins', 'reload', '--admin', serving.admin);
    expect([again.code, again.out]).toEqual([
      1,
      expect.stringMatching(
        /version [0-9a-f]{12} is not tried again until the file changes: generation 3 was/,
      ),
    ]);
    const listed = await cli('plugins', 'list', '--admin', serving.admin);
    expect(listed.code).toBe(0);
    expect(listed.out).toMatch(/\.\/fixed\.ts +[0-9a-f]{12} +fixed +aggregated +2 +serving/);
    expect(listed.out).toMatch(
      /not tried again until it changes: \.\/fixed\.ts [0-9a-f]{12} \(generation 3 was/,
    );

    serving.remove('fixed.ts');
    const gone = await reloaded(serving, 'failed');
    expect(gone.generation).toBe(2);
    await until('the deleted file is told', () =>
      serving.log().includes('cannot load ./fixed.ts: no such file'),
    );
    serving.write('fixed.ts', policy('return ROW;'));
    await reloaded(serving, 'unchanged');
    await load.allFrom('2:0');
    expect(Object.keys(await load.stop())).toEqual(['200']);
    expect(before?.version).not.toBe(second.plugins[0]?.version);
    expect(await metric(serving.admin, 'pointsman_plugin_rollbacks_total')).toBe(1);
  });
});

describe('a configuration that changes', () => {
  it('takes live keys, names start keys that differ, adds and drains workers', async () => {
    const serving = await start('');
    const load = clients(8, serving.url);
    const status = (): Promise<{ id: number; state: string }[]> =>
      fetch(`${serving.admin}/workers`).then(
        (answer) => answer.json() as Promise<{ id: number; state: string }[]>,
      );
    const text = serving.yaml(
      `${POLICIES}limits: { concurrent_requests: 77, index_bytes: 1MiB }\nlisten: { port: 1 }\n`,
    );
    serving.write('router.yaml', text);
    const first = await reloaded(serving, 'applied');
    expect(first.reload?.warnings).toEqual([
      expect.stringMatching(/limits\.index_bytes: changed, but it takes effect only at the next start/),
    ]);
    const config = (await (await fetch(`${serving.admin}/config`)).json()) as {
      limits: { concurrentRequests: number; indexBytes: number };
    };
    expect(config.limits).toMatchObject({ concurrentRequests: 77, indexBytes: 512 * 2 ** 20 });
    await load.allFrom('1:0');

    // From now on the log tells errors alone; the watchdog watches on with another limit.
    const quiet = `${text}observe: { log_level: error }\ncontainment: { watchdog: 20s }\n`;
    await until('the log tells', () => serving.log().includes('"msg":"reloaded"'));
    const told = serving.log();
    serving.write('router.yaml', quiet);
    for (let now = await plugins(serving); now.generation < 3; now = await plugins(serving)) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(serving.log()).toBe(told);

    serving.write('router.yaml', text.replace(/ {2}- \{ id: 1, .*\n/, ''));
    await load.allFrom('2:0');
    for (let left = await status(); left.length > 1; left = await status()) {
      expect(left.map(({ state }) => state)).toEqual(['draining', 'ready']);
    }
    serving.write('router.yaml', text);
    await load.allFrom('1:0');
    expect(Object.keys(await load.stop())).toEqual(['200']);
  });

  it('is read again on SIGHUP, and a mistake in it changes nothing', async () => {
    const serving = await start('plugins: [./fixed.ts]\n');
    serving.write('router.yaml', serving.yaml('worker_selection: { aggregated: fixt }\n'));
    const failed = await reloaded(serving, 'failed');
    expect(failed.reload?.problems).toEqual([
      expect.stringContaining('unknown worker-selection policy "fixt"'),
    ]);
    process.kill(serving.pid, 'SIGHUP');
    await until('the signal was heard', () => serving.log().includes('"trigger":"signal"'));
    serving.write('router.yaml', serving.yaml(POLICIES));
    expect((await reloaded(serving, 'applied')).generation).toBe(2);
    expect((await complete(serving.url)).worker).toBe('1:0');
    expect(await metric(serving.admin, 'pointsman_config_reload_failed_total')).toBe(2);
  });

  it('is refused where a policy needs the index that nothing needed at the start', async () => {
    const serving = await start(POLICIES.replace(' }', ', prefill: fixed, decode: fixed, encode: fixed }'));
    serving.write('router.yaml', serving.yaml('plugins: [./fixed.ts]\n'));
    const { reload } = await reloaded(serving, 'failed');
    expect(reload?.problems[0]).toMatch(
      /worker_selection\.aggregated: role aggregated \(dynamo-default-cost-fn\) now reads what workers have cached, but this router was started without the prefix index, as nothing read it then; restart it/,
    );
  });
});
