// Reads the arguments of `python -m sglang.launch_server` as far as its double acts on them, so that a quick start can be tried with the
// very flags that it names. A flag that the double does not know is an error: what it would change would silently not be changed.
import { PointsmanError } from '../../../plugin/index.ts';
import type { SimulatedEngineSettings, SimulatedRole } from '../../types.ts';
import type { SglangDoubleOptions } from './sglang-double.ts';

/** A server as its flags say: what its machine is set to, and what is spoken around it. */
export interface SglangServe {
  readonly settings: Partial<SimulatedEngineSettings>;
  readonly double: Partial<Omit<SglangDoubleOptions, 'settings' | 'hasher' | 'clock'>>;
}

type Apply = (value: string, flag: string) => SglangServe;

const inMachine = (settings: Partial<SimulatedEngineSettings>): SglangServe => ({ settings, double: {} });
const around = (double: SglangServe['double']): SglangServe => ({ settings: {}, double });

const VALUES: Readonly<Record<string, Apply>> = {
  '--model-path': (model) => inMachine({ model }),
  '--served-model-name': (model) => inMachine({ model }),
  '--host': () => around({}),
  '--tp-size': () => around({}),
  '--mem-fraction-static': () => around({}),
  '--port': (value, flag) => around({ port: whole(value, flag, 0, 65_535) }),
  '--page-size': (value, flag) => inMachine({ blockSize: whole(value, flag) }),
  '--dp-size': (value, flag) => around({ ranks: whole(value, flag, 1, 64) }),
  '--context-length': (value, flag) => around({ contextLength: whole(value, flag) }),
  '--chunked-prefill-size': (value, flag) => inMachine({ maxNumBatchedTokens: whole(value, flag) }),
  '--max-running-requests': (value, flag) => inMachine({ maxNumSeqs: whole(value, flag) }),
  '--disaggregation-mode': (value, flag) => inMachine({ role: roleOf(value, flag) }),
  '--kv-events-config': (value, flag) => around({ events: eventsOf(value, flag) }),
};

const SWITCHES: Readonly<Record<string, SglangServe>> = {
  '--enable-metrics': around({ metrics: true }),
  '--enable-session-radix-cache': around({}),
  '--enable-cache-report': around({ reportsCache: true }),
  '--incremental-streaming-output': around({ incremental: true }),
  '--enable-priority-scheduling': around({ priorities: true }),
  '--abort-on-priority-when-disabled': around({ refusesPriorities: true }),
};

/**
 * The server that these arguments would start, the words behind `sglang.launch_server`. --max-total-tokens counts in pages of --page-size.
 * @throws PointsmanError PM_SIM_SETTINGS naming the argument that is wrong or not known.
 */
export function readSglangServe(args: readonly string[]): SglangServe {
  let settings: Partial<SimulatedEngineSettings> = {};
  let double: SglangServe['double'] = {};
  let tokens: number | null = null;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? '';
    let change = Object.hasOwn(SWITCHES, word) ? SWITCHES[word] : undefined;
    if (change === undefined) {
      const apply = Object.hasOwn(VALUES, word) ? VALUES[word] : undefined;
      if (apply === undefined && word !== '--max-total-tokens')
        throw wrong(`${word.slice(0, 100)} is not known to the double`);
      const value = args[at + 1];
      if (value === undefined) throw wrong(`${word} takes a value`);
      at += 1;
      if (apply === undefined) tokens = whole(value, word);
      else change = apply(value, word);
    }
    settings = { ...settings, ...change?.settings };
    double = { ...double, ...change?.double };
  }
  if (tokens !== null) settings = { ...settings, kvBlocks: Math.floor(tokens / (settings.blockSize ?? 1)) };
  return { settings: { blockSize: 1, ...settings }, double };
}

function whole(value: string, flag: string, least = 1, most = 2 ** 31): number {
  const count = Number(value);
  if (/^\d+$/.test(value) && count >= least && count <= most) return count;
  throw wrong(`${flag} is "${value.slice(0, 100)}"; it must be a whole number from ${least} to ${most}`);
}

function roleOf(value: string, flag: string): SimulatedRole {
  if (value === 'prefill' || value === 'decode') return value;
  if (value === 'null') return 'aggregated';
  throw wrong(`${flag} must be null, prefill or decode`);
}

function eventsOf(text: string, flag: string): NonNullable<SglangDoubleOptions['events']> | null {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw wrong(`${flag} is not JSON`);
  }
  if (typeof given !== 'object' || given === null) throw wrong(`${flag} is no JSON object`);
  const config: Readonly<Record<string, unknown>> = { ...given };
  // SGLang's own default is a publisher that publishes nothing.
  if (config.publisher !== 'zmq') return null;
  const { endpoint = 'tcp://*:5557', replay_endpoint: replay = null, topic = '' } = config;
  if (typeof topic !== 'string') throw wrong(`${flag}: topic must be a string`);
  return { topic, base: portOf(endpoint, flag), replayBase: replay === null ? null : portOf(replay, flag) };
}

function portOf(endpoint: unknown, flag: string): number {
  const [, port] =
    (typeof endpoint === 'string' ? /^tcp:\/\/(?:\*|0\.0\.0\.0):(\d{1,5})$/.exec(endpoint) : null) ?? [];
  if (port === undefined) throw wrong(`${flag}: endpoint must look like tcp://*:5557`);
  return Number(port);
}

function wrong(problem: string): PointsmanError {
  return new PointsmanError(
    'PM_SIM_SETTINGS',
    `the arguments of sglang.launch_server cannot be used: ${problem}`,
  );
}
