// `pointsman sim --shape vllm`: a double of a stock server in place of simulated engines, from that server's own arguments.
import { InvalidArgumentError } from 'commander';
import { createBlockHasher } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import {
  DOUBLE_FAULT_NAMES,
  type DoubleFaults,
  type DoubleHints,
  type RunningSimulators,
  readDoubleFault,
  readVllmServe,
  startVllmDouble,
} from '../simulator/index.ts';
import { systemClock } from './system-clock.ts';

/** Servers that can be played. */
export const SIM_SHAPES = ['sim', 'vllm'] as const;
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
const COMMON: ReadonlySet<string> = new Set([
  'shape',
  'hashSeed',
  'seed',
  'speed',
  'bodyBytes',
  'graceMs',
  'json',
  'exitWithParent',
]);
/** Options of doubles alone. */
const DOUBLES: ReadonlySet<string> = new Set(['hints', 'eventWire', 'doubleFault']);

/**
 * Refuses options that the played server would not follow: they would silently change nothing.
 * @param given names of the options on the command line.
 * @throws PointsmanError PM_SIM_SETTINGS
 */
export function refuseForeignOptions(shape: SimShape, given: readonly string[]): void {
  const foreign = given.find((name) => !COMMON.has(name) && DOUBLES.has(name) !== (shape !== 'sim'));
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
  serve: readonly string[],
  options: DoubleOptions,
): Promise<RunningSimulators> {
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
  const [first] = double.kvEvents;
  return {
    engines: [
      {
        url: double.url,
        kv_events: first?.address ?? '',
        kv_events_replay: first?.replay ?? null,
        control: double.control[0] ?? '',
        model: settings.models[0] ?? '',
        block_size: settings.blockSize,
        hash_scheme: '',
        epoch: '',
      },
    ],
    close: (graceMs) => double.close(graceMs),
  };
}

/** Collects the faults of an option that may be given again. */
export function doubleFaults(text: string, before: DoubleFaults = {}): DoubleFaults {
  const fault = readDoubleFault(text);
  if (fault === null) throw new InvalidArgumentError(`It must be one of ${DOUBLE_FAULT_NAMES.join(', ')}.`);
  return { ...before, ...fault };
}
