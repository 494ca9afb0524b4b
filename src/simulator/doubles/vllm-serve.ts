// Reads the arguments of `vllm serve` as far as its double acts on them, so that a quick start can be tried with the very flags that it
// names. A flag that the double does not know is an error: what it would change would silently not be changed.
import { z } from 'zod';
import { PointsmanError } from '../../plugin/index.ts';

/** `--kv-events-config` with vLLM's defaults. */
export interface VllmKvEvents {
  readonly endpoint: string;
  readonly replayEndpoint: string | null;
  /** Batches kept for replay. */
  readonly bufferSteps: number;
  readonly topic: string;
}

/** A server as its flags say. */
export interface VllmServe {
  /** What is asked for at `/v1/models`, the first of `--served-model-name`. */
  readonly models: readonly string[];
  /** Names of `--lora-modules`, asked for like models. */
  readonly adapters: readonly string[];
  readonly port: number;
  readonly blockSize: number;
  readonly maxModelLen: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  /** KV blocks of one rank. */
  readonly kvBlocks: number;
  readonly prefixCaching: boolean;
  /** Null = no KV events. */
  readonly kvEvents: VllmKvEvents | null;
  readonly promptTokensDetails: boolean;
  readonly priorities: boolean;
  readonly ranks: number;
  readonly apiKey: string | null;
  readonly loadTracking: boolean;
  /** `kv_connector` of `--kv-transfer-config`; null = none, and `kv_transfer_params` are ignored. */
  readonly connector: string | null;
}

const MAX_RANKS = 64;

/** `vllm serve` without any flag; the model fits the double's own tokenizer. */
export const VLLM_SERVE_DEFAULTS: VllmServe = {
  models: ['tiny-sim'],
  adapters: [],
  port: 8000,
  blockSize: 16,
  maxModelLen: 131_072,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  kvBlocks: 16_384,
  prefixCaching: true,
  kvEvents: null,
  promptTokensDetails: false,
  priorities: false,
  ranks: 1,
  apiKey: null,
  loadTracking: false,
  connector: null,
};

const kvEventsSchema = z.strictObject({
  enable_kv_cache_events: z.boolean().default(false),
  publisher: z.enum(['zmq', 'null']).nullish(),
  endpoint: z.string().default('tcp://*:5557'),
  replay_endpoint: z.string().nullish(),
  buffer_steps: z.int().min(0).max(1_000_000).default(10_000),
  hwm: z.int().optional(),
  max_queue_size: z.int().optional(),
  topic: z.string().default(''),
});

const connectorSchema = z.looseObject({ kv_connector: z.string().min(1) });

/** A change to the settings that a flag makes; `value` is '' for a switch. */
type Apply = (value: string, flag: string) => Partial<VllmServe>;

const number =
  (
    name: 'port' | 'blockSize' | 'maxModelLen' | 'maxNumSeqs' | 'maxNumBatchedTokens' | 'kvBlocks' | 'ranks',
    least = 1,
    most = 2 ** 31,
  ): Apply =>
  (value, flag) => {
    const count = Number(value);
    if (!/^\d+$/.test(value) || count < least || count > most)
      throw wrong(`${flag} is "${value.slice(0, 100)}"; it must be a whole number from ${least} to ${most}`);
    return { [name]: count };
  };

const VALUES: Readonly<Record<string, Apply>> = {
  '--port': number('port', 0, 65_535),
  '--host': () => ({}),
  '--block-size': number('blockSize'),
  '--max-model-len': number('maxModelLen'),
  '--max-num-seqs': number('maxNumSeqs'),
  '--max-num-batched-tokens': number('maxNumBatchedTokens'),
  '--num-gpu-blocks-override': number('kvBlocks'),
  '--data-parallel-size': number('ranks', 1, MAX_RANKS),
  '--api-key': (apiKey) => ({ apiKey }),
  '--prefix-caching-hash-algo': () => ({}),
  '--gpu-memory-utilization': () => ({}),
  '--tensor-parallel-size': () => ({}),
  '--scheduling-policy': (value, flag) => {
    if (value !== 'fcfs' && value !== 'priority') throw wrong(`${flag} must be fcfs or priority`);
    return { priorities: value === 'priority' };
  },
  '--kv-events-config': (value, flag) => {
    const config = read(kvEventsSchema, value, flag);
    const { buffer_steps: bufferSteps, endpoint, replay_endpoint: replayEndpoint = null, topic } = config;
    const published = config.enable_kv_cache_events && config.publisher !== 'null';
    return { kvEvents: published ? { endpoint, replayEndpoint, bufferSteps, topic } : null };
  },
  '--lora-modules': (value, flag) => {
    const [name = '', path = ''] = value.split('=');
    if (name === '' || path === '') throw wrong(`${flag} must look like NAME=PATH`);
    return { adapters: [name] };
  },
  '--kv-transfer-config': (value, flag) => ({ connector: read(connectorSchema, value, flag).kv_connector }),
};

const SWITCHES: Readonly<Record<string, Partial<VllmServe>>> = {
  '--enable-lora': {},
  '--enable-prefix-caching': { prefixCaching: true },
  '--no-enable-prefix-caching': { prefixCaching: false },
  '--enable-prompt-tokens-details': { promptTokensDetails: true },
  '--enable-server-load-tracking': { loadTracking: true },
};

/**
 * The server that `vllm serve` would start with these arguments, the words behind `serve`.
 * @throws PointsmanError PM_SIM_SETTINGS naming the argument that is wrong or not known.
 */
export function readVllmServe(args: readonly string[]): VllmServe {
  let serve = VLLM_SERVE_DEFAULTS;
  let model: string | null = null;
  let names: readonly string[] | null = null;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? '';
    if (!word.startsWith('--')) {
      if (model !== null) throw wrong(`"${word.slice(0, 100)}" is a second model`);
      model = word;
      continue;
    }
    const equals = word.indexOf('=');
    const flag = equals < 0 ? word : word.slice(0, equals);
    const given = equals < 0 ? null : word.slice(equals + 1);
    const change = Object.hasOwn(SWITCHES, flag) ? SWITCHES[flag] : undefined;
    if (change !== undefined && given === null) {
      serve = { ...serve, ...change };
      continue;
    }
    const value = given ?? args[at + 1];
    if (given === null) at += 1;
    if (flag === '--served-model-name' && value !== undefined) {
      // Several names stand behind one flag.
      const more = [value];
      while (given === null && at + 1 < args.length && !(args[at + 1] ?? '--').startsWith('--')) {
        at += 1;
        more.push(args[at] ?? '');
      }
      names = more;
      continue;
    }
    const apply = Object.hasOwn(VALUES, flag) ? VALUES[flag] : undefined;
    if (apply === undefined) throw wrong(`${flag} is not known to the double`);
    if (value === undefined) throw wrong(`${flag} takes a value`);
    serve = { ...serve, ...apply(value, flag) };
  }
  const models = names ?? (model === null ? serve.models : [model]);
  return { ...serve, models, kvEvents: serve.prefixCaching ? serve.kvEvents : null };
}

function read<T>(schema: z.ZodType<T>, text: string, flag: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrong(`${flag} is not JSON`);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw wrong(`${flag}: ${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not as expected'}`);
}

function wrong(problem: string): PointsmanError {
  return new PointsmanError('PM_SIM_SETTINGS', `the arguments of vllm serve cannot be used: ${problem}`);
}
