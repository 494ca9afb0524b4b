// The report as a table for people: one column per run.
import type { PolicyFault, ReplayReport, RunReport } from './types.ts';

type Row = readonly [label: string, value: (run: RunReport) => string];

/** Requests that did not complete, and what policies did wrong; shown where there are any. */
const LOSSES: readonly (readonly [label: string, count: (run: RunReport) => number])[] = [
  ['  larger than the KV cache', (run) => run.rejected],
  ['  ended by the router', (run) => run.failed],
  ['  refused by load', (run) => run.refused ?? 0],
  ['policy failed, default cost chose', (run) => faults(run, 'choice')],
  ['classifier failed or skipped', (run) => faults(run, 'classification')],
  ['hint outputs dropped', (run) => faults(run, 'actions') - skips(run)],
  ['hint policy skipped for failing', skips],
];

/** What engines may answer to an action, in the order of the table. */
const OUTCOMES = ['accepted', 'clipped', 'deferred', 'missing', 'rejected'] as const;

/** Copies that selection counted on; shown where there are any. */
const COMMITS: readonly Row[] = [
  ['copies committed', (run) => String(run.hints.commits?.made ?? 0)],
  [
    '  sent, degraded, released',
    ({ hints: { commits } }) => (commits ? `${commits.sent}, ${commits.degraded}, ${commits.released}` : '–'),
  ],
  [
    '  credit found cached',
    ({ hints: { commits } }) =>
      commits && commits.sent_and_completed > 0
        ? percent(commits.sent_and_covered / commits.sent_and_completed)
        : '–',
  ],
];

/** What became of KV events; shown where something goes wrong with them. */
const EVENTS: readonly Row[] = [
  [
    'event batches lost, repeated',
    ({ events }) => (events ? `${events.missed_batches}, ${events.replayed_batches}` : '–'),
  ],
  [
    'workers stale, partial',
    ({ events }) => (events ? `${events.stale_workers.length}, ${events.partial_workers.length}` : '–'),
  ],
  ['cached tokens mispredicted', ({ events }) => percent(events?.misprediction_rate_tokens ?? null)],
];

/** What host memory gave and took; shown where there is any. */
const HOST: readonly Row[] = [
  ['blocks copied back from host', (run) => String(sumOf(run, 'onboarded_blocks'))],
  ['  offloaded to host', (run) => String(sumOf(run, 'offloaded_blocks'))],
];

/** Time of prompt work; shown where engines tell it. */
const PREFILL: readonly Row[] = [
  ['busiest worker / mean (prefill time)', (run) => ratio(prefillImbalance(run))],
];

/** What sessions saw; shown for session traces. */
const SESSIONS: readonly Row[] = [
  ['resumed turns', (run) => String(run.sessions?.resumed_turns ?? 0)],
  ['  TTFT mean (ms)', (run) => milliseconds(run.sessions?.resumed_ttft_ms.mean ?? null)],
  ['  TTFT p50', (run) => milliseconds(run.sessions?.resumed_ttft_ms.p50 ?? null)],
  ['  TTFT p99', (run) => milliseconds(run.sessions?.resumed_ttft_ms.p99 ?? null)],
  ['  hit rate (tokens)', (run) => percent(run.sessions?.resumed_hit_rate_tokens ?? null)],
  ['blocks evicted', (run) => String(run.sessions?.evicted_blocks ?? 0)],
  ['  of sessions that come back to them', (run) => String(run.sessions?.live_evictions ?? 0)],
  ['blocks released', (run) => String(run.sessions?.released_blocks ?? 0)],
];

const FIGURES: readonly Row[] = [
  ['prefix hit rate (tokens)', (run) => percent(run.prefix_hit_rate_tokens)],
  ['  predicted by the router', (run) => percent(run.predicted_hit_rate_tokens)],
  ['prefix hit rate (blocks)', (run) => percent(run.prefix_hit_rate)],
  ['TTFT mean (ms)', (run) => milliseconds(run.ttft_ms.mean)],
  ['TTFT p50', (run) => milliseconds(run.ttft_ms.p50)],
  ['TTFT p99', (run) => milliseconds(run.ttft_ms.p99)],
  ['ITL mean (ms)', (run) => milliseconds(run.itl_ms.mean)],
  ['ITL p99', (run) => milliseconds(run.itl_ms.p99)],
  ['E2E mean (ms)', (run) => milliseconds(run.e2e_ms.mean)],
  ['E2E p99', (run) => milliseconds(run.e2e_ms.p99)],
  ['queue wait mean (ms)', (run) => milliseconds(run.queue_wait_ms.mean)],
  ['output tokens/s', (run) => (run.output_tok_s === null ? '–' : run.output_tok_s.toFixed(0))],
  ['busiest worker / mean (input)', (run) => ratio(busiestOverMean(run))],
  ['blocks fetched from peers', (run) => String(run.hints.fetched_blocks)],
  ['pre-emptions', (run) => String(run.workers.reduce((sum, worker) => sum + worker.preemptions, 0))],
];

