// Which replays the table of session policies is made of, and how it is laid out. Works on replay reports alone.
import { geometricMean, groupsOf, hasWords, markdown, mean } from './table-parts.mjs';

const BASE = 'default';
const FIELDS = ['trace', 'memory', 'host', 'policy', 'seed'];
/** Memories that count as short; the larger ones stand for themselves. */
const SHORT = ['1/4', '1/3', '1/2'];

/** @type {typeof import('./session-table-rules.d.mts').sessionCells} */
export function sessionCells({ hosts, memories, policies, seeds, traces }) {
  return traces.flatMap((trace) =>
    memories.flatMap((memory) =>
      hosts.flatMap((host) =>
        policies
          .filter((policy) => host || !policy.endsWith('-blind'))
          .flatMap((policy) => seeds.map((seed) => ({ trace, memory, host, policy, seed }))),
      ),
    ),
  );
}

/** @type {typeof import('./session-table-rules.d.mts').isSelected} */
export function isSelected(cell, only) {
  return hasWords(only, FIELDS, 'memory=1/4,policy=release', (field) =>
    field === 'host' ? hostWord(cell.host) : String(cell[field]),
  );
}

/** @type {typeof import('./session-table-rules.d.mts').sessionProblems} */
export function sessionProblems(cells) {
  return cells.flatMap(({ cell, run }) => {
    const where = `${cell.trace}, memory ${cell.memory}, host ${hostWord(cell.host)}, ${cell.policy}, seed ${cell.seed}`;
    const lost = run.requests - run.completed;
    return [
      ...(lost === 0 ? [] : [`${where}: ${lost} requests were not answered`]),
      ...run.policy_faults.map(
        ({ count, policy, reason }) => `${where}: ${policy} failed ${count} times (${reason})`,
      ),
    ];
  });
}

/** @type {typeof import('./session-table-rules.d.mts').sessionTable} */
export function sessionTable(cells) {
  const heads = [
    'trace',
    'memory',
    'host',
    'policy',
    'seeds',
    'TTFT mean (s)',
    'p50',
    'p99',
    'mean / default (least–most)',
    'hit rate',
    'live evictions',
    'released',
  ];
  const rows = groupsOf(cells, ({ host, memory, policy, trace }) => [trace, memory, host, policy]).map(
    (group) => {
      const { host, memory, policy, trace } = group[0].cell;
      const figure = (of) => mean(group.map(({ run }) => of(run.sessions) ?? 0));
      const ratios = ratiosOf(group, cells);
      return [
        trace,
        memory,
        hostWord(host),
        policy,
        String(group.length),
        seconds(figure((sessions) => sessions.resumed_ttft_ms.mean)),
        seconds(figure((sessions) => sessions.resumed_ttft_ms.p50)),
        seconds(figure((sessions) => sessions.resumed_ttft_ms.p99)),
        spread(ratios),
        `${(100 * figure((sessions) => sessions.resumed_hit_rate_tokens)).toFixed(2)} %`,
        whole(figure((sessions) => sessions.live_evictions)),
        whole(figure((sessions) => sessions.released_blocks)),
      ];
    },
  );
  return markdown(heads, rows);
}

/** @type {typeof import('./session-table-rules.d.mts').ratioTable} */
export function ratioTable(cells) {
  const memories = [...new Set(cells.map(({ cell }) => cell.memory))];
  const wide = memories.filter((memory) => !SHORT.includes(memory));
  const short = memories.filter((memory) => SHORT.includes(memory));
  const columns = [...(short.length > 0 ? [short] : []), ...wide.map((memory) => [memory])];
  const rows = groupsOf(cells, ({ host, policy, trace }) => [trace, host, policy]).map((group) => {
    const { host, policy, trace } = group[0].cell;
    return [
      trace,
      hostWord(host),
      policy,
      ...columns.map((column) => {
        const part = group.filter(({ cell }) => column.includes(cell.memory));
        return spread(ratiosOf(part, cells));
      }),
    ];
  });
  return markdown(['trace', 'host', 'policy', ...columns.map((column) => column.join(', '))], rows);
}

/** Mean resumed TTFT of each cell over that of the default under the same conditions; nothing where that was not run. */
function ratiosOf(group, cells) {
  return group.flatMap(({ cell, run }) => {
    const base = cells.find(
      ({ cell: other }) =>
        other.policy === BASE &&
        other.trace === cell.trace &&
        other.memory === cell.memory &&
        other.host === cell.host &&
        other.seed === cell.seed,
    );
    const below = base?.run.sessions.resumed_ttft_ms.mean;
    const above = run.sessions.resumed_ttft_ms.mean;
    return above && below ? [above / below] : [];
  });
}

function spread(ratios) {
  if (ratios.length === 0) return '–';
  const range =
    ratios.length === 1 ? '' : ` (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;
  return `${geometricMean(ratios).toFixed(3)}${range}`;
}

function hostWord(host) {
  return host ? 'yes' : 'no';
}

function seconds(ms) {
  return (ms / 1000).toFixed(3);
}

function whole(number) {
  return Math.round(number).toLocaleString('en-US');
}
