// Which replays the policy lab is made of: studies, their axes, and the options of each replay. Pure.
import { hasWords } from './table-parts.mjs';

/** @type {typeof import('./lab-grid.d.mts').LAB_TRACES} */
export const LAB_TRACES = {
  conversation: {
    file: 'mooncake_conversation',
    part: 'second half',
    loads: [0.4, 0.7, 0.9, 1.1],
    steps: steps(0.4, 1.2),
    copies: null,
  },
  synthetic: {
    file: 'mooncake_synthetic',
    part: 'whole',
    loads: [0.5, 0.9, 1.3, 1.6],
    steps: steps(0.5, 1.8),
    copies: null,
  },
  agentic: { file: 'claude_code_agentic', part: 'whole', loads: [null], steps: [], copies: 3 },
  subagent: { file: 'claude_code_subagent', part: 'whole', loads: [null], steps: [], copies: 12 },
  tuning: {
    file: 'mooncake_conversation',
    part: 'first half',
    loads: [0.4, 0.7, 0.9, 1.1],
    steps: [],
    copies: null,
  },
};

/** Policies that every study compares. */
export const CORE = ['default', 'agentic', 'tuned-cost', 'expected-time'];
/** Those whose every cell is measured with all seeds, as the aims are about them. */
const SEEDED = CORE.filter((policy) => policy !== 'agentic');
const OTHERS = ['round-robin', 'least-loaded', 'two-tier', 'kvcr'];
const MISTIMED = ['expected-time-slow', 'expected-time-fast'];
const REQUESTS = ['conversation', 'synthetic'];
const SESSIONS = ['agentic', 'subagent'];
/** Sessions whose memory holds all, with links on which copies take next to no time: what no placement can do better. */
export const BOUND = { policy: 'expected-time-fetch', ratio: 1 / 8, nic: 1_000_000 };
/** Seeds of sessions on which no weight was chosen: whoever chooses one there takes others here. */
const HELD_OUT_SEEDS = [6, 7, 8, 9, 10];
/** 12.5 GB/s: what engines have unless told otherwise. */
export const USUAL_NIC = 100;
const FIELDS = [
  'study',
  'trace',
  'timing',
  'workers',
  'ratio',
  'load',
  'delay',
  'routers',
  'nic',
  'seed',
  'policy',
];

const PLAIN = { timings: ['8b'], workers: [8], ratios: [2], delays: [0], routers: [1], nics: [USUAL_NIC] };
/** A load below saturation and one at which the default is near it. */
const busyLoads = ({ loads }) => loads.slice(1, 3);

/** The defaults, one parameter at a time otherwise, and the parts of the formula left out alone and together. */
const EXPECTED_SETTINGS = [
  {},
  ...product({ prefill_weight: [2, 4, 6, 12] }),
  ...product({ interference_weight: [0, 0.015, 0.06] }),
  ...product({ waiting_weight: [0, 1, 2, 4] }),
  ...product({ crowding_weight: [0, 2, 4] }),
  ...product({ late_weight: [0, 1, 2] }),
  ...product({ ttft_target_ms: [1000, 2000, 4000] }),
  ...product({ decode_weight: [0, 0.1, 0.3] }),
  { waiting_weight: 0, late_weight: 0 },
  { prefill_weight: 4, waiting_weight: 0, late_weight: 0, decode_weight: 0.1 },
  { waiting_weight: 0, late_weight: 0, interference_weight: 0, decode_weight: 0 },
];
const TUNED_SETTINGS = product({ prefill_load_scale: [4, 8, 16], overlap_score_credit: [1, 2, 4, 8] });

/** @type {typeof import('./lab-grid.d.mts').TUNING_POLICIES} */
export const TUNING_POLICIES = [
  ...EXPECTED_SETTINGS.map((parameters) => tuningPolicy('expected-time', parameters)),
  ...TUNED_SETTINGS.map((parameters) => tuningPolicy('tuned-cost', parameters)),
];

