// `pointsman indexer`: which workers hold which KV blocks, as a service of its own.
import { type Command, InvalidArgumentError } from 'commander';
import { applyOverrides, defaultConfig, overridesFromEnv } from '../config/index.ts';
import { createMetrics } from '../observe/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import {
  AccessLog,
  type AccessLogOptions,
  peerUrl,
  type Registration,
  startIndexer,
} from '../services/index.ts';
import { createJsonLog } from './json-log.ts';
import { wholeNumber } from './option-values.ts';
import type { CliIo } from './output.ts';
import { stopSignal } from './stop-signal.ts';
import { systemClock } from './system-clock.ts';

interface IndexerOptions {
  readonly host: string;
  readonly port: number;
  readonly blockSize?: number;
  readonly workers: readonly InitialWorker[];
  readonly modelName: string;
  readonly routingGroup: string;
  readonly peers: readonly string[];
  readonly indexMib: number;
  readonly replayEndpoints: readonly InitialWorker[];
  readonly accessLog?: string;
  readonly accessLogLocalTime?: true;
  readonly traceIdHeader: string;
  readonly threads?: number;
  readonly json?: true;
}

/** One entry of `--workers` or `--replay-endpoints`. */
interface InitialWorker {
  readonly instance: bigint;
  readonly rank: number;
  readonly endpoint: string;
}

const TRUE = /^(?:1|true|yes|on)$/i;

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('indexer')
    .description('run the standalone KV indexer: which workers hold which blocks, over HTTP')
    .option('--host <address>', 'address to listen on; there is no login', '127.0.0.1')
    .option('--port <port>', 'port; 0 = any free', wholeNumber(0, 65_535), 8090)
    .option(
      '--workers <list>',
      'workers from the start: id[:rank]=zmq_address, separated by commas',
      workers,
      [],
    )
    .option(
      '--replay-endpoints <list>',
      'where those workers are asked for missed events: id[:rank]=zmq_address, separated by commas',
      workers,
      [],
    )
    .option('--block-size <tokens>', 'tokens per KV block of those workers', wholeNumber(1, 1_048_576))
    .option('--model-name <name>', 'model of those workers', 'default')
    .option('--routing-group <name>', 'routing group of those workers', 'default')
    .option(
      '--peers <list>',
      'indexers to take blocks from at the start: urls, separated by commas',
      peers,
      [],
    )
    .option('--index-mib <n>', 'most memory per model and routing group, MiB', wholeNumber(1, 1_048_576), 512)
    .option('--access-log <file>', 'append a JSON line per request; POST /reopen_logs opens the file anew')
    .option('--access-log-local-time', 'times of the access log in the time zone of this machine')
    .option('--trace-id-header <name>', 'request header that the access log keeps', headerName, 'x-trace-id')
    .option(
      '--threads <n>',
      'has no effect; taken for command lines of the Rust service',
      wholeNumber(1, 1024),
    )
    .option('--json', 'the address as one JSON line on stdout')
    .addHelpText(
      'after',
      `
POST /register, /unregister, /query, /query_by_hash, /register_peer, /deregister_peer, /reopen_logs; GET /workers, /dump, /peers, /health, /metrics:
docs/indexer.md. Ids and hashes are bare 64-bit integers in JSON. Logs go to stderr. SIGTERM or SIGINT: running answers finish; a second
signal ends at once with exit code 1.

Examples:
  $ pointsman indexer --port 8090
  $ pointsman indexer --model-name tiny --block-size 16 --workers "1=tcp://127.0.0.1:5557,2:0=tcp://127.0.0.1:5567" \\
      --replay-endpoints "1=tcp://127.0.0.1:5558,2:0=tcp://127.0.0.1:5568" --access-log indexer.log
  $ pointsman indexer --port 8091 --peers http://127.0.0.1:8090`,
    )
    .action(async (options: IndexerOptions) => run(io, options));
}

