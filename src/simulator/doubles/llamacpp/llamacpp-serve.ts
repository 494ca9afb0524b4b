// Reads the arguments of `llama-server` as far as its double acts on them, so that a quick start can be tried with the very flags that it
// names. A flag that the double does not know is an error: what it would change would silently not be changed.
import { PointsmanError } from '../../../plugin/index.ts';
import type { LlamaServerOptions } from './llamacpp-double.ts';

/** A server as its flags say. */
export type LlamaServe = Pick<
  LlamaServerOptions,
  'alias' | 'slots' | 'slotContext' | 'metrics' | 'showsSlots'
> & { readonly port: number };

interface Read {
  readonly alias: string | null;
  readonly model: string | null;
  readonly port: number;
  readonly parallel: number;
  readonly contextTokens: number;
  readonly metrics: boolean;
  readonly showsSlots: boolean;
}

/** The context is that of the model where nothing is said; a model for the double has this one. */
const DEFAULTS: Read = {
  alias: null,
  model: null,
  port: 8080,
  parallel: 1,
  contextTokens: 4096,
  metrics: false,
  showsSlots: true,
};

const MAX_SLOTS = 1024;

type Apply = (value: string, flag: string) => Partial<Read>;

const VALUES: Readonly<Record<string, Apply>> = {
  '--model': (model) => ({ model }),
  '--alias': (alias) => ({ alias }),
  '--host': () => ({}),
  '--port': (value, flag) => ({ port: whole(value, flag, 0, 65_535) }),
  '--parallel': (value, flag) => ({ parallel: whole(value, flag, 1, MAX_SLOTS) }),
  '--ctx-size': (value, flag) => ({ contextTokens: whole(value, flag) }),
  '--threads': () => ({}),
  '--n-gpu-layers': () => ({}),
};

const SWITCHES: Readonly<Record<string, Partial<Read>>> = {
  '--metrics': { metrics: true },
  '--slots': { showsSlots: true },
  '--no-slots': { showsSlots: false },
  '--jinja': {},
};

const SHORT: Readonly<Record<string, string>> = {
  '-m': '--model',
  '-a': '--alias',
  '-np': '--parallel',
  '-c': '--ctx-size',
  '-t': '--threads',
  '-ngl': '--n-gpu-layers',
};

/**
 * The server that `llama-server` would start with these arguments, the words behind it. Each slot has an even part of --ctx-size.
 * @throws PointsmanError PM_SIM_SETTINGS naming the argument that is wrong or not known.
 */
export function readLlamaServe(args: readonly string[]): LlamaServe {
  let read = DEFAULTS;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? '';
    const flag = (Object.hasOwn(SHORT, word) ? SHORT[word] : undefined) ?? word;
    const change = Object.hasOwn(SWITCHES, flag) ? SWITCHES[flag] : undefined;
    if (change !== undefined) {
      read = { ...read, ...change };
      continue;
    }
    const apply = Object.hasOwn(VALUES, flag) ? VALUES[flag] : undefined;
    if (apply === undefined) throw wrong(`${word.slice(0, 100)} is not known to the double`);
    const value = args[at + 1];
    if (value === undefined) throw wrong(`${word} takes a value`);
    at += 1;
    read = { ...read, ...apply(value, word) };
  }
  const { contextTokens, metrics, parallel: slots, port, showsSlots } = read;
  if (contextTokens < slots)
    throw wrong(`--ctx-size ${contextTokens} has no token for each of ${slots} slots`);
  const alias = read.alias ?? read.model ?? 'model.gguf';
  return { alias, port, slots, slotContext: Math.floor(contextTokens / slots), metrics, showsSlots };
}

function whole(value: string, flag: string, least = 1, most = 2 ** 31): number {
  const count = Number(value);
  if (/^\d+$/.test(value) && count >= least && count <= most) return count;
  throw wrong(`${flag} is "${value.slice(0, 100)}"; it must be a whole number from ${least} to ${most}`);
}

function wrong(problem: string): PointsmanError {
  return new PointsmanError('PM_SIM_SETTINGS', `the arguments of llama-server cannot be used: ${problem}`);
}
