// Replays in this process, through the router that `pointsman replay` composes.
import { replayRouters } from '../../src/cli/replay-router.ts';
import { encodeEventBatch } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import {
  parseCompare,
  type ReplayReport,
  type ReplaySettings,
  replay,
  type Trace,
} from '../../src/replay/index.ts';

/** Options as on the command line. */
export interface InProcessOptions extends Partial<ReplaySettings> {
  readonly compare: string;
  readonly fastEvents?: boolean;
}

/** The report of a replay. */
export function replayInProcess(trace: Trace, options: InProcessOptions): Promise<ReplayReport> {
  const { compare, fastEvents = false, ...settings } = options;
  return replay({
    trace,
    settings: {
      workers: 8,
      block_size: 512,
      kv_blocks: 16_384,
      timing: 'default',
      model: 'engine',
      speedup: 1,
      limit: null,
      seed: 1,
      cut_events: false,
      ...settings,
    },
    runs: parseCompare(compare),
    fastEvents,
    compose: replayRouters(
      () => undefined,
      (run, line) => {
        throw new Error(`${run}: ${line}`);
      },
    ),
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    wallClock: () => performance.now(),
    progress: () => undefined,
    signal: new AbortController().signal,
  });
}