function tuningPolicy(policy, parameters) {
  return {
    // Never the name of a core policy, whose file may say something else.
    name: [
      policy,
      ...Object.entries(parameters).map((one) => one.join(' ')),
      ...(Object.keys(parameters).length === 0 ? ['defaults'] : []),
    ].join(' '),
    yaml: `${JSON.stringify({ worker_selection: { aggregated: { type: `pointsman-${policy}`, parameters, hints: [] } } })}\n`,
  };
}

/** @type {typeof import('./lab-grid.d.mts').tuningStudy} */
export function tuningStudy(seeds) {
  return {
    ...PLAIN,
    study: 'tuning',
    traces: ['tuning'],
    workers: [4, 8, 16],
    ratios: [1, 4],
    loads: (trace) => LAB_TRACES[trace].loads,
    seeds: seeds.slice(0, 1),
    policies: ['default', ...TUNING_POLICIES.map(({ name }) => name)],
  };
}

/** @type {typeof import('./lab-grid.d.mts').labStudies} */
export function labStudies({ full, seeds }) {
  const [first, ...others] = seeds;
  const every = { ...PLAIN, workers: [4, 8, 16], ratios: [0.5, 1, 2, 4] };
  const loads = (trace) => LAB_TRACES[trace].loads;
  const busy = (trace) => busyLoads(LAB_TRACES[trace]);
  const main = full
    ? [
        {
          ...every,
          study: 'main',
          timings: ['8b', '70b', 'smg'],
          traces: REQUESTS,
          loads,
          seeds,
          policies: [...CORE, ...OTHERS],
        },
      ]
    : [
        { ...every, study: 'main', traces: REQUESTS, loads, seeds: [first], policies: CORE },
        { ...every, study: 'main', traces: REQUESTS, loads, seeds: others, policies: SEEDED },
        { ...PLAIN, study: 'main', traces: REQUESTS, loads, seeds: others, policies: CORE },
        { ...PLAIN, study: 'main', traces: REQUESTS, loads, seeds: [first], policies: OTHERS },
        {
          ...PLAIN,
          study: 'main',
          timings: ['smg'],
          traces: REQUESTS,
          loads,
          seeds: [first],
          policies: CORE,
        },
      ];
  const some = full ? seeds : seeds.slice(0, 2);
  const fetching = {
    ...PLAIN,
    study: 'fetch',
    traces: REQUESTS,
    ratios: [1, 4],
    loads: (trace) => LAB_TRACES[trace].loads.slice(0, 3),
    nics: [24, 100, 200],
  };
  const closedLoop = {
    ...PLAIN,
    study: 'sessions',
    timings: ['8b', '70b'],
    traces: SESSIONS,
    workers: [4, 8],
    ratios: [1, 2],
    loads,
  };
  return [
    ...main,
    { ...closedLoop, seeds: some, policies: full ? [...CORE, ...OTHERS] : CORE },
    { ...closedLoop, seeds, policies: ['default', 'expected-time'] },
    {
      ...closedLoop,
      study: 'held-out',
      seeds: HELD_OUT_SEEDS.filter((seed) => !seeds.includes(seed)),
      policies: ['default', 'expected-time'],
    },
    {
      ...PLAIN,
      study: 'bound',
      timings: ['8b', '70b'],
      traces: SESSIONS,
      workers: [4, 8],
      ratios: [BOUND.ratio],
      loads,
      seeds: some,
      nics: [BOUND.nic],
      policies: [BOUND.policy],
    },
    {
      ...PLAIN,
      study: 'capacity',
      traces: REQUESTS,
      loads: (trace) => LAB_TRACES[trace].steps,
      seeds: full ? seeds : [first],
      policies: CORE,
    },
    { ...PLAIN, study: 'delay', traces: REQUESTS, loads: busy, seeds: some, delays: [200], policies: CORE },
    { ...PLAIN, study: 'routers', traces: REQUESTS, loads: busy, seeds: some, routers: [2], policies: CORE },
    { ...PLAIN, study: 'timing', traces: REQUESTS, loads, seeds: some, policies: MISTIMED },
    { ...fetching, seeds, policies: ['expected-time-fetch'] },
    { ...fetching, seeds: full ? seeds : [first], policies: ['default-fetch', 'kvcr'] },
  ];
}

