// `pointsman serve`: the router as a process, until a signal ends it.
import type { Command } from 'commander';
import { ROUTER_MODES } from '../config/index.ts';
import { errorText, exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import { DEFAULT_ADMIN } from './admin-client.ts';
import { createJsonLog, type JsonLog } from './json-log.ts';
import { wholeNumber } from './option-values.ts';
import type { CliIo } from './output.ts';
import { programName } from './program-name.ts';
import { type RunningRouter, startRouter } from './running-router.ts';
import type { ServeConfig, ServeConfigOptions } from './serve-config.ts';
import { readServeConfig, rereadServeConfig, withSimulatedWorkers } from './serve-config.ts';
import { type SpawnedSimulators, spawnSimulators } from './spawn-simulators.ts';
import { stopSignal } from './stop-signal.ts';
import { containRejections } from './stray-rejections.ts';
import { systemClock } from './system-clock.ts';
import { Watchdog } from './watchdog.ts';

interface ServeOptions extends ServeConfigOptions {
  readonly simArg?: readonly string[];
  readonly json?: true;
}

const MAX_SIM_WORKERS = 256;

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('serve')
    .description('run the router; without a configuration, with simulated workers')
    .option('--config <file>', 'router.yaml (default: POINTSMAN_CONFIG, else the embedded default)')
    .option('--port <port>', 'port of the API; 0 = any free (default: 8000)', wholeNumber(0, 65_535))
    .option(
      '--admin-port <port>',
      'port of the admin API; 0 = any free (default: 8001)',
      wholeNumber(0, 65_535),
    )
    .option(
      '--sim-workers <n>',
      'start simulated workers in a child process (default without a configuration: 4)',
      wholeNumber(1, MAX_SIM_WORKERS),
    )
    .option('--sim-arg <arg...>', 'further arguments for the simulated workers, see pointsman sim --help')
    .option('--router-mode <mode>', `one of ${ROUTER_MODES.join(', ')}`)
    .option(
      '--router-policy-config <file>',
      'a policy file in the grammar of the Rust router, beside --config or alone (default: DYN_ROUTER_POLICY_CONFIG)',
    )
    .option(
      '--router-prefill-policy <name>',
      'worker selection policy of role prefill (default: DYN_ROUTER_PREFILL_POLICY)',
    )
    .option(
      '--router-decode-policy <name>',
      'worker selection policy of role decode (default: DYN_ROUTER_DECODE_POLICY)',
    )
    .option('--json', 'the addresses as one JSON line on stdout')
    .addHelpText(
      'after',
      `
Logs go to stderr. SIGHUP, or a change of the configuration or of a plugin file: reloaded. SIGTERM or SIGINT: running requests get limits.drain to finish; a second signal ends at once with exit
code 1. Exit 2 for whatever a start refuses.

Examples:
  $ pointsman serve --sim-workers 4
  $ pointsman serve --config router.yaml --port 8080
  $ pointsman serve --sim-workers 2 --sim-arg=--speed --sim-arg=10 --json
  $ pointsman serve --config router.yaml --sim-workers 4 --sim-arg=--accept-action=acme.pin@1.0`,
    )
    .action(async (options: ServeOptions) => run(io, options));
}

async function run(io: CliIo, options: ServeOptions): Promise<void> {
  // From here on a signal ends this run in order, also while it starts.
  const stop = stopSignal({ exitWithParent: false });
  let simulators: SpawnedSimulators | null = null;
  let letRejectionsThrough = (): void => undefined;
  let watchdog: Watchdog | null = null;
  let router: RunningRouter | null = null;
  const onHangup = (): void => void router?.reload('signal');
  process.on('SIGHUP', onHangup);
  try {
    const read = readServeConfig(options, io.env);
    const log = createJsonLog(read.config.observe.logLevel, { write: (line) => io.err(line) });
    for (const warning of read.warnings) log.warn(read.source.render(warning), { code: warning.code });
    if (read.simWorkers > 0) {
      simulators = await spawnSimulators({ count: read.simWorkers, args: options.simArg ?? [] });
    }
    letRejectionsThrough = containRejections(log);
    watchdog = new Watchdog(read.config.containment.watchdogMs, log);
    router = await start(log, read, simulators, watchdog, () => rereadServeConfig(read, options, io.env));
    watchdog.start();
    announce(io, options, read, router, simulators);
    const ended = simulators?.exited.then(() => 'simulators' as const);
    const reason = await Promise.race([stop.reason, ...(ended === undefined ? [] : [ended])]);
    if (reason === 'simulators') log.error('stopping: the simulated workers ended');
    else log.info('stopping: running requests may finish; a second signal ends at once');
    await router.stop(router.config().limits.drainMs);
    if (reason === 'simulators') io.exit(1);
  } finally {
    await watchdog?.stop();
    await simulators?.stop();
    letRejectionsThrough();
    stop.dispose();
    process.off('SIGHUP', onHangup);
  }
}

