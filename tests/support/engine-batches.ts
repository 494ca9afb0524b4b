// Batches of engines' own encoders: as they were recorded, from a process that makes them, and what a router must know after them.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../python', import.meta.url));

/** One event of tests/python/cases.json. */
interface CaseEvent {
  readonly cleared?: true;
  readonly stored?: readonly string[];
  readonly parent?: string | null;
  readonly tokens?: readonly number[];
  readonly removed?: readonly string[];
}

interface Cases {
  readonly block_size: number;
  readonly batches: readonly (readonly CaseEvent[])[];
}

export const CASES: Cases = JSON.parse(readFileSync(`${FOLDER}/cases.json`, 'utf8'));

const recorded: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync(fileURLToPath(new URL('../fixtures/engine-events.json', import.meta.url)), 'utf8'),
);

/** Layouts of batches that engines have or had. */
export const LAYOUTS: readonly string[] = Object.keys(recorded);

/** The recorded batches of a layout. */
export function recordedBatches(layout: string): Uint8Array[] {
  return (recorded[layout] ?? []).map((hex) => Buffer.from(hex, 'hex'));
}

/** Prompts whose leading blocks the cases store. */
export const PROMPTS: readonly (readonly number[])[] = [
  [1, 2, 300, 70_000, 4_294_967_295, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
  [21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32],
  [1, 2, 300, 70_000, 4_294_967_295, 6, 7, 8, 9, 10, 11, 12, 41, 42, 43, 44],
];

/** Blocks that an engine holds of each prompt after these batches since its start, by the cases' own words. */
export function heldAfter(numbers: readonly number[]): number[] {
  const blocks = new Map<string, { readonly path: string }>();
  const pathOf = (hash: string | null | undefined): string =>
    hash === null || hash === undefined ? '' : (blocks.get(hash)?.path ?? 'unknown');
  const size = CASES.block_size;
  for (const event of numbers.flatMap((number) => CASES.batches[number] ?? [])) {
    if (event.cleared === true) blocks.clear();
    for (const hash of event.removed ?? []) blocks.delete(hash);
    let path = pathOf(event.parent);
    (event.stored ?? []).forEach((hash, block) => {
      path += `/${(event.tokens ?? []).slice(block * size, (block + 1) * size).join()}`;
      blocks.set(hash, { path });
    });
  }
  const paths = new Set([...blocks.values()].map(({ path }) => path));
  return PROMPTS.map((prompt) => {
    let path = '';
    let held = 0;
    for (let at = 0; at < prompt.length; at += size) {
      path += `/${prompt.slice(at, at + size).join()}`;
      if (!paths.has(path)) break;
      held += 1;
    }
    return held;
  });
}

/** The interpreter that has the packages of tests/python/requirements.txt; else why there is none, in words. */
export function findPython(): { readonly command: string } | { readonly missing: string } {
  const named = process.env.POINTSMAN_TEST_PYTHON;
  if (named !== undefined && !existsSync(named)) {
    throw new Error(`POINTSMAN_TEST_PYTHON names ${named}, and there is no such file`);
  }
  const command = named ?? 'python3';
  const { status, error } = spawnSync(command, ['-c', 'import msgspec, zmq'], { stdio: 'ignore' });
  if (status === 0) return { command };
  if (named !== undefined) throw new Error(`${named} lacks the packages of tests/python/requirements.txt`);
  return {
    missing:
      error === undefined
        ? 'python3 lacks the packages of tests/python/requirements.txt; install them and name their python in POINTSMAN_TEST_PYTHON'
        : 'there is no python3; install it with the packages of tests/python/requirements.txt',
  };
}

/** What a script of tests/python prints. */
export function printed(python: string, script: string): string {
  const { status, stdout, stderr } = spawnSync(python, [script], {
    cwd: FOLDER,
    encoding: 'utf8',
    env: clean(),
  });
  if (status !== 0) throw new Error(`${script} failed: ${stderr}`);
  return stdout;
}

/** A publisher process; `obey` waits until the order was done. */
export interface PythonPublisher {
  readonly live: string;
  readonly replay: string;
  obey(order: `send ${number}` | `lose ${number}` | 'heard' | 'restart'): Promise<void>;
  close(): Promise<void>;
}

/** Starts tests/python/publisher.py. @param kept batches it can repeat. */
export async function startPublisher(
  python: string,
  layout: string,
  frames: 3 | 4,
  kept: number,
): Promise<PythonPublisher> {
  const child = spawn(python, ['publisher.py', layout, String(frames), String(kept)], {
    cwd: FOLDER,
    env: clean(),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  const { live, replay } = JSON.parse(await nextLine(lines, child));
  return {
    live,
    replay,
    async obey(order) {
      child.stdin.write(`${order}\n`);
      const answer = await nextLine(lines, child);
      if (answer !== 'ok') throw new Error(`the publisher answered ${answer}`);
    },
    async close() {
      const exited = child.exitCode !== null ? null : once(child, 'exit');
      child.stdin.end();
      await exited;
    },
  };
}

async function nextLine(lines: Interface, child: ChildProcess): Promise<string> {
  const controller = new AbortController();
  const died = (): void => controller.abort(new Error('the publisher ended'));
  child.once('exit', died);
  try {
    const [line]: string[] = await once(lines, 'line', { signal: controller.signal });
    return line ?? '';
  } finally {
    child.off('exit', died);
  }
}

/** Compiled scripts would stay behind in the tree. */
function clean(): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONDONTWRITEBYTECODE: '1' };
}
