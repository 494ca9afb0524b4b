// Starts `pointsman sim` as a child process that ends with this one, and reads its addresses from the first stdout line.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { SimulatorAddress } from '../simulator/index.ts';

/** What is started. */
export interface SpawnSimulatorsOptions {
  readonly count: number;
  /** Further arguments of `pointsman sim`, for example `['--speed', '10']`. */
  readonly args?: readonly string[];
  /** Arguments of node that run the program; default: the built `dist/cli/main.js`. */
  readonly entry?: readonly string[];
  /** Where the child's logs go; default `inherit`. */
  readonly logs?: 'inherit' | 'ignore';
  /** How long the first line may take, ms; default 15,000. */
  readonly startTimeoutMs?: number;
}

/** A running child. */
export interface SpawnedSimulators {
  readonly engines: readonly SimulatorAddress[];
  readonly pid: number;
  /** Resolves when the child has ended, however. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>;
  /** Ends the child: closes its input and, if it does not react within two seconds, kills it. */
  stop(): Promise<void>;
  /** Kills the child at once, as a crash would. */
  kill(): void;
}

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 2_000;

/**
 * Starts the child and waits for its addresses.
 * @throws PointsmanError PM_SIM_START when it ends or says nothing in time, or says something else.
 */
export async function spawnSimulators(options: SpawnSimulatorsOptions): Promise<SpawnedSimulators> {
  const { count, args = [], entry = [mainScript()], logs = 'inherit' } = options;
  const command = [...entry, 'sim', '--exit-with-parent', '--count', String(count), ...args];
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', logs] });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.on('exit', (code, signal) => resolve({ code, signal }));
    child.on('error', () => resolve({ code: null, signal: null }));
  });
  // A child that is gone already cannot be told anything.
  child.stdin?.on('error', () => undefined);
  try {
    const line = await firstLine(child, options.startTimeoutMs ?? START_TIMEOUT_MS);
    const engines = readAddresses(line);
    child.stdout?.resume();
    return {
      engines,
      pid: child.pid ?? 0,
      exited,
      async stop() {
        child.stdin?.end();
        const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
        await exited;
        clearTimeout(timer);
      },
      kill: () => {
        child.kill('SIGKILL');
      },
    };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}

/** The program beside this file when built; the built one also when run from source. */
function mainScript(): string {
  const here = import.meta.url;
  return fileURLToPath(new URL(here.endsWith('.ts') ? '../../dist/cli/main.js' : './main.js', here));
}

async function firstLine(child: ChildProcess, timeoutMs: number): Promise<string> {
  const { stdout } = child;
  if (stdout === null) throw failed('its output cannot be read');
  const lines = createInterface({ input: stdout });
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const [line] = (await Promise.race([
      once(lines, 'line', { signal: timeout }),
      once(child, 'exit', { signal: timeout }).then(([code]) => {
        throw failed(`their process ended with exit code ${code}; its log says why`);
      }),
    ])) as [string];
    return line;
  } catch (cause) {
    if (cause instanceof PointsmanError) throw cause;
    throw failed(
      timeout.aborted ? `their process told no addresses within ${timeoutMs} ms` : errorText(cause),
      cause,
    );
  } finally {
    lines.close();
  }
}

function readAddresses(line: string): readonly SimulatorAddress[] {
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed === 'object' && parsed !== null && 'engines' in parsed) {
      const { engines } = parsed;
      if (Array.isArray(engines) && engines.every(isAddress)) return engines;
    }
  } catch {
    // Told below.
  }
  throw failed('the first line of their process does not tell the engines’ addresses');
}

function isAddress(value: unknown): value is SimulatorAddress {
  if (typeof value !== 'object' || value === null) return false;
  const { url, kv_events, kv_events_replay, control, model, block_size } = value as Partial<
    Record<keyof SimulatorAddress, unknown>
  >;
  return (
    [url, kv_events, control, model].every((text) => typeof text === 'string') &&
    (kv_events_replay === null || typeof kv_events_replay === 'string') &&
    typeof block_size === 'number'
  );
}

function failed(problem: string, cause?: unknown): PointsmanError {
  return new PointsmanError('PM_SIM_START', `the simulated engines did not start: ${problem}`, { cause });
}
