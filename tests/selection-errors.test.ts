// Every way in which choosing a worker can fail, brought about through a configured host and the scheduler: what the request is told,
// or on what its decision falls back.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NO_THRESHOLDS, parseConfig } from '../src/config/index.ts';
import { Fleet } from '../src/fleet/index.ts';
import { createPluginHost } from '../src/host/index.ts';
import {
  ERROR_CODES,
  type ErrorCode,
  linearCost,
  ManualClock,
  NO_LOG,
  PointsmanError,
  seededRng,
} from '../src/plugin/index.ts';
import { NO_CONSTRAINTS } from '../src/road/index.ts';
import { DefaultChoice, Scheduler } from '../src/scheduling/index.ts';

const PLUGIN = `import { defineWorkerSelectionPolicy, filterWorkers, pickWorker, scoreWorkers } from 'pointsman/plugin';
import { z } from 'zod';
export default defineWorkerSelectionPolicy({
  type: 'faulty',
  parameters: z.strictObject({ fault: z.string() }),
  commitments: ['kv-copy'],
  commitsWhen: ({ fault }) => fault === 'commit',
  create: ({ parameters: { fault } }) => ({
    filters: [filterWorkers({ keep: () => (fault === 'answer' ? 'yes' : fault !== 'filter') })],
    scorers: [scoreWorkers({ score: (_, costs) => void costs.fill(fault === 'cost' ? NaN : 0) })],
    picker: pickWorker({
      pick() {
        if (fault === 'throw') throw new Error('as told');
        return { row: fault === 'row' ? 9 : 0, commitKvCopy: fault === 'commit' };
      },
    }),
  }),
});
`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'selection-errors-'));
  writeFileSync(join(folder, 'faulty.mjs'), PLUGIN);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Case {
  readonly fault?: string;
  readonly yaml?: string;
  readonly workers?: number;
  readonly loraName?: string;
  readonly constraints?: Partial<typeof NO_CONSTRAINTS>;
  /** Without the default cost to fall back on. */
  readonly alone?: true;
  /** Nobody may have a token to prefill before the next request. */
  readonly thresholds?: true;
  /** Decisions before the one that counts. */
  readonly before?: number;
}

const faulty = (fault: string) =>
  `plugins: [./faulty.mjs]\nworker_selection: { aggregated: { type: faulty, parameters: { fault: ${fault} }, hints: [{ type: kv_fetch }] } }\n`;
const pinTo = (workerId: bigint) => ({ pinnedWorker: { workerId, rank: null } });

/** Error that the request gets, or `fell back: CODE`. */
async function outcome(given: Case): Promise<string> {
  const yaml = given.yaml ?? faulty(given.fault ?? 'none');
  const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
  const clock = new ManualClock();
  const containment = { wallMs: () => clock.now(), running: null };
  const host = await createPluginHost({ config, source, clock, log: NO_LOG, containment });
  const fleet = new Fleet();
  for (let id = 1; id <= (given.workers ?? 2); id += 1) {
    fleet.add({
      id: BigInt(id),
      model: 'tiny',
      url: `http://127.0.0.1:${9000 + id}`,
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
    });
  }
  const fallback = given.alone ? null : new DefaultChoice(linearCost(), seededRng(1));
  const scheduler = new Scheduler({ fleet, fallback });
  const activePrefillTokens = given.thresholds ? 0 : null;
  scheduler.setBusyThresholds(new Map([['tiny', { ...NO_THRESHOLDS, activePrefillTokens }]]));
  const partition = { model: 'tiny', routingGroup: 'default' };
  const decide = (): string => {
    try {
      const { fellBackOn } = scheduler.place({
        requestId: 'r',
        partition,
        role: 'aggregated',
        runtime: host.roleRuntime(partition, 'aggregated', given.yaml === '' ? undefined : 16),
        promptTokens: 64,
        blockSize: 16,
        hashes: null,
        match: null,
        session: null,
        constraints: { ...NO_CONSTRAINTS, ...given.constraints },
        expectedOutputTokens: null,
        ...(given.loraName === undefined ? {} : { loraName: given.loraName }),
      });
      return fellBackOn === null ? 'placed' : `fell back: ${fellBackOn}`;
    } catch (thrown) {
      if (thrown instanceof PointsmanError) return thrown.code;
      throw thrown;
    }
  };
  for (let at = 0; at < (given.before ?? 0); at += 1) decide();
  const answer = decide();
  await host.dispose();
  return answer;
}

