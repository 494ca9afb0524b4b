// The page of the policy lab, made of finished replays. Pure.
import { keepsOrder, LabResults, LEVELS, labAims, meanOf, overSeeds } from './lab-figures.mjs';
import { CORE, TUNING_POLICIES, USUAL_NIC } from './lab-grid.mjs';
import { limits, setUp } from './lab-notes.mjs';
import { groupsOf, markdown, mean } from './table-parts.mjs';

const REQUESTS = ['conversation', 'synthetic'];
const SESSIONS = ['agentic', 'subagent'];
const RIVALS = CORE.filter((policy) => policy !== 'default');
const MOST_WORST = 12;

/** @type {typeof import('./lab-report.d.mts').findings} */
export function findings({ builds, finished, planned, requests }) {
  const results = new LabResults(finished);
  const ran = finished.filter(({ cell }) => cell.study !== 'tuning');
  const part = ran.length < planned.length ? 'a part of ' : '';
  return `${[
    '# Findings of the policy lab',
    `What routing policies are worth next to the field's default cost, on public traces and simulated engines. Written by \`npm run lab\` from ${part}its grid; \`npm run lab -- --help\` says how to repeat it.`,
    ...(requests === null
      ? []
      : [`**Not to be quoted:** only the first ${requests} requests of each trace were replayed.`]),
    '## Which aims are met',
    'Of `pointsman-expected-time`. Ratios below 1 are better than what stands behind the slash; a mean over cells is geometric, with the same weight for each load, and "every cell" shows the worst one.',
    aimsTable(labAims(results)),
    orderTable(results),
    '## What was run',
    ranTable(finished, planned),
    ...setUp(builds),
    '## Requests at their own times',
    'Geometric means of ratios to `default` over all cells that were run, each load with the same weight, the least favourable cell in brackets. `cells` are numbers of workers × memory ratios × loads × seeds; policies with fewer of them were run with 8 workers and memory ratio 2 alone, so compare rows with the same number.',
    mainTable(results),
    '### By load, memory and workers',
    'Mean TTFT / mean E2E against `default`. By load over all seeds; by memory ratio and by workers over the first seed, which alone has the whole grid of every policy.',
    axisTable(results),
    '### Worst cells',
    `Cells in which \`expected-time\` is worse than \`default\` by more than 2 %, geometric means over the seeds of each, at most ${MOST_WORST}, worst first.`,
    worstTable(results),
    '### Capacity',
    'Highest load up to which a service level holds at every step of 0.1: 8 workers, memory ratio 2, one seed. A ratio of latencies near saturation overstates what a policy is worth; this is what it is worth in hardware.',
    capacityTable(results),
    '## Sessions in a closed loop',
    'Mean TTFT of resumed turns / p99 / mean E2E of all turns, against `default`; geometric means over workers, memory ratios and seeds, the least favourable TTFT in brackets. *Held out*: other seeds, on which nothing was chosen. *Bound*: every worker has room for eight times the working set of all, and copies from others take next to no time; no placement in less memory can be expected to do better.',
    sessionTable(results),
    '## Events late, two routers, wrong times',
    '8 workers, memory ratio 2. Mean TTFT against `default` under the same conditions, without and with the change.',
    changesTable(results),
    '## Copies between workers',
    '`kv_fetch` on top of a policy, mean TTFT against the same policy without it, the least favourable cell in brackets; `kvcr` against `default`. 8 workers, memory ratios 1 and 4, the three lower loads.',
    fetchTable(results),
    '## How parameters were chosen',
    'Settings of the built-ins on the first half of the conversation trace: 4, 8 and 16 workers, memory ratios 1 and 4, four loads, one seed; geometric means against `default`, and of p99 the worst cell. What a row does not name is the default. `npm run lab -- --tune` repeats it. **None of these figures may be quoted as what a policy is worth.**',
    tuningTable(results),
    '## Where it does not help, and what this cannot say',
    ...limits(results),
  ].join('\n\n')}\n`;
}

/** @type {typeof import('./lab-report.d.mts').labProblems} */
export function labProblems(finished) {
  return finished.flatMap(({ cell, run }) => {
    const lost = run.requests - run.completed;
    return [
      ...(lost === 0 ? [] : [`${placeOf(cell)}: ${lost} requests were not answered`]),
      ...run.policy_faults.map(
        ({ count, policy, reason }) => `${placeOf(cell)}: ${policy} failed ${count} times (${reason})`,
      ),
    ];
  });
}

function aimsTable(aims) {
  return markdown(
    ['aim', 'at most', 'measured', 'cells', 'met', 'cells above'],
    aims.map(({ cells, met, misses, most, name, value }) => [
      name,
      String(most),
      value === null ? 'not run' : value.toFixed(3),
      String(cells),
      met === null ? '–' : met ? 'yes' : '**no**',
      misses.length === 0 ? '–' : String(misses.length),
    ]),
  );
}

function orderTable(results) {
  const rows = changes(results).map(({ name, orders }) => {
    const kept = keepsOrder(orders);
    const order = (means) =>
      [...means]
        .sort((a, b) => a.ttft - b.ttft)
        .map(({ policy }) => policy)
        .join(' < ');
    return [
      name,
      orders.conditions === 0 ? 'not run' : order(orders.without),
      orders.conditions === 0 ? 'not run' : order(orders.with),
      kept === null ? '–' : kept ? 'yes' : '**no**',
    ];
  });
  return markdown(['change', 'order by mean TTFT without it', 'with it', 'holds (beyond 2 %)'], rows);
}

function changes(results) {
  return [
    { name: 'events 200 ms late', study: 'delay', orders: results.orders('delay', { delay: 0 }) },
    { name: 'two routers', study: 'routers', orders: results.orders('routers', { routers: 1 }) },
  ];
}

function ranTable(finished, planned) {
  const rows = groupsOf(
    planned.map((cell) => ({ cell })),
    ({ study }) => study,
  ).map((group) => {
    const { study } = group[0].cell;
    const ran = finished.filter(({ cell }) => cell.study === study);
    const seeds = [...new Set(ran.map(({ cell }) => cell.seed))].sort((a, b) => a - b);
    const conditions = groupsOf(ran, ({ policy: _, ...condition }) => condition).length;
    return [study, `${ran.length} of ${group.length}`, String(conditions), seeds.join(', ') || '–'];
  });
  return markdown(['study', 'replays run', 'conditions', 'seeds'], rows);
}

function mainTable(results) {
  const cells = results.finished.filter(({ cell }) => cell.study === 'main');
  const rows = groupsOf(cells, ({ policy, timing, trace }) => [trace, timing, policy]).map((group) => {
    const { policy, timing, trace } = group[0].cell;
    const own = group.map(({ cell }) => cell);
    return [
      trace,
      timing,
      policy,
      String(own.length),
      mean(group.map(({ run }) => run.hit ?? 0)).toFixed(3),
      ...['ttft', 'p99', 'e2e'].map((figure) => spread(results.ratios(own, figure, 'default'))),
      mean(group.map(({ run }) => run.imbalance ?? 0)).toFixed(2),
    ];
  });
  return markdown(
    ['trace', 'timing', 'policy', 'cells', 'hit rate', 'TTFT mean', 'TTFT p99', 'E2E mean', 'imbalance'],
    rows,
  );
}

function axisTable(results) {
  const main = { study: 'main', timing: '8b' };
  const [first] = [...new Set(results.select(main).map(({ seed }) => seed))].sort((a, b) => a - b);
  const axes = [
    ['load', {}],
    ['ratio', { seed: first }],
    ['workers', { seed: first }],
  ];
  const rows = REQUESTS.flatMap((trace) =>
    axes.flatMap(([axis, words]) => {
      const cells = results.select({ ...main, ...words, trace });
      const values = [...new Set(cells.map((cell) => cell[axis]))].sort((a, b) => a - b);
      return values.map((value) => [
        trace,
        axis === 'ratio' ? 'memory ratio' : axis,
        String(value),
        ...RIVALS.map((policy) => {
          const own = cells.filter((cell) => cell.policy === policy && cell[axis] === value);
          return pair(results.overall(own, 'ttft', 'default'), results.overall(own, 'e2e', 'default'));
        }),
      ]);
    }),
  );
  return markdown(['trace', 'by', '', ...RIVALS], rows);
}

function worstTable(results) {
  const cells = results.select({ study: ['main', 'sessions'], policy: 'expected-time' });
  const worst = [
    ['TTFT mean', 'ttft'],
    ['TTFT p99', 'p99'],
    ['E2E mean', 'e2e'],
  ].flatMap(([name, figure]) =>
    overSeeds(results.ratios(cells, figure, 'default')).map((one) => ({ ...one, name })),
  );
  const above = worst.filter(({ value }) => value > 1.02).sort((a, b) => b.value - a.value);
  if (above.length === 0) return 'None.';
  const table = markdown(
    ['cell', 'seeds', 'figure', 'expected-time / default'],
    above
      .slice(0, MOST_WORST)
      .map(({ cell, name, seeds, value }) => [cellOf(cell), String(seeds), name, value.toFixed(3)]),
  );
  return `${above.length} of ${worst.length} figures.\n\n${table}`;
}

function capacityTable(results) {
  const rows = Object.entries(LEVELS).flatMap(([trace, levels]) =>
    levels.map(([name, figure, most]) => [
      trace,
      name,
      ...CORE.map((policy) => capacityWord(results.capacity(trace, policy, figure, most))),
    ]),
  );
  return markdown(['trace', 'level', ...CORE], rows);
}

function capacityWord(load) {
  if (load === undefined) return 'not run';
  return load === null ? '–' : load.toFixed(1);
}

function sessionTable(results) {
  const rows = SESSIONS.flatMap((trace) => {
    const row = (name, words) => {
      const cells = results.select({ trace, ...words });
      return [
        trace,
        words.timing,
        name,
        String(cells.length),
        spread(results.ratios(cells, 'resumed', 'default')),
        number(results.overall(cells, 'p99', 'default')),
        number(results.overall(cells, 'e2e', 'default')),
      ];
    };
    const measured = ['8b', '70b'].flatMap((timing) => [
      ...CORE.map((policy) => row(policy, { study: 'sessions', timing, policy })),
      row('expected-time, held out', { study: 'held-out', timing, policy: 'expected-time' }),
    ]);
    const bounds = ['8b', '70b'].map((timing) => {
      const bound = results.boundOf(trace, timing);
      return [trace, timing, '*bound*', String(bound.length), spread(bound), '–', '–'];
    });
    return [...measured, ...bounds];
  });
  return markdown(['trace', 'timing', 'policy', 'cells', 'resumed TTFT mean', 'TTFT p99', 'E2E mean'], rows);
}

function changesTable(results) {
  const rows = changes(results).flatMap(({ name, orders }) =>
    orders.without.map(({ policy, ttft }) => [
      name,
      policy,
      String(orders.conditions),
      number(ttft),
      number(orders.with.find((one) => one.policy === policy)?.ttft ?? null),
    ]),
  );
  const wrong = REQUESTS.flatMap((trace) =>
    ['slow', 'fast'].map((how) => {
      const cells = results.select({ trace, policy: `expected-time-${how}` });
      const right = cells.map((cell) => ({ ...cell, policy: 'expected-time' }));
      return [
        `${trace}: times 3 times too ${how === 'slow' ? 'long' : 'short'}`,
        'expected-time',
        String(cells.length),
        number(results.overall(right, 'ttft', 'default')),
        number(results.overall(cells, 'ttft', 'default')),
      ];
    }),
  );
  return markdown(['change', 'policy', 'conditions', 'without', 'with'], [...rows, ...wrong]);
}

function fetchTable(results) {
  const plain = { nic: USUAL_NIC };
  const rows = REQUESTS.flatMap((trace) =>
    [24, 100, 200].map((nic) => {
      const ratios = (policy, base) =>
        spread(
          results.ratios(
            results.select({ study: ['fetch', 'main'], trace, policy, nic, ratio: [1, 4], workers: 8 }),
            'ttft',
            { ...plain, policy: base },
          ),
        );
      return [
        trace,
        `${nic / 8} GB/s`,
        ratios('expected-time-fetch', 'expected-time'),
        ratios('default-fetch', 'default'),
        ratios('kvcr', 'default'),
      ];
    }),
  );
  return markdown(['trace', 'link', 'expected-time + fetch', 'default + fetch', 'kvcr'], rows);
}

function tuningTable(results) {
  const rows = TUNING_POLICIES.flatMap(({ name }) => {
    const cells = results.select({ study: 'tuning', policy: name });
    const [policy] = name.split(' ', 1);
    const figures = ['ttft', 'p99', 'e2e'].map((figure) => results.overall(cells, figure, 'default'));
    const worst = Math.max(...results.ratios(cells, 'p99', 'default').map(({ value }) => value));
    return cells.length === 0
      ? []
      : [
          [
            policy,
            name.slice(policy.length + 1),
            String(cells.length),
            ...figures.map(number),
            number(Number.isFinite(worst) ? worst : null),
          ],
        ];
  });
  return rows.length === 0
    ? 'Not run.'
    : markdown(['policy', 'parameters', 'cells', 'TTFT mean', 'TTFT p99', 'E2E mean', 'worst p99'], rows);
}

function placeOf(cell) {
  return [cellOf(cell), `seed ${cell.seed}`, cell.policy].join(', ');
}

function cellOf({ delay, load, nic, ratio, routers, timing, trace, workers }) {
  return [
    trace,
    ...(timing === '8b' ? [] : [timing]),
    `${workers} workers`,
    `ratio ${ratio}`,
    ...(load === null ? [] : [`load ${load}`]),
    ...(delay > 0 ? [`events ${delay} ms late`] : []),
    ...(routers > 1 ? [`${routers} routers`] : []),
    ...(nic === USUAL_NIC ? [] : [`${nic} Gbit/s`]),
  ].join(', ');
}

function spread(ratios) {
  if (ratios.length === 0) return '–';
  const worst = Math.max(...ratios.map(({ value }) => value));
  return `${meanOf(ratios).toFixed(2)} (${worst.toFixed(2)})`;
}

function number(value) {
  return value === null ? '–' : value.toFixed(3);
}

function pair(one, other) {
  return one === null || other === null ? '–' : `${one.toFixed(2)} / ${other.toFixed(2)}`;
}
