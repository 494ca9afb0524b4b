// `pointsman sim --shape NAME`: a double of a stock server in place of simulated engines, from that server's own arguments.
import { InvalidArgumentError } from 'commander';
import { createBlockHasher } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  DOUBLE_FAULT_NAMES,
  type DoubleFaults,
  type DoubleHints,
  type RunningSimulators,
  readDoubleFault,
  readLlamaServe,
  readSglangServe,
  readVllmServe,
  startLlamaServer,
  startSglangDouble,
  startVllmDouble,
} from '../simulator/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER } from '../tokens/index.ts';
import { systemClock } from './system-clock.ts';

/** Servers that can be played. */
export const SIM_SHAPES = ['sim', 'vllm', 'sglang', 'llamacpp'] as const;
/** One of {@link SIM_SHAPES}. */
export type SimShape = (typeof SIM_SHAPES)[number];

/** Hints that a double's tier reads. */
export const HINT_FORMS: readonly DoubleHints[] = ['none', 'envelope', 'legacy'];
/** Forms of its KV events. */
export const WIRES = ['map', 'array'] as const;

/** What a double takes besides the arguments of its server. */
export interface DoubleOptions {
  readonly hints: DoubleHints;
  readonly eventWire: (typeof WIRES)[number];
  readonly doubleFault?: DoubleFaults;
  readonly hashSeed: number;
  readonly seed: number;
  readonly speed: number;
  readonly bodyBytes: number;
  readonly warn: (problem: string) => void;
}

/** Options that mean something whatever is played. */
const COMMON: readonly string[] = ['shape', 'speed', 'graceMs', 'json', 'exitWithParent'];
/** Options that only these shapes follow; every other one is for simulated engines alone, besides the common ones. */
const FOLLOWED: Readonly<Record<Exclude<SimShape, 'sim'>, readonly string[]>> = {
  vllm: ['hashSeed', 'seed', 'bodyBytes', 'hints', 'eventWire', 'doubleFault'],
  sglang: ['hashSeed', 'seed', 'bodyBytes', 'hints', 'doubleFault'],
  llamacpp: [],
};
/** Options of doubles alone. */
const DOUBLES: readonly string[] = ['hints', 'eventWire', 'doubleFault'];

/**
 * Refuses options that the played server would not follow: they would silently change nothing.
 * @param given names of the options on the command line.
 * @throws PointsmanError PM_SIM_SETTINGS
 */
export function refuseForeignOptions(shape: SimShape, given: readonly string[]): void {
  const follows = (name: string): boolean =>
    COMMON.includes(name) || (shape === 'sim' ? !DOUBLES.includes(name) : FOLLOWED[shape].includes(name));
  const foreign = given.find((name) => !follows(name));
  if (foreign === undefined) return;
  const option = `--${foreign.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const remedy =
    shape === 'sim'
      ? 'give --shape vllm as well, or leave it out'
      : 'the server takes its own arguments behind --, or leave it out';
  throw new PointsmanError('PM_SIM_SETTINGS', `${option} means nothing to --shape ${shape}; ${remedy}`);
}

/** Starts the double of one server. @throws PointsmanError PM_SIM_SETTINGS, PM_SIM_START */
export async function startDouble(
  shape: Exclude<SimShape, 'sim'>,
  serve: readonly string[],
  options: DoubleOptions,
): Promise<RunningSimulators> {
  switch (shape) {
    case 'vllm':
      return startVllm(serve, options);
    case 'sglang':
      return startSglang(serve, options);
    case 'llamacpp':
      return startLlama(serve, options);
  }
}

async function startVllm(serve: readonly string[], options: DoubleOptions): Promise<RunningSimulators> {
  const settings = readVllmServe(serve);
  const double = await startVllmDouble({
    serve: settings,
    hints: options.hints,
    wire: options.eventWire,
    faults: options.doubleFault ?? {},
    speedup: options.speed,
    hashSeed: options.hashSeed,
    seed: options.seed,
    maxBodyBytes: options.bodyBytes,
    hasher: createBlockHasher(),
    clock: systemClock(),
    warn: options.warn,
  });
  const { blockSize, models } = settings;
  return running(double, models[0] ?? '', blockSize, double.kvEvents, double.control, (ms) =>
    double.close(ms),
  );
}

/** Where SGLang listens unless --port says otherwise. */
const SGLANG_PORT = 30_000;
const HINT_FIELDS = { none: null, envelope: 'kv_hints', legacy: 'kv_router_hint' } as const;

async function startSglang(serve: readonly string[], options: DoubleOptions): Promise<RunningSimulators> {
  const read = readSglangServe(serve);
  const { bodyBytes, doubleFault = {}, hashSeed, hints, seed, speed, warn } = options;
  const settings = { ...DEFAULT_ENGINE_SETTINGS, ...read.settings, hashSeed, seed, speedup: speed };
  const double = await startSglangDouble({
    port: SGLANG_PORT,
    ...read.double,
    settings,
    hintField: HINT_FIELDS[hints],
    faults: doubleFault,
    maxBodyBytes: bodyBytes,
    hasher: createBlockHasher(),
    clock: systemClock(),
    warn,
  });
  const { blockSize, model } = settings;
  return running(double, model, blockSize, double.kvEvents, double.control, () => double.close());
}

/** Time of an output token at --speed 1, ms. */
const LLAMA_TOKEN_MS = 20;

async function startLlama(serve: readonly string[], { speed }: DoubleOptions): Promise<RunningSimulators> {
  const { port, ...server } = readLlamaServe(serve);
  const double = await startLlamaServer(
    {
      ...server,
      detailsUsage: true,
      tokenMs: LLAMA_TOKEN_MS / speed,
      tokenizer: loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template),
      clock: systemClock(),
    },
    port,
  );
  // Its slots have no blocks.
  return running(double, server.alias, 0, [], [], () => double.close());
}

/** A double as a simulated engine tells of itself. */
function running(
  { url }: { readonly url: string },
  model: string,
  blockSize: number,
  [events]: readonly { readonly address: string; readonly replay: string | null }[],
  [control = '']: readonly string[],
  close: (graceMs: number) => Promise<void>,
): RunningSimulators {
  return {
    engines: [
      {
        ...{ url, model, control, block_size: blockSize, hash_scheme: '', epoch: '' },
        ...{ kv_events: events?.address ?? '', kv_events_replay: events?.replay ?? null },
      },
    ],
    close,
  };
}

/** Collects the faults of an option that may be given again. */
export function doubleFaults(text: string, before: DoubleFaults = {}): DoubleFaults {
  const fault = readDoubleFault(text);
  if (fault === null) throw new InvalidArgumentError(`It must be one of ${DOUBLE_FAULT_NAMES.join(', ')}.`);
  return { ...before, ...fault };
}
