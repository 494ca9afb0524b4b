// The six rows of the benchmark table in Dynamo's PR 17359, under their names: our time, the published one, and how our time compares
// with the baseline of the same run. Times of two machines say nothing about each other; the ratio is what to read.

/** Names and times as published (last column of the PR's table), and where our figure and its baseline are found. */
const ROWS = [
  [
    'selection_core select, reserve and free, 8 workers',
    '17.36 µs',
    'selection-core',
    'selection_core/no_hints/8',
  ],
  ['default selection, 2 workers', '99 ns', 'selection', 'default_worker_selection/direct/temperature_0/2'],
  [
    'default selection, 32 workers',
    '696 ns',
    'selection',
    'default_worker_selection/direct/temperature_0/32',
  ],
  [
    'default selection, 1,024 workers',
    '21.26 µs',
    'selection',
    'default_worker_selection/direct/temperature_0/1024',
  ],
  [
    'default selection, 10,000 workers',
    '315.69 µs',
    'selection',
    'default_worker_selection/direct/temperature_0/10000',
  ],
  ['default policy wrapper, 2 workers', '98 ns', 'selection', 'default_policy_wrapper/policy/2'],
];

export const PUBLISHED_TITLE = 'The published rows';

/**
 * The section of the page; null while one of the two benchmarks has not been run.
 * @param {ReadonlyMap<string, { rows: readonly { case: string, unit: string, value: number, ratio: number | null, against: string | null }[] }>} results
 *   by the name of the benchmark.
 */
export function publishedSection(results) {
  const lines = [];
  for (const [name, published, benchmark, wanted] of ROWS) {
    const row = results.get(benchmark)?.rows.find((one) => one.case === wanted);
    if (row === undefined || row.ratio === null) return null;
    const times = Number((1 / row.ratio).toPrecision(3));
    lines.push(`| ${name} | ${timeOf(row)} | ${published} | ${times}× | ${row.against} |`);
  }
  return [
    `## ${PUBLISHED_TITLE}`,
    '',
    '| bench | ours | published | ours takes | the time of |',
    '| --- | ---: | ---: | ---: | --- |',
    ...lines,
    '',
    '- Published: the last column of the table in PR 17359 of ai-dynamo/dynamo, taken on another machine that it does not name. Only ratios of the same run compare anything.',
    '- Ours: figures of the selection-core and selection tables, medians of the run that wrote them. The first row is a whole walk of the road; the others are the pure decision.',
  ].join('\n');
}

/** @param {{ unit: string, value: number }} row */
function timeOf({ unit, value }) {
  const ns = unit.startsWith('ns') ? value : value * 1000;
  return ns < 1000 ? `${Math.round(ns)} ns` : `${Number((ns / 1000).toPrecision(4))} µs`;
}
