// Starts SGLang doubles for tests, many times faster than life.
import { createBlockHasher } from '../../../kv/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../../core/create-engine.ts';
import type { SimulatedEngineSettings } from '../../types.ts';
import { realClock } from '../../wire/wire.fixtures.ts';
import { type SglangDouble, type SglangDoubleOptions, startSglangDouble } from './sglang-double.ts';

const running: SglangDouble[] = [];

/** A double that `stopDoubles` ends. */
export async function startDouble(
  settings: Partial<SimulatedEngineSettings> = {},
  more: Partial<Omit<SglangDoubleOptions, 'settings'>> = {},
): Promise<SglangDouble> {
  const started = await startSglangDouble({
    settings: {
      ...DEFAULT_ENGINE_SETTINGS,
      model: 'tiny-sim',
      blockSize: 4,
      speedup: 1000,
      // Real time passes between doubles: on a busy machine no answer may come too late for its test.
      fetchReserveTimeoutMs: 60_000,
      fetchTimeoutMs: 60_000,
      handoffTimeoutMs: 60_000,
      ...settings,
    },
    hasher: createBlockHasher(),
    clock: realClock,
    ...more,
  });
  running.push(started);
  return started;
}

export async function stopDoubles(): Promise<void> {
  await Promise.all(running.splice(0).map((double) => double.close()));
}