async function start(
  log: JsonLog,
  read: ServeConfig,
  simulators: SpawnedSimulators | null,
  running: Watchdog,
  reread: () => ServeConfig,
): Promise<RunningRouter> {
  const whole = (one: ServeConfig): ServeConfig => {
    return { ...one, config: withSimulatedWorkers(one.config, simulators?.engines ?? []) };
  };
  const { config, source, files } = whole(read);
  try {
    return await startRouter({
      config,
      source,
      clock: systemClock(),
      log,
      running,
      reread: { files, read: () => whole(reread()) },
      applied({ containment, observe }) {
        log.setLevel(observe.logLevel);
        void running.setLimit(containment.watchdogMs);
      },
    });
  } catch (thrown) {
    // An address that cannot be had is a matter of the command line or the configuration: exit 2.
    if (!(thrown instanceof PointsmanError) || thrown.code !== 'PM_LISTEN') throw thrown;
    const { cause } = thrown;
    const taken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    const advice = taken
      ? '--port and --admin-port choose others'
      : 'listen.host and admin.host choose the address';
    throw new PointsmanError('PM_USAGE', `${errorText(thrown)}; ${advice}`, { cause: thrown });
  }
}

function announce(
  io: CliIo,
  options: ServeOptions,
  read: ServeConfig,
  router: RunningRouter,
  simulators: SpawnedSimulators | null,
): void {
  const workers = router.core.fleet.workers();
  if (options.json) {
    const list = workers.map(({ spec }) => ({ id: spec.id, url: spec.url, model: spec.model }));
    io.out(
      `${exactJsonStringify({ url: router.url, admin: router.adminUrl, pid: process.pid, sim_pid: simulators?.pid ?? null, workers: list })}\n`,
    );
    return;
  }
  const { reasons, warnings } = router.readiness();
  const kind = read.simWorkers > 0 ? 'simulated ' : '';
  io.out(
    [
      `API      ${router.url}/v1`,
      `Admin    ${router.adminUrl}`,
      `Workers  ${workers.length} ${kind}(router mode ${read.config.router.mode})`,
      ...reasons.map((reason) => `Not ready yet: ${reason}`),
      ...warnings.map((warning) => `Warning: ${warning}`),
      '',
      ...firstSteps(read, router, programName(io.env)),
      '',
      'Stop with Ctrl-C.',
      '',
    ].join('\n'),
  );
}

/** A prompt of several KV blocks, so that a second request finds something cached; without quotes, for the shell's sake. */
const FIRST_PROMPT =
  'A router knows which KV blocks every worker holds and how busy each of them is. Tell me when it sends a request to the ' +
  'worker with the longest cached prefix, and when it prefers another one.';

/** What to do with the router that runs now. */
function firstSteps(
  { config }: ServeConfig,
  { adminUrl, core, url }: RunningRouter,
  program: string,
): string[] {
  const model = core.fleet.workers()[0]?.spec.model ?? [...config.models.keys()][0];
  if (model === undefined) {
    return [
      'There is nothing to route to: add models and workers to the configuration, or give --sim-workers 4 to try this one',
      'with simulated workers.',
    ];
  }
  const key = config.auth === null ? '' : ` -H 'authorization: Bearer KEY'`;
  const body = `{"model":"${model}","stream":true,"max_tokens":32,"messages":[{"role":"user","content":"${FIRST_PROMPT}"}]}`;
  const token = config.admin.token === null ? '' : 'POINTSMAN_ADMIN_TOKEN=TOKEN ';
  const admin = adminUrl === DEFAULT_ADMIN ? '' : ` --admin ${adminUrl}`;
  return [
    'Try it:',
    `  curl -N ${url}/v1/chat/completions -H 'content-type: application/json'${key} -d '${body}'`,
    'and see where it went and why:',
    `  ${token}${program} explain --last${admin}`,
  ];
}