/** Lines of the table, without a final newline. */
export function reportTable(report: ReplayReport): string {
  const { trace, settings } = report;
  const rows: Row[] = [
    ['requests completed', (run) => `${run.completed}/${run.requests}`],
    ...LOSSES.filter(([, count]) => report.runs.some((run) => count(run) > 0)).map(
      ([label, count]): Row => [label, (run) => String(count(run))],
    ),
    ...FIGURES,
    ...(report.runs.some((run) => run.workers[0]?.prefill_ms !== undefined) ? PREFILL : []),
    ...(settings.sessions === undefined ? [] : SESSIONS),
    ...hintRows(report.runs),
    ...(settings.host_kv_blocks === undefined ? [] : HOST),
    ...(report.runs.some((run) => run.hints.commits !== undefined) ? COMMITS : []),
    ...(report.runs.some((run) => run.events !== undefined) ? EVENTS : []),
  ];
  const labelWidth = Math.max(...rows.map(([label]) => label.length));
  const columns = report.runs.map((run) => {
    const cells = rows.map(([, value]) => value(run));
    const width = Math.max(run.name.length, ...cells.map((cell) => cell.length));
    return { name: run.name.padStart(width), cells: cells.map((cell) => cell.padStart(width)) };
  });
  const line = (label: string, cells: readonly string[]): string =>
    [label.padEnd(labelWidth), ...cells].join('  ').trimEnd();
  return [
    `${trace.name}: ${trace.requests} requests, ${trace.input_tokens} input and ${trace.output_tokens} output tokens`,
    ...sessionLines(report),
    `${settings.workers} workers, block size ${settings.block_size}, ${settings.kv_blocks} KV blocks${hostBlocks(settings)} each, timing ${settings.timing}, model ${settings.model}, speedup ${settings.speedup}, seed ${settings.seed}`,
    '',
    line(
      '',
      columns.map((column) => column.name),
    ),
    ...rows.map(([label], index) =>
      line(
        label,
        columns.map((column) => column.cells[index]!),
      ),
    ),
  ].join('\n');
}

function sessionLines({ settings, trace }: ReplayReport): readonly string[] {
  const sessions = trace.sessions;
  const how = settings.sessions;
  if (sessions === undefined || how === undefined) return [];
  const left =
    sessions.dropped === 0 ? '' : ` (${sessions.dropped} left out, above ${how.max_context} tokens)`;
  const memory = how.memory === undefined ? '' : `; KV blocks for ${how.memory} of it`;
  return [
    `${sessions.lines} lines${left}, ${how.copies} copies: ${sessions.sessions} sessions, ${sessions.sub_agents} of them sub-agents, starting within ${how.window_ms / 1000} s`,
    `peak live working set ${sessions.working_set_tokens} tokens${memory}`,
  ];
}

function hostBlocks({ host_kv_blocks: blocks }: ReplayReport['settings']): string {
  return blocks === undefined ? '' : ` and ${blocks} host blocks`;
}

/** Hint actions and the engines' answers, each where some run has any. */
function hintRows(runs: readonly RunReport[]): readonly Row[] {
  const sent = ({ hints }: RunReport): number =>
    Object.values(hints.actions_by_type).reduce((sum, count) => sum + count, 0);
  if (runs.every((run) => sent(run) === 0)) return [];
  const answered = OUTCOMES.filter((name) => runs.some(({ hints }) => (hints.outcomes[name] ?? 0) > 0));
  return [
    ['hint actions sent', (run) => String(sent(run))],
    ...answered.map((name): Row => [`  ${name}`, ({ hints }) => String(hints.outcomes[name] ?? 0)]),
  ];
}

/** Calls of hint policies that were not made while they were skipped. */
function skips(run: RunReport): number {
  return run.policy_faults.reduce((sum, { count, lost, reason }) => {
    return sum + (lost === 'actions' && reason === 'tripped' ? count : 0);
  }, 0);
}

/** A line for each policy, action and reason for which the engines would not do what was asked. */
export function rejectionLines(report: ReplayReport): readonly string[] {
  return report.runs.flatMap(({ hints, name }) =>
    (hints.rejections ?? []).map(({ action, count, policy, reason }) => {
      const means = REASONS[reason ?? ''] ?? '';
      return `${name}: the engines rejected actions of a hint policy (policy: ${policy}, action: ${action}, count: ${count}, reason: ${reason}${means})`;
    }),
  );
}

/** What the words of the simulated engine mean. */
const REASONS: Readonly<Record<string, string>> = {
  malformed: ', the payload lacks a member or has one of another form',
  unsupported: ', the engine does not know the action',
  no_room: ', too few blocks were free, or no more can be retained at a time',
  in_use: ', requests hold the blocks, or other sessions retain them',
  policy: ', it acts on the first kv.fetch of a request only',
};

function sumOf(run: RunReport, figure: 'onboarded_blocks' | 'offloaded_blocks'): number {
  return run.workers.reduce((sum, worker) => sum + (worker[figure] ?? 0), 0);
}

/** The busiest worker's input tokens over the mean of all; null without any. */
export function busiestOverMean(run: RunReport): number | null {
  const inputs = run.workers.map((worker) => worker.input_tokens);
  const sum = inputs.reduce((total, input) => total + input, 0);
  return sum === 0 ? null : (Math.max(...inputs) * inputs.length) / sum;
}

/** The busiest worker's time of prompt work over the mean of all; null where engines do not tell it. */
function prefillImbalance(run: RunReport): number | null {
  const times = run.workers.map((worker) => worker.prefill_ms ?? 0);
  const sum = times.reduce((total, time) => total + time, 0);
  return sum === 0 ? null : (Math.max(...times) * times.length) / sum;
}

function faults(run: RunReport, lost: PolicyFault['lost']): number {
  return run.policy_faults.reduce((sum, fault) => sum + (fault.lost === lost ? fault.count : 0), 0);
}

function ratio(value: number | null): string {
  return value === null ? '–' : value.toFixed(3);
}

function percent(rate: number | null): string {
  return rate === null ? '–' : `${(rate * 100).toFixed(2)} %`;
}

function milliseconds(value: number | null): string {
  return value === null ? '–' : value.toFixed(1);
}
