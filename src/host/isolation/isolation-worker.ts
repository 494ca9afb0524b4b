// The code of a plugin's thread: it takes the only way to the router into its own hands before the plugin is loaded, loads it with
// the loader of the router, and serves.
import { Console } from 'node:console';
import { type MessagePort, workerData } from 'node:worker_threads';
import { errorText, type LogFields, type Logger } from '../../plugin/index.ts';
import { PolicyCatalog, prepareWithin } from '../catalog.ts';
import { ExportCollector } from '../plugin-exports.ts';
import { PluginLoader } from '../plugin-loader.ts';
import { type FromThread, MOST_TEXT, parseToThread, wireFields } from './messages.ts';
import type { ThreadStart } from './plugin-thread.ts';
import { threadClock } from './thread-clock.ts';
import { ThreadGuest } from './thread-guest.ts';

/** Lines of a plugin's log that leave the thread within a second. */
const LINES_PER_SECOND = 100;

// The router passes exactly this value.
const start = workerData as ThreadStart & { port?: MessagePort };
const { folder, specifier, files, type, parameters, modules } = start;
const port = start.port!;
// The plugin must find neither the port nor, in the prototype, a way to it.
delete start.port;
const post = port.postMessage.bind(port);
const send = (message: FromThread): void => post(message);

// Standard output belongs to the command's answer.
globalThis.console = new Console(process.stderr, process.stderr);
const log = threadLog();
process.on('unhandledRejection', (reason) =>
  log.error('a promise was rejected and nobody waited for it', { error: errorText(reason) }),
);

const clock = threadClock();
try {
  const prepared = await load();
  const guest = new ThreadGuest({ prepared: prepared.hint, send, log, clock });
  // One after the other: what a message asks for is done before the next is looked at.
  let last: Promise<unknown> = Promise.resolve();
  port.on('message', (given: unknown) => {
    const message = parseToThread(given);
    if (message === null) throw new TypeError('the router sent a message of an unknown shape');
    last = last.then(async () => {
      if (await guest.take(message)) port.close();
    });
  });
  send({ kind: 'ready', sameFiles: prepared.sameFiles });
} catch (thrown) {
  send({ kind: 'failed', text: errorText(thrown).slice(0, MOST_TEXT) });
  port.close();
}

async function load() {
  const handed: Record<string, object> = {};
  for (const [name, url] of Object.entries(modules)) handed[name] = await import(url);
  const module = await new PluginLoader(folder, clock, handed).load(specifier);
  const catalog = new PolicyCatalog();
  const [fault] = await new ExportCollector(catalog, clock).collect(module);
  const entry = catalog.hints.get(type);
  if (entry === undefined) {
    throw new TypeError(
      fault?.message ?? `${specifier} offers no hint policy ${type} in a thread of its own`,
    );
  }
  const preparation = await prepareWithin(clock, entry, parameters);
  if (preparation.faults) {
    const [wrong] = preparation.faults;
    throw new TypeError(`${['parameters', ...(wrong?.path ?? [])].join('.')}: ${wrong?.message}`);
  }
  // The router may have counted more files: those that another plugin brought along with one that both import.
  const sameFiles = [...module.files].every(([path, digest]) => files.get(path) === digest);
  return { hint: preparation.prepared, sameFiles };
}

function threadLog(): Logger {
  let second = 0;
  let lines = 0;
  const line = (level: keyof Logger) => (message: string, fields?: LogFields) => {
    const now = Math.floor(performance.now() / 1000);
    if (now !== second) lines = 0;
    second = now;
    lines += 1;
    if (lines > LINES_PER_SECOND) return;
    send({ kind: 'log', level, message: String(message).slice(0, MOST_TEXT), fields: wireFields(fields) });
  };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}
