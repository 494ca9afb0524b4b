// What the table of committed copies must show, and how it is laid out. Works on replay reports alone.

/** Below this share of sent commits whose blocks the engine then found cached, credit is given for what does not come. */
const LEAST_COVERAGE = 0.95;

/**
 * What is wrong with the figures of these runs, in words.
 * @param {readonly import('./copy-table-rules.d.mts').CopyRun[]} runs
 * @param {number} moreThan commits that every run of a committing policy must exceed, made and sent
 * @returns {string[]}
 */
export function copyProblems(runs, moreThan) {
  return runs.flatMap(({ trace, policy, seed, commits: expected, report }) => {
    const where = `${trace}, ${policy}, seed ${seed}`;
    const problems = report.policy_faults.map(
      ({ policy: name, reason, count }) => `${where}: ${name} failed ${count} times (${reason})`,
    );
    const { commits } = report.hints;
    if (!expected) {
      if (commits !== undefined)
        problems.push(`${where}: copies were committed, which this policy never does`);
      return problems;
    }
    if (commits === undefined) return [...problems, `${where}: no copy was committed`];
    const { made, sent, degraded, released } = commits;
    if (made !== sent + degraded + released) {
      problems.push(
        `${where}: ${made} copies made, but ${sent} sent + ${degraded} degraded + ${released} released`,
      );
    }
    if (made <= moreThan || sent <= moreThan) {
      problems.push(`${where}: ${made} copies made and ${sent} sent; both must exceed ${moreThan}`);
    }
    if (coverageOf(commits) < LEAST_COVERAGE) {
      problems.push(
        `${where}: the engine found the credited blocks of ${percent(coverageOf(commits))} of the sent copies cached; at least ${percent(LEAST_COVERAGE)} are needed`,
      );
    }
    return problems;
  });
}

/**
 * One row per trace and policy, over all its seeds.
 * @param {readonly import('./copy-table-rules.d.mts').CopyRun[]} runs
 * @returns {string} a Markdown table
 */
export function copyTable(runs) {
  const heads = [
    'trace',
    'policies',
    'hit rate (least–most)',
    'TTFT mean (ms)',
    'TTFT p99 (ms)',
    'committed',
    'sent',
    'degraded',
    'released',
    'covered, worst seed',
  ];
  const rows = [...new Set(runs.map(({ trace, policy }) => `${trace}\n${policy}`))].map((key) => {
    const group = runs.filter(({ trace, policy }) => `${trace}\n${policy}` === key);
    const reports = group.map(({ report }) => report);
    const [{ trace, policy }] = group;
    const rates = reports.map((report) => report.prefix_hit_rate_tokens ?? 0);
    const commits = reports.flatMap((report) => report.hints.commits ?? []);
    const total = (name) =>
      commits.length === 0 ? '–' : whole(commits.reduce((sum, one) => sum + one[name], 0));
    return [
      trace,
      policy,
      `${mean(rates).toFixed(4)} (${Math.min(...rates).toFixed(4)}–${Math.max(...rates).toFixed(4)})`,
      whole(mean(reports.map((report) => report.ttft_ms.mean ?? 0))),
      whole(mean(reports.map((report) => report.ttft_ms.p99 ?? 0))),
      total('made'),
      total('sent'),
      total('degraded'),
      total('released'),
      commits.length === 0 ? '–' : percent(Math.min(...commits.map(coverageOf))),
    ];
  });
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const rule = heads.map((_, at) => (at < 2 ? '---' : '---:'));
  return [line(heads), line(rule), ...rows.map(line)].join('\n');
}

/** Of the sent commits; one whose request never completed covers nothing. */
function coverageOf({ sent, sent_and_covered: covered }) {
  return sent === 0 ? 0 : covered / sent;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function whole(value) {
  return Math.round(value).toLocaleString('en-US');
}

/** Rounded down, so that 100 % means all. */
function percent(share) {
  return `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}
