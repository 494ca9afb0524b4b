// `pointsman doctor`: asks every worker, through the wires alone, whether it does what the router believes, and says what to change.
import { randomInt } from 'node:crypto';
import type { Command } from 'commander';
import type { RouterConfig } from '../config/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { NEEDED_ASKING } from '../parity/index.ts';
import { type Logger, NO_LOG, PointsmanError } from '../plugin/index.ts';
import { type Diagnosis, examine } from './doctor-examine.ts';
import { doctorFleet } from './doctor-fleet.ts';
import { diagnosisJson, diagnosisText } from './doctor-report.ts';
import { askable, configOfRouter, configOfUrls, type DoctorSource } from './doctor-source.ts';
import { type CliIo, writeJson } from './output.ts';
import { readServeConfig } from './serve-config.ts';
import { slicedClock } from './sliced-clock.ts';
import { startTokenSources } from './start-problems.ts';
import { systemClock } from './system-clock.ts';

interface DoctorOptions {
  readonly config?: string;
  readonly admin?: string;
  readonly worker?: readonly string[];
  readonly json?: true;
  readonly verbose?: true;
}

/** Events of an answer come with it or moments later, ms. */
const SETTLE_MS = 400;

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('doctor')
    .description('ask every worker whether it does what the router believes')
    .option('--config <file>', 'router.yaml whose workers are asked (default: POINTSMAN_CONFIG)')
    .option('--admin <address>', 'admin API of a running router whose workers are asked: a url or host:port')
    .option('--worker <url...>', 'urls of engines to ask, without any configuration')
    .option('--verbose', 'list the checks that each worker passed as well, and those that could not be made')
    .option('--json', 'findings as JSON on stdout, with the checks of each worker')
    .addHelpText(
      'after',
      `
Sends a few short probe prompts of random tokens to every rank, listens to its KV events and asks its replay endpoint. Block size,
hashes, tokens and template, salts, adapters, ranks, event order, clock, copies, replay: docs/parity.md has every finding. Progress goes
to stderr, and with it what could not be tested: a url alone does not say where vLLM publishes its KV events, a configuration does.
Exit 0 when nothing was found, 1 when something was, 2 for usage or configuration. A token of the admin API is taken from POINTSMAN_ADMIN_TOKEN.

Examples:
  $ pointsman doctor --config router.yaml
  $ pointsman doctor --admin http://127.0.0.1:8001
  $ pointsman doctor --worker http://10.0.0.7:8000 http://10.0.0.8:8000
  $ pointsman doctor --config router.yaml --json`,
    )
    .action(async (options: DoctorOptions) => run(io, options));
}

async function run(io: CliIo, options: DoctorOptions): Promise<void> {
  const { config, inProcess } = await sourceOf(options, io);
  if (config.workers.length === 0) {
    throw new PointsmanError(
      'PM_USAGE',
      inProcess.length > 0
        ? 'there are no workers to ask: all run in the process of the router, which hashes their tokens and hears their events itself'
        : 'there are no workers to ask; name some under workers in --config, or with --worker, or a router with --admin',
    );
  }
  const log = progress(io);
  for (const name of inProcess) log.info(`${name} is not asked: it runs in the process of the router`);
  const diagnosis = await diagnose(config, log, options.worker !== undefined);
  if (options.json) writeJson(io, diagnosisJson(diagnosis));
  else io.out(diagnosisText(diagnosis, options.verbose === true));
  if (diagnosis.findings.length > 0) io.exit(1);
}

/**
 * What is found of the workers of a configuration.
 * @param isUrlAlone nobody has said where their KV events are; default false.
 */
export async function diagnose(
  config: RouterConfig,
  log: Logger = NO_LOG,
  isUrlAlone = false,
): Promise<Diagnosis> {
  // It judges by what it hears in time: what comes late because this process was held up must count.
  const clock = slicedClock(systemClock());
  const { problems, started: tokens } = await startTokenSources(config, {
    metrics: NO_METRICS,
    clock,
    threads: 1,
  });
  try {
    for (const { message, path } of problems) log.warn(`${path.join('.')}: ${message}`);
    const factsOf = (model: string) => tokens.sources.get(model)?.facts ?? null;
    const doctor = await doctorFleet(config, { clock, factsOf, needed: NEEDED_ASKING, settleMs: SETTLE_MS });
    try {
      const seed = randomInt(1, 2 ** 31);
      return await examine(doctor, { tokens: (model) => tokens.sources.get(model), seed, isUrlAlone, log });
    } finally {
      doctor.close();
    }
  } finally {
    await tokens.close();
  }
}

async function sourceOf({ admin, config, worker }: DoctorOptions, io: CliIo): Promise<DoctorSource> {
  const ways = [admin !== undefined, config !== undefined, worker !== undefined].filter(Boolean);
  if (ways.length > 1)
    throw new PointsmanError('PM_USAGE', 'doctor takes one of --config, --admin and --worker, not several');
  if (admin !== undefined) return configOfRouter(admin, io.env.POINTSMAN_ADMIN_TOKEN);
  if (worker !== undefined) return askable(await configOfUrls(worker));
  if (config === undefined && !io.env.POINTSMAN_CONFIG)
    throw new PointsmanError('PM_USAGE', 'doctor takes --config FILE, --admin ADDRESS or --worker URL');
  return askable(readServeConfig(config === undefined ? {} : { config }, io.env).config);
}

function progress(io: CliIo): Logger {
  // What engines say must not write to the terminal by itself.
  const line = (message: string): void => io.err(`${message.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd')}\n`);
  return { ...NO_LOG, info: line, warn: line, error: line };
}
