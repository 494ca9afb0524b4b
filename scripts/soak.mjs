// Soak test: a router and simulated engines in processes of their own, driven with concurrent streams and whole answers, shared
// prefixes, aborts, slow readers, bad requests, killed and restarted workers, for a bounded time. Ends with a verdict; exit 1 when
// something that must hold did not. Usage: node scripts/soak.mjs [--seconds 60] [--workers 4] [--clients 24] [--seed 1] …
// With --index it soaks the prefix index alone instead: soak-index.mjs.
import { fork } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { EngineFleet } from './soak-engines.mjs';
import { Load } from './soak-load.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const OPTIONS = {
  seconds: [60, 'how long requests are sent'],
  workers: [4, 'simulated workers, each a process'],
  clients: [24, 'requests under way at the same time'],
  seed: [1, 'of prompts, aborts and kills'],
  'kv-blocks': [1500, 'KV blocks per worker; few of them make for evictions'],
  speed: [20, 'times faster than the modelled GPU'],
  'kill-every': [8, 'seconds between kills of a worker; 0 = none'],
  'down-ms': [4000, 'how long a killed worker stays away at most, ms'],
  mode: ['kv', 'router mode'],
};

if (process.argv.includes('--index')) {
  await import('./soak-index.mjs');
  process.exit();
}
const { values } = parseArgs({
  options: {
    help: { type: 'boolean' },
    ...Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, { type: 'string' }])),
  },
});
if (values.help) {
  const lines = Object.entries(OPTIONS).map(
    ([name, [value, meaning]]) => `  --${name} <x>  ${meaning} (default: ${value})`,
  );
  const index =
    'or  npm run soak -- --index [--operations 1e8] [--threads 1] [--seed 1]  for the prefix index alone,\n    npm run soak -- --index --churn [--events 5e7] [--seed 1]  for hours of churn under a cap';
  process.stdout.write(`Usage: npm run soak -- [options]\n\n${lines.join('\n')}\n\n${index}\n`);
} else {
  process.exitCode = (await soak(readOptions())) ? 0 : 1;
}

function readOptions() {
  const read = {};
  for (const [name, [fallback]] of Object.entries(OPTIONS)) {
    const given = values[name];
    const value = given === undefined || typeof fallback === 'string' ? (given ?? fallback) : Number(given);
    if (typeof fallback === 'number' && !(value >= 0 && given !== '')) {
      process.stderr.write(`--${name} must be a number from 0, not "${given}"\n`);
      process.exit(2);
    }
    read[name] = value;
  }
  return read;
}

async function soak(options) {
  const built = (path) => import(pathToFileURL(join(root, 'dist', path)).href);
  const engines = new EngineFleet(options, built);
  let router = null;
  try {
    await engines.start();
    router = await startRouter(engines.urls, options);
    const load = new Load({ url: router.url, ...options });
    const memory = [await router.ask('memory')];
    const started = performance.now();
    const elapsed = () => (performance.now() - started) / 1000;
    load.start();
    engines.trouble();
    let quarter = false;
    let nextLine = 10;
    while (elapsed() < options.seconds && router.alive()) {
      await pause(250);
      if (!quarter && elapsed() >= options.seconds / 4) {
        quarter = true;
        memory.push(await router.ask('memory'));
      }
      if (elapsed() < nextLine) continue;
      nextLine += 10;
      print(`${elapsed().toFixed(0).padStart(4)} s  ${load.summary()}  kills ${engines.kills}`);
    }
    await engines.calm();
    await load.stop();
    return await verdict({ options, engines, router, load, memory });
  } finally {
    await router?.stop();
    await engines.stop();
  }
}

