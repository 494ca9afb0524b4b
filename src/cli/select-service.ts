// `pointsman select-service`: selection and reservations over HTTP, for callers that carry their requests themselves.
import type { Command } from 'commander';
import { isLoopback, SELECTION_SERVICE_DEFAULTS } from '../config/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import { createJsonLog } from './json-log.ts';
import { wholeNumber } from './option-values.ts';
import type { CliIo } from './output.ts';
import { startSelectionRouter } from './selection-router.ts';
import { readServeConfig } from './serve-config.ts';
import { stopSignal } from './stop-signal.ts';
import { containRejections } from './stray-rejections.ts';
import { systemClock } from './system-clock.ts';

interface SelectServiceOptions {
  readonly config?: string;
  readonly routerPolicyConfig?: string;
  readonly host?: string;
  readonly port?: number;
  readonly selectionCacheTtlSecs?: number;
  readonly selectionCacheMaxEntries?: number;
  readonly selectionCacheMaxBytes?: number;
  readonly threads?: number;
  readonly json?: true;
}

const YEAR_SECONDS = 31_536_000;

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('select-service')
    .description('run the selection service: choose and reserve workers over HTTP, for routers of others')
    .option('--config <file>', 'router.yaml with policies and services.selection (default: POINTSMAN_CONFIG)')
    .option('--router-policy-config <file>', 'a policy file, beside --config or alone')
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <port>', 'port; 0 = any free (default: 8092)', wholeNumber(0, 65_535))
    .option(
      '--selection-cache-ttl-secs <n>',
      'how long a selection can be reserved (default: 120)',
      wholeNumber(1, YEAR_SECONDS),
    )
    .option(
      '--selection-cache-max-entries <n>',
      'most selections that wait for it (default: 4096)',
      wholeNumber(0, 1_000_000),
    )
    .option(
      '--selection-cache-max-bytes <n>',
      'most bytes of these (default: 268435456)',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option(
      '--threads <n>',
      'has no effect; taken for command lines of the Rust service',
      wholeNumber(1, 1024),
    )
    .option('--json', 'the address as one JSON line on stdout')
    .addHelpText(
      'after',
      `
POST /workers, /select, /select_and_reserve, /reservations, …; GET /workers, /loads, /ready, /health, /dump, /metrics: docs/selection-service.md.
Ids and hashes are bare 64-bit integers in JSON. On another address than a loopback one it needs services.selection.token. It never connects to
the endpoints of workers. Logs go to stderr. SIGTERM or SIGINT: running answers finish; a second signal ends at once with exit code 1.

Examples:
  $ pointsman select-service --port 8092
  $ pointsman select-service --config router.yaml --json
  $ curl -d '{"worker_id":1,"endpoint":"http://127.0.0.1:9001","kv_events_endpoint":"tcp://127.0.0.1:5557","block_size":16}' http://127.0.0.1:8092/workers
  $ curl -d '{"token_ids":[1,2,3]}' http://127.0.0.1:8092/select_and_reserve`,
    )
    .action(async (options: SelectServiceOptions) => run(io, options));
}

async function run(io: CliIo, options: SelectServiceOptions): Promise<void> {
  const stop = stopSignal({ exitWithParent: false });
  let letRejectionsThrough = (): void => undefined;
  try {
    const { config, source, warnings } = readServeConfig(options, io.env);
    const log = createJsonLog(config.observe.logLevel, { write: (line) => io.err(line) });
    letRejectionsThrough = containRejections(log);
    for (const warning of warnings) log.warn(source.render(warning), { code: warning.code });
    const settings = settingsOf(config.services.selection ?? SELECTION_SERVICE_DEFAULTS, options);
    const service = await startSelectionRouter({ config, settings, source, clock: systemClock(), log }).catch(
      (thrown: unknown) => {
        // An address that cannot be had is a matter of the command line: exit 2.
        if (thrown instanceof PointsmanError && thrown.code === 'PM_LISTEN') {
          throw new PointsmanError('PM_USAGE', `${errorText(thrown)}; --host and --port choose another`, {
            cause: thrown,
          });
        }
        throw thrown;
      },
    );
    io.out(
      options.json
        ? `${JSON.stringify({ url: service.url, pid: process.pid })}\n`
        : `Selection service  ${service.url}\n\nStop with Ctrl-C.\n`,
    );
    await stop.reason;
    log.info('stopping: running answers may finish; a second signal ends at once');
    await service.stop();
  } finally {
    letRejectionsThrough();
    stop.dispose();
  }
}

function settingsOf(
  configured: typeof SELECTION_SERVICE_DEFAULTS,
  options: SelectServiceOptions,
): typeof SELECTION_SERVICE_DEFAULTS {
  const host = options.host ?? configured.host;
  if (!isLoopback(host) && configured.token === null) {
    throw new PointsmanError(
      'PM_USAGE',
      `the selection service on ${host} can be reached from other machines, so it needs a token; set services.selection.token in the file of --config, or listen on 127.0.0.1`,
    );
  }
  const seconds = options.selectionCacheTtlSecs;
  return {
    ...configured,
    host,
    port: options.port ?? configured.port,
    cacheTtlMs: seconds === undefined ? configured.cacheTtlMs : seconds * 1000,
    cacheMaxEntries: options.selectionCacheMaxEntries ?? configured.cacheMaxEntries,
    cacheMaxBytes: options.selectionCacheMaxBytes ?? configured.cacheMaxBytes,
  };
}
