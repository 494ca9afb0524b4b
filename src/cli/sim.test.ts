import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { SimulatorAddress } from '../simulator/index.ts';
import { runCli } from './run.ts';
import { spawnSimulators } from './spawn-simulators.ts';

// The program from source: jiti compiles it on the way.
const jiti = dirname(createRequire(import.meta.url).resolve('jiti/package.json'));
const entry = [join(jiti, 'lib/jiti-cli.mjs'), fileURLToPath(new URL('./main.ts', import.meta.url))];

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

function run(...args: string[]) {
  const child = spawn(process.execPath, [...entry, 'sim', ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  children.push(child);
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  let log = '';
  child.stderr.on('data', (bytes: Buffer) => {
    log += bytes.toString();
  });
  const addresses = async (): Promise<SimulatorAddress[]> => {
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return (JSON.parse(line) as { engines: SimulatorAddress[] }).engines;
  };
  return { child, exited, addresses, log: () => log };
}

const complete = (url: string, max_tokens: number): Promise<Response> =>
  fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify({ prompt: 'the old', max_tokens }) });

async function untilRunning(url: string): Promise<void> {
  const wanted = 'vllm:num_requests_running{model_name="tiny-sim"} 1';
  while (!(await (await fetch(`${url}/metrics`)).text()).includes(wanted));
}

describe('pointsman sim', () => {
  it('tells the addresses of all engines on its first line and serves on them', async () => {
    const { addresses, exited, child } = run(
      '--count',
      '2',
      '--model',
      'm',
      '--block-size',
      '8',
      '--speed',
      '100',
    );
    const engines = await addresses();
    expect(engines).toHaveLength(2);
    expect(new Set(engines.flatMap((engine) => [engine.url, engine.kv_events, engine.control])).size).toBe(6);
    for (const engine of engines) {
      expect(engine).toMatchObject({ model: 'm', block_size: 8, hash_scheme: 'sim-xxh3/seed=0' });
      expect((await complete(engine.url, 4)).status).toBe(200);
    }
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
  });

  it('lets a running request finish at SIGTERM, and ends at once with 1 at a second signal', async () => {
    const graceful = run('--speed', '2');
    const url = (await graceful.addresses())[0]!.url;
    const answer = complete(url, 60);
    await untilRunning(url);
    graceful.child.kill('SIGTERM');
    expect(((await (await answer).json()) as { usage: object }).usage).toMatchObject({
      completion_tokens: 60,
    });
    expect(await graceful.exited).toBe(0);

    const hasty = run();
    const other = (await hasty.addresses())[0]!.url;
    const lost = complete(other, 10_000).catch(() => 'lost');
    await untilRunning(other);
    hasty.child.kill('SIGINT');
    while (!hasty.log().includes('stopping')) await once(hasty.child.stderr!, 'data');
    hasty.child.kill('SIGTERM');
    expect(await hasty.exited).toBe(1);
    expect(await lost).toBe('lost');
  });

  it('refuses bad options with exit code 2 and a busy port with 1', async () => {
    const bad = run('--count', 'many');
    expect(await bad.exited).toBe(2);
    expect(bad.log()).toBe(
      "error: option '--count <n>' argument 'many' is invalid. It must be a whole number from 1 to 256.\n" +
        'pointsman sim --help lists arguments and options\n',
    );
    const unnamed = run('--accept-action', 'acme.pin@1.0', '--accept-action', 'pin');
    expect(await unnamed.exited).toBe(2);
    expect(unnamed.log()).toContain(
      "argument 'pin' is invalid. It must be TYPE@VERSION, such as acme.pin@1.0.",
    );
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const busy = run('--port', String(port));
    expect(await busy.exited).toBe(1);
    expect(busy.log()).toContain(
      `a simulated engine cannot listen on 127.0.0.1:${port}: another process uses that port`,
    );
    server.close();
  });
});

describe('pointsman sim, before anything starts', () => {
  it.each([
    [
      ['--count', '2', '--port', '65535'],
      '2 simulated engines from port 65535 on need ports up to 65536; the highest there is is 65535',
    ],
    [['--model='], "the simulated engine's model name has 0 characters; it must have 1 to 1024"],
  ])('refuses %j with exit code 2', async (args, sentence) => {
    let log = '';
    const io = {
      out: () => expect.unreachable(),
      err: (text: string) => {
        log += text;
      },
      env: {},
      fancy: false,
      exit: () => undefined,
    };
    expect(await runCli(['sim', ...args], io)).toBe(2);
    expect(log).toBe(`error: ${sentence} [PM_SIM_SETTINGS]\n`);
  });
});

describe('spawnSimulators', () => {
  it('starts a child, stops it, and tells how it ended', async () => {
    const spawned = await spawnSimulators({ count: 2, entry, logs: 'ignore', args: ['--speed', '100'] });
    expect(spawned.engines).toHaveLength(2);
    expect((await complete(spawned.engines[1]!.url, 2)).status).toBe(200);
    await spawned.stop();
    expect(await spawned.exited).toEqual({ code: 0, signal: null });
  });

  it('ends running requests when it is killed', async () => {
    const spawned = await spawnSimulators({ count: 1, entry, logs: 'ignore' });
    const url = spawned.engines[0]!.url;
    const lost = complete(url, 10_000).catch(() => 'lost');
    await untilRunning(url);
    spawned.kill();
    expect(await spawned.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await lost).toBe('lost');
  });

  it('says why a child did not start', async () => {
    const start = (args: string[], program = entry) =>
      spawnSimulators({ count: 1, entry: program, logs: 'ignore', args });
    const sentence = 'the simulated engines did not start:';
    await expect(start(['--speed', 'fast'])).rejects.toThrow(
      `${sentence} their process ended with exit code 2; its log says why`,
    );
    await expect(start([], ['-e', 'console.log("hello");setInterval(()=>{},1000)'])).rejects.toThrow(
      `${sentence} the first line of their process does not tell the engines’ addresses`,
    );
    await expect(
      spawnSimulators({ count: 1, entry: ['-e', 'setInterval(()=>{},1000)'], startTimeoutMs: 100 }),
    ).rejects.toThrow(`${sentence} their process told no addresses within 100 ms`);
  });
});