const BREAKER = (then: string) =>
  `containment: { breaker: { failures: 1 }, tripped: { worker_selection: ${then} } }\n`;
const CASES: readonly (readonly [what: string, given: Case, outcome: string])[] = [
  ['a policy without a fault', {}, 'placed'],
  ['no worker at all', { workers: 0 }, 'PM_SELECTION_NO_ENDPOINTS'],
  ['nobody who is not busy', { thresholds: true, before: 2 }, 'PM_SELECTION_OVERLOADED'],
  ['nobody among the allowed', { constraints: { allowedWorkers: [9n] } }, 'PM_SELECTION_NO_ENDPOINTS'],
  [
    'a pin that the allow-list leaves out',
    { constraints: { ...pinTo(1n), allowedWorkers: [2n] } },
    'PM_SELECTION_PINNED_NOT_ALLOWED',
  ],
  ['a pin to a worker that is not there', { constraints: pinTo(9n) }, 'PM_SELECTION_PINNED_UNAVAILABLE'],
  ['an adapter that nobody has', { loraName: 'other' }, 'PM_SELECTION_ADAPTER_UNKNOWN'],
  ['direct without a pin', { yaml: 'worker_selection: { aggregated: direct }' }, 'PM_SELECTION_PIN_REQUIRED'],
  ['a model whose block size nobody knows', { yaml: '' }, 'PM_SELECTION_BLOCK_SIZE_UNKNOWN'],
  ['filters that drop everybody', { fault: 'filter' }, 'PM_SELECTION_ALL_FILTERED'],
  [
    'a filter that drops the pinned worker',
    { fault: 'filter', constraints: pinTo(2n) },
    'PM_SELECTION_ALL_FILTERED',
  ],
  ['a filter that answers a text', { fault: 'answer' }, 'fell back: PM_PLUGIN_INVALID'],
  ['a cost that is not a number', { fault: 'cost' }, 'fell back: PM_SELECTION_NON_FINITE_COST'],
  ['a row out of range', { fault: 'row' }, 'fell back: PM_SELECTION_INVALID_PICK'],
  ['a commit without a source', { fault: 'commit' }, 'fell back: PM_COMMIT_WITHOUT_SOURCE'],
  ['a picker that throws', { fault: 'throw' }, 'fell back: PM_PLUGIN_THREW'],
  ['the same with nothing to fall back on', { fault: 'throw', alone: true }, 'PM_SELECTION_FAILED'],
  [
    'a policy that is skipped, and requests with it',
    { yaml: faulty('throw') + BREAKER('refuse'), before: 1 },
    'PM_SELECTION_TRIPPED',
  ],
  [
    'a policy that is skipped where the default decides',
    { yaml: faulty('throw') + BREAKER('default'), before: 1 },
    'fell back: PM_SELECTION_TRIPPED',
  ],
];

it.each(CASES)('%s', async (_, given, expected) => {
  expect(await outcome(given)).toBe(expected);
});

it('these are all the errors of selection that there are', () => {
  const all = (Object.keys(ERROR_CODES) as ErrorCode[]).filter(
    (code) => code.startsWith('PM_SELECTION_') || code === 'PM_COMMIT_WITHOUT_SOURCE',
  );
  const found = new Set(CASES.map(([, , expected]) => expected.replace('fell back: ', '')));
  expect(all.filter((code) => !found.has(code))).toEqual([]);
});