/** @type {typeof import('./lab-grid.d.mts').labCells} */
export function labCells(studies, accepts) {
  const cells = new Map();
  for (const one of studies) {
    for (const cell of cellsOf(one)) {
      if (!accepts(cell.policy)) continue;
      const key = JSON.stringify({ ...cell, study: null });
      // The first study that wants a replay has it; others read it there.
      if (!cells.has(key)) cells.set(key, cell);
    }
  }
  return [...cells.values()];
}

function cellsOf({ delays, loads, nics, policies, ratios, routers, seeds, study, timings, traces, workers }) {
  return product({ trace: traces, timing: timings, workers, ratio: ratios, seed: seeds }).flatMap((place) =>
    product({ load: loads(place.trace), delay: delays, routers, nic: nics, policy: policies }).map(
      (rest) => ({
        study,
        ...place,
        ...rest,
      }),
    ),
  );
}

function product(axes) {
  return Object.entries(axes).reduce(
    (rows, [name, values]) => rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value }))),
    [{}],
  );
}

/** @type {typeof import('./lab-grid.d.mts').isSelected} */
export function isSelected(cell, only) {
  return hasWords(only, FIELDS, 'trace=conversation,load=0.9|1.1,policy=default', (field) =>
    String(cell[field]),
  );
}

/** @type {typeof import('./lab-grid.d.mts').conditionOf} */
export function conditionOf({ policy: _, study: __, ...condition }) {
  return JSON.stringify(condition);
}

/** @type {typeof import('./lab-grid.d.mts').replayOptions} */
export function replayOptions(
  { delay, load, nic, ratio, routers, seed, timing, trace, workers },
  rows,
  most,
) {
  const { copies, part } = LAB_TRACES[trace];
  const half = Math.floor(rows / 2);
  const skip = part === 'second half' ? half : 0;
  const length = part === 'whole' ? rows : part === 'second half' ? rows - half : half;
  const limit = Math.min(length, most ?? length);
  return [
    ...['--workers', String(workers), '--block-size', '512', '--timing', timing],
    ...['--memory', String(1 / ratio), '--seed', String(seed), '--warm-up', '0.1'],
    ...(copies === null
      ? ['--load', String(load), '--spread-arrivals']
      : ['--copies', String(copies), '--max-context', '260000']),
    ...(skip > 0 ? ['--skip', String(skip)] : []),
    ...(skip + limit < rows ? ['--limit', String(limit)] : []),
    ...(delay > 0 ? ['--event-faults', `delay=${delay}ms`, '--no-event-replay'] : []),
    ...(routers > 1 ? ['--routers', String(routers)] : []),
    ...(nic === USUAL_NIC ? [] : ['--nic-gbps', String(nic)]),
    '--fast-events',
  ];
}

/** @type {typeof import('./lab-grid.d.mts').keptFigures} */
export function keptFigures({
  completed,
  e2e_ms,
  hints,
  policy_faults,
  requests,
  sessions,
  ttft_ms,
  ...rest
}) {
  const times = rest.workers.map((worker) => worker.prefill_ms ?? 0);
  const total = times.reduce((sum, time) => sum + time, 0);
  return {
    requests,
    completed,
    policy_faults,
    hit: rest.prefix_hit_rate_tokens,
    ttft: { mean: ttft_ms.mean, p50: ttft_ms.p50, p99: ttft_ms.p99 },
    e2e: e2e_ms.mean,
    imbalance: total > 0 ? (Math.max(...times) * times.length) / total : null,
    fetched: hints.fetched_blocks,
    resumed:
      sessions === undefined
        ? null
        : { mean: sessions.resumed_ttft_ms.mean, p99: sessions.resumed_ttft_ms.p99 },
  };
}

function steps(from, to) {
  const tenths = Math.round(10 * (to - from));
  return Array.from({ length: tenths + 1 }, (_, step) => Math.round(10 * from + step) / 10);
}