async function run(io: CliIo, options: IndexerOptions): Promise<void> {
  const stop = stopSignal({ exitWithParent: false });
  try {
    const { observe } = applyOverrides(defaultConfig().config, overridesFromEnv(io.env));
    const log = createJsonLog(observe.logLevel, { write: (line) => io.err(line) });
    const metrics = createMetrics();
    const initial = registrations(options);
    const accessLog = accessLogOf(options, { metrics, log });
    const indexer = await startIndexer({
      host: options.host,
      port: options.port,
      workers: initial,
      peers: options.peers,
      indexBytes: options.indexMib * 1024 * 1024,
      testEndpoints: TRUE.test(io.env.DYN_KV_INDEXER_TEST_ENDPOINTS ?? ''),
      clock: systemClock(),
      metrics,
      log,
      ...(accessLog === null ? {} : { accessLog }),
      traceIdHeader: options.traceIdHeader,
    }).catch((thrown: unknown) => {
      // An address that cannot be had is a matter of the command line: exit 2.
      if (thrown instanceof PointsmanError && thrown.code === 'PM_LISTEN') {
        throw new PointsmanError('PM_USAGE', `${errorText(thrown)}; --host and --port choose another`, {
          cause: thrown,
        });
      }
      throw thrown;
    });
    const { recoveredFrom, url } = indexer;
    io.out(
      options.json
        ? `${JSON.stringify({ url, pid: process.pid, recovered_from: recoveredFrom })}\n`
        : `Indexer  ${url}\n${recoveredFrom === null ? '' : `Blocks   from ${recoveredFrom}\n`}\nStop with Ctrl-C.\n`,
    );
    await stop.reason;
    log.info('stopping: running answers may finish; a second signal ends at once');
    await indexer.stop();
  } finally {
    stop.dispose();
  }
}

function registrations({
  blockSize,
  modelName,
  routingGroup,
  replayEndpoints,
  workers: list,
}: IndexerOptions): Registration[] {
  if (list.length > 0 && blockSize === undefined) {
    throw new PointsmanError(
      'PM_USAGE',
      '--workers needs --block-size, the tokens per KV block of those workers',
    );
  }
  const replays = new Map(replayEndpoints.map(({ endpoint, ...at }) => [rankKey(at), endpoint]));
  const registered = list.map((worker) => {
    const key = rankKey(worker);
    const replayEndpoint = replays.get(key) ?? null;
    replays.delete(key);
    return { ...worker, model: modelName, routingGroup, blockSize: blockSize ?? 0, replayEndpoint };
  });
  for (const key of replays.keys()) {
    throw new PointsmanError('PM_USAGE', `--replay-endpoints names ${key}, which --workers does not`);
  }
  return registered;
}

function rankKey({ instance, rank }: Omit<InitialWorker, 'endpoint'>): string {
  return `worker ${instance} rank ${rank}`;
}

/** Null = none is wanted. */
function accessLogOf(
  { accessLog: path, accessLogLocalTime }: IndexerOptions,
  parts: Pick<AccessLogOptions, 'metrics' | 'log'>,
): AccessLog | null {
  if (path === undefined) return null;
  try {
    return new AccessLog({ path, localTime: accessLogLocalTime === true, ...parts });
  } catch (thrown) {
    throw new PointsmanError('PM_USAGE', `${errorText(thrown)}; --access-log names another`, {
      cause: thrown,
    });
  }
}

function headerName(text: string): string {
  if (/^[\w!#$%&'*+.^`|~-]{1,256}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be the name of an HTTP header, such as x-trace-id.');
}

function workers(text: string): InitialWorker[] {
  return text.split(',').map((entry) => {
    const match = /^(\d{1,20})(?::(\d{1,4}))?=(\S+)$/.exec(entry.trim());
    const instance = BigInt(match?.[1] ?? 0);
    if (match === null || instance > 0xffffffffffffffffn) {
      throw new InvalidArgumentError(
        'Each entry must be id[:rank]=zmq_address, as in 1:0=tcp://127.0.0.1:5557.',
      );
    }
    return { instance, rank: Number(match[2] ?? 0), endpoint: match[3] ?? '' };
  });
}

function peers(text: string): string[] {
  try {
    return text.split(',').map((entry) => peerUrl(entry.trim()));
  } catch {
    throw new InvalidArgumentError('Each entry must be an address such as http://127.0.0.1:8090.');
  }
}