async function verdict({ options, engines, router, load, memory }) {
  const faults = [...load.faults, ...engines.faults];
  const must = (holds, fault) => {
    if (!holds) faults.push(fault);
  };
  if (!router.alive()) {
    print(`FAILED: the router ended\n${router.log()}`);
    return false;
  }
  // What is still under way between processes gets a moment; a leak stays.
  let state;
  for (const until = performance.now() + 15_000; performance.now() < until; await pause(250)) {
    state = await stateOf(router, engines);
    if (state.settled) break;
  }
  memory.push(await router.ask('memory'));
  const [first, quarter, last] = memory;
  const mib = (bytes) => (bytes / 1048576).toFixed(0);
  const { metrics } = state;
  const share = (name) => (metrics(name) / Math.max(1, metrics('pointsman_prompt_tokens_total'))).toFixed(4);
  print(`\nrequests        ${load.summary()}`);
  print(`kills           ${engines.kills}`);
  print(
    `hit rate        reported ${share('pointsman_reported_cached_tokens_total')}, predicted ${share('pointsman_predicted_cached_tokens_total')}`,
  );
  print(`bookings left   ${state.bookings}`);
  print(`active left     ${state.active} in the router, ${state.running} in the engines`);
  print(`memory RSS MiB  start ${mib(first.rss)}, quarter ${mib(quarter.rss)}, end ${mib(last.rss)}`);
  print(`heap after GC   start ${mib(first.heap)}, quarter ${mib(quarter.heap)}, end ${mib(last.heap)}`);
  print(`handles         start ${first.handles}, end ${last.handles}`);
  for (const line of state.lines) print(line);
  print(
    `events          missed batches ${metrics('pointsman_kv_event_batches_missed_total')}, restarts noticed ${metrics('pointsman_worker_restarts_total')} by epoch, ${metrics('pointsman_kv_event_restarts_total')} by sequence, rejected ${metrics('pointsman_kv_events_rejected_total')}`,
  );
  const { errors } = await router.ask('errors');
  print(`stray errors    ${errors.length}`);
  must(load.count('200') > 0, 'no request succeeded');
  must(state.bookings === 0, `${state.bookings} bookings are left`);
  must(state.active === 0, `${state.active} requests are still counted as active`);
  must(state.running === 0, `engines still have ${state.running} requests`);
  must(
    last.heap < quarter.heap * 1.5 + 16 * 1048576,
    'the heap grew by more than half since the first quarter',
  );
  must(last.handles <= quarter.handles + options.clients, 'handles grew since the first quarter');
  faults.push(...state.faults, ...errors.map((error) => `stray error: ${error}`));
  for (const fault of faults.slice(0, 20)) print(`FAULT: ${fault}`);
  print(faults.length === 0 ? '\nok' : `\nFAILED: ${faults.length} faults (seed ${options.seed})`);
  return faults.length === 0;
}

/** Counts, and per worker what the index says against what the engine's own events add up to. */
async function stateOf(router, engines) {
  const text = await (await fetch(`${router.admin}/metrics`)).text();
  const metrics = (name) =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  const workers = await (await fetch(`${router.admin}/workers`)).json();
  const { residency } = await router.ask('residency');
  const lines = [];
  const faults = [];
  let running = 0;
  for (const [at, engine] of engines.engines.entries()) {
    const worker = workers[at];
    const stream = worker.ranks[0].kv_events;
    running += await engine.running();
    const truth = engine.blocks();
    const held = new Set(residency?.[at + 1] ?? []);
    const extra = [...held].filter((hash) => !truth.has(hash)).length;
    const lacking = [...truth].filter((hash) => !held.has(hash)).length;
    const index =
      residency === null ? 'no index' : `index ${held.size} (${extra} too many, ${lacking} missing)`;
    lines.push(
      `worker ${worker.id}        ${worker.state}; engine holds ${truth.size}, ${index}${stream?.stale ? '; stream stale' : ''}`,
    );
    const fault = (problem) => faults.push(`worker ${worker.id} ${problem}`);
    if (worker.state !== 'ready') fault(`is ${worker.state}, not ready`);
    if (residency === null) continue;
    if (worker.capabilities?.epoch !== engine.epoch) fault('is known with an epoch that is over');
    if (stream?.endpoint !== engine.events || !stream.connected)
      fault(`is not subscribed to at ${engine.events}`);
    if (extra > 0) fault(`has ${extra} blocks in the index that its engine does not hold`);
    if (lacking > 0) fault(`holds ${lacking} blocks that the index does not know`);
  }
  const bookings = metrics('pointsman_bookings_active');
  const active = metrics('pointsman_requests_active');
  const settled = bookings === 0 && active === 0 && running === 0 && faults.length === 0;
  return { settled, bookings, active, running, lines, faults, metrics };
}

async function startRouter(urls, options) {
  const child = fork(join(root, 'scripts/soak-router.mjs'), {
    execArgv: ['--expose-gc'],
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (part) => {
    log = (log + part).slice(-20_000);
  });
  let alive = true;
  const ended = new Promise((resolve) => {
    child.on('exit', () => {
      alive = false;
      resolve();
    });
  });
  const answers = new Map();
  child.on('message', ({ id, answer }) => {
    answers.get(id)?.(answer);
    answers.delete(id);
  });
  let next = 0;
  const ask = async (question, details) => {
    next += 1;
    const id = next;
    const answer = new Promise((resolve) => answers.set(id, resolve));
    child.send({ id, question, details });
    return await Promise.race([
      answer,
      ended.then(() => {
        throw new Error(`the router ended: ${log}`);
      }),
    ]);
  };
  const { url, admin } = await ask('start', { urls, mode: options.mode });
  return {
    url,
    admin,
    ask,
    alive: () => alive,
    log: () => log,
    async stop() {
      if (alive) child.disconnect();
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
      await ended;
      clearTimeout(timer);
    },
  };
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
