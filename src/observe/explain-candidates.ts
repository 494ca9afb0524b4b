// The candidates of a decision record as a table: what was known of each, and the terms of its cost.
import type { CandidateRecord, CostTerms, DecisionRecord } from './decision-record.ts';
import { type TextCell, textTable } from './text-table.ts';
import { TIME_TERM_NAMES, type TimeTermName } from './time-cost-terms.ts';

type Eligible = Extract<CandidateRecord, { eligible: true }>;
/** A column: its heading, and the cell of a candidate. */
type Column = readonly [heading: string, cell: (candidate: Eligible) => TextCell];

const PLACE: readonly Column[] = [
  ['place', ({ rank }) => rank],
  ['worker', ({ worker_id: id }) => id],
  ['rank', ({ dp_rank: rank }) => rank],
  ['cost', ({ cost }) => cost],
  ['device', ({ overlap_blocks: { device } }) => device],
  ['host', ({ overlap_blocks: { host } }) => host],
  ['disk', ({ overlap_blocks: { disk } }) => disk],
  ['shared', ({ overlap_blocks: { shared } }) => shared],
];

const LOAD: readonly Column[] = [
  ['prefill tokens', ({ active_prefill_tokens: tokens }) => tokens],
  ['decode blocks', ({ active_decode_blocks: blocks }) => blocks],
  ['new blocks', ({ additional_blocks: blocks }) => blocks],
  ['requests', ({ active_requests: requests }) => requests],
];

/** What a cost in time reads in place of these. */
const TIMED_LOAD: readonly Column[] = [
  ['in flight', ({ time_inputs: inputs }) => inputs?.in_flight_blocks ?? null],
  ['waiting', ({ time_inputs: inputs }) => inputs?.prefill_requests ?? null],
  ['waiting tokens', ({ time_inputs: inputs }) => inputs?.prefill_tokens ?? null],
  ['decoding', ({ time_inputs: inputs }) => inputs?.decode_requests ?? null],
  ['booked tokens', ({ time_inputs: inputs }) => inputs?.booked_prompt_tokens ?? null],
];

const blockTerm = (heading: string, name: keyof CostTerms): Column => [
  heading,
  ({ terms }) => terms?.[name] ?? null,
];

const BLOCK_TERMS: readonly Column[] = [
  blockTerm('raw prefill', 'raw_prefill_blocks'),
  blockTerm('credit', 'credit'),
  blockTerm('decay', 'decay'),
  blockTerm('prefill', 'prefill'),
  blockTerm('decode', 'decode_blocks'),
  blockTerm('request weight', 'request_weight'),
  blockTerm('taint', 'taint'),
];

/** And what a peer holds, where it counts on copies. */
const TIMED_SOURCE: Column = [
  'source prefix',
  ({ time_inputs: inputs }) => inputs?.source_prefix_blocks ?? null,
];

/** And the pressure on KV pools, where that has a weight. */
const TIMED_PRESSURE: Column = [
  'cache pressure',
  ({ time_inputs: inputs }) => inputs?.cache_pressure ?? null,
];

/** The load that a cost in time reads of the candidates. */
function timedLoadColumns(candidates: readonly Eligible[]): readonly Column[] {
  const has = (name: 'source_prefix_blocks' | 'cache_pressure'): boolean =>
    candidates.some(({ time_inputs: inputs }) => inputs?.[name] !== undefined);
  return [
    ...(has('source_prefix_blocks') ? [TIMED_SOURCE] : []),
    ...TIMED_LOAD,
    ...(has('cache_pressure') ? [TIMED_PRESSURE] : []),
  ];
}

/** The terms that some candidate has, each with its weight where that is not 1 throughout. */
function timeTermColumns(candidates: readonly Eligible[]): readonly Column[] {
  const columns: Column[] = [
    ['tokens to compute', ({ time_terms: terms }) => terms?.computed_tokens ?? null],
  ];
  for (const name of TIME_TERM_NAMES) {
    const of = ({ time_terms: terms }: Eligible) => terms?.parts[name];
    const weights = candidates.flatMap((one) => of(one)?.weight ?? []);
    if (weights.length === 0) continue;
    columns.push([headingOf(name), (one) => of(one)?.ms ?? null]);
    if (weights.some((weight) => weight !== 1)) columns.push(['×', (one) => of(one)?.weight ?? null]);
  }
  columns.push(['taint', ({ time_terms: terms }) => terms?.taint ?? null]);
  return columns;
}

const headingOf = (name: TimeTermName): string => name.replaceAll('_', ' ');

/** Eligible ones by place, with every term of their costs, then the others with why they were not. */
export function candidates(record: DecisionRecord): string {
  const eligible = record.candidates
    .filter((candidate) => candidate.eligible)
    .sort((a, b) => a.rank - b.rank);
  const others = record.candidates.filter((candidate) => !candidate.eligible);
  const shown =
    record.candidates.length === record.candidates_total
      ? String(record.candidates_total)
      : `${record.candidates.length} of ${record.candidates_total}`;
  const timed = eligible.find(({ time_terms: terms }) => terms !== undefined)?.time_terms;
  const isTimed = timed !== undefined;
  const unit = isTimed
    ? `ms: cost = (sum of term × weight) × taint; decode for ${timed.output_tokens} output tokens`
    : 'blocks';
  const parts = [`candidates (${shown}), lowest cost first, terms in ${unit}`];
  if (eligible.length > 0) {
    const { dp_rank: rank, worker_id: worker } = record.pick;
    const columns: readonly Column[] = [
      ...PLACE,
      ...(isTimed ? timedLoadColumns(eligible) : LOAD),
      ['', (one) => (one.worker_id === worker && one.dp_rank === rank ? '<- picked' : '')],
      ...(isTimed ? timeTermColumns(eligible) : BLOCK_TERMS),
    ];
    const headings = columns.map(([heading]) => heading);
    parts.push(
      textTable(
        headings,
        eligible.map((one) => columns.map(([, cell]) => cell(one))),
      ),
    );
  }
  for (const candidate of others) {
    const filter = candidate.filter === undefined ? '' : ` by ${candidate.filter}`;
    parts.push(
      `worker ${candidate.worker_id} rank ${candidate.dp_rank}: not eligible, ${candidate.reason}${filter}`,
    );
  }
  return parts.join('\n');
}
