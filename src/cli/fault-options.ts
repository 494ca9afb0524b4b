// Options that make simulated engines fail: what goes wrong with their event messages, and when they are restarted.
import { InvalidArgumentError } from 'commander';
import {
  type EngineRestart,
  type EventFaultSettings,
  MAX_EVENT_DELAY_MS,
  MAX_REORDER_WINDOW,
  NO_EVENT_FAULTS,
} from '../simulator/index.ts';
import { millisecondsOf } from './option-values.ts';

/** How the two options are shown in help. */
export const EVENT_FAULTS_HELP =
  'faults of live KV event messages: drop, duplicate, reorder (shares of 1), window (messages that overtake one), delay';
export const RESTART_HELP =
  'restart an engine with an empty pool at a time from the start, for example 2@10m; may be given again';

const MAX_RESTARTS = 1000;
/** Timers cannot wait longer. */
const MAX_RESTART_MS = 1_000_000_000;

/** Reads `drop=0.3,duplicate=0.05,reorder=0.05,window=4,delay=200ms`, each part once and in any order. */
export function eventFaults(text: string): EventFaultSettings {
  const seen = new Set<string>();
  let settings = NO_EVENT_FAULTS;
  for (const part of text.split(',')) {
    const [name = '', value = '', ...more] = part.split('=');
    if (more.length > 0 || seen.has(name)) throw badFaults(part);
    seen.add(name);
    settings = { ...settings, ...faultOf(name, value, part) };
  }
  return settings;
}

function faultOf(name: string, value: string, part: string): Partial<EventFaultSettings> {
  switch (name) {
    case 'drop':
    case 'duplicate':
    case 'reorder': {
      const share = /^\d+(\.\d+)?$/.test(value) ? Number(value) : -1;
      if (share < 0 || share > 1) throw badFaults(part);
      return { [name]: share };
    }
    case 'window': {
      const window = /^\d+$/.test(value) ? Number(value) : 0;
      if (window < 1 || window > MAX_REORDER_WINDOW) throw badFaults(part);
      return { window };
    }
    case 'delay': {
      const delayMs = millisecondsOf(value);
      if (delayMs === null || delayMs > MAX_EVENT_DELAY_MS) throw badFaults(part);
      return { delayMs };
    }
    default:
      throw badFaults(part);
  }
}

/** Reads `WORKER@TIME`, and collects them. */
export function engineRestarts(
  text: string,
  before: readonly EngineRestart[] = [],
): readonly EngineRestart[] {
  const [, worker = '', time = ''] = /^([1-9]\d{0,5})@(.+)$/.exec(text) ?? [];
  const atMs = millisecondsOf(time);
  if (worker === '' || atMs === null || atMs > MAX_RESTART_MS) {
    throw new InvalidArgumentError(
      'It must look like 2@10m: the engine from 1, then a time in ms, s, m or h.',
    );
  }
  if (before.length === MAX_RESTARTS) throw new InvalidArgumentError(`At most ${MAX_RESTARTS} are possible.`);
  return [...before, { worker: Number(worker), atMs }];
}

function badFaults(part: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `${JSON.stringify(part.slice(0, 100))} is no fault; it must look like drop=0.3,duplicate=0.05,reorder=0.05,window=4,delay=200ms: shares from 0 to 1, a window from 1 to ${MAX_REORDER_WINDOW}, a delay of at most 1h.`,
  );
}
