// Replays a trace with policies at hand instead of a configuration file: what tests of plugins run.
import { parseConfig } from '../config/index.ts';
import { encodeEventBatch } from '../events/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import type { DecisionRecord } from '../observe/index.ts';
import { exactJsonStringify } from '../plugin/index.ts';
import {
  type ReplaySettings,
  type RunReport,
  readTrace,
  replay,
  type Trace,
  traceOfRows,
} from '../replay/index.ts';
import { composeReplayRouter } from './replay-router.ts';

/** A policy by the type of a built-in, or a definition with the parameters its YAML would give it. */
export type PolicyAtHand =
  | string
  | { readonly definition: { readonly type: string }; readonly parameters?: unknown };

/** What is replayed. */
export interface DefinitionReplay {
  readonly selection: PolicyAtHand;
  /** Absent = what runs by default under the selection policy. */
  readonly hints?: readonly PolicyAtHand[] | undefined;
  /** A Mooncake file, or rows with its fields. */
  readonly trace: string | readonly object[];
  readonly settings: ReplaySettings;
}

/** What came out. */
export interface DefinitionReplayResult {
  readonly report: RunReport;
  /** Completed decisions, in order of completion. */
  readonly decisions: readonly DecisionRecord[];
  /** What the router logged as a warning or an error. */
  readonly warnings: readonly string[];
}

/**
 * Runs a trace through the whole router and simulated engines, in virtual time: the same input gives the same result.
 * @throws PM_REPLAY_TRACE, PM_REPLAY_SETTINGS; ConfigError when a start would refuse the policies.
 */
export async function replayDefinitions(given: DefinitionReplay): Promise<DefinitionReplayResult> {
  const { hints, selection, settings } = given;
  const role = { ...entryOf(selection), ...(hints && { hints: hints.map(entryOf) }) };
  // JSON is YAML, and integers beyond 2^53 stay exact in both.
  const text = exactJsonStringify({ worker_selection: { aggregated: role } });
  const loaded = parseConfig(text, 'trial', { env: {}, readFile: () => '' });
  const definitions = [selection, ...(hints ?? [])].flatMap((one) =>
    typeof one === 'string' ? [] : [one.definition],
  );
  const decisions: DecisionRecord[] = [];
  const warnings: string[] = [];
  const { runs } = await replay({
    trace: await traceOf(given.trace, settings.limit),
    settings,
    runs: [{ name: 'trial', choice: { kind: 'mode', mode: 'kv' } }],
    fastEvents: true,
    compose: (options) =>
      composeReplayRouter(loaded, options, {
        warn: (line) => warnings.push(line),
        definitions,
        onDecision(phase, record) {
          if (phase === 'completed') decisions.push(record);
        },
      }),
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    wallClock: () => performance.now(),
    progress: () => undefined,
    signal: new AbortController().signal,
  });
  const [report] = runs;
  if (report === undefined) throw new Error('a replay of one run reported none');
  return { report, decisions, warnings };
}

function entryOf(policy: PolicyAtHand): { readonly type: string; readonly parameters?: unknown } {
  if (typeof policy === 'string') return { type: policy };
  const { definition, parameters } = policy;
  return { type: definition.type, ...(parameters === undefined ? {} : { parameters }) };
}

function traceOf(trace: string | readonly object[], limit: number | null): Promise<Trace> | Trace {
  return typeof trace === 'string' ? readTrace(trace, limit) : traceOfRows('trace', trace);
}
