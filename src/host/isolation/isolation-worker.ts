// The code of a plugin's thread: it takes the only way to the router into its own hands before the plugin is loaded, loads it with
// the loader of the router, and serves.
import { Console } from 'node:console';
import { type MessagePort, workerData } from 'node:worker_threads';
import { errorText } from '../../plugin/index.ts';
import { type CatalogEntry, PolicyCatalog, type Prepared, prepareWithin } from '../catalog.ts';
import { ExportCollector } from '../plugin-exports.ts';
import { PluginLoader } from '../plugin-loader.ts';
import { ClassifierGuest } from './classifier-guest.ts';
import { HintGuest } from './hint-guest.ts';
import { THREAD_HEAP_MIB, watchMemory } from './memory-watch.ts';
import { type FromThread, MOST_TEXT, parseToThread } from './messages.ts';
import type { ThreadStart } from './plugin-thread.ts';
import { threadClock } from './thread-clock.ts';
import { type GuestKind, ThreadGuest } from './thread-guest.ts';
import { ThreadReports } from './thread-reports.ts';

// The router passes exactly this value.
const start = workerData as ThreadStart & { port?: MessagePort };
const { folder, specifier, files, kind, type, parameters, modules } = start;
const port = start.port!;
// The plugin must find neither the port nor, in the prototype, a way to it.
delete start.port;
const post = port.postMessage.bind(port);
const close = port.close.bind(port);
const send = (message: FromThread): void => post(message);
const machineMs = performance.now.bind(performance);
// Who says so is ended and replaced.
watchMemory(THREAD_HEAP_MIB, (text) => send({ kind: 'failed', text }));

// Standard output belongs to the command's answer.
globalThis.console = new Console(process.stderr, process.stderr);
const reports = new ThreadReports({
  send,
  now: machineMs,
  after: (delayMs, callback) => setTimeout(callback, delayMs).unref(),
});
process.on('unhandledRejection', (reason) =>
  reports.log.error('a promise was rejected and nobody waited for it', { error: errorText(reason) }),
);

// Only a classifier waits; what a hint policy reads is the time of its booking.
const clock = threadClock(kind === 'classifier' ? machineMs : null);
// One after the other: what a message asks for is done before the next is looked at, and the first when the plugin is loaded.
const guest = load();
let last: Promise<unknown> = guest;
port.on('message', (given: unknown) => {
  const message = parseToThread(given);
  if (message === null) throw new TypeError('the router sent a message of an unknown shape');
  last = last.then(async () => {
    if (await (await guest)?.take(message)) close();
  });
});

/** Loads; null = it cannot, and the router was told why. */
async function load(): Promise<ThreadGuest | null> {
  try {
    const { guestKind, sameFiles } = await prepare();
    send({ kind: 'ready', sameFiles });
    return new ThreadGuest({ send, reports, clock }, guestKind);
  } catch (thrown) {
    send({ kind: 'failed', text: errorText(thrown).slice(0, MOST_TEXT) });
    close();
    return null;
  }
}

async function prepare(): Promise<{ guestKind: GuestKind; sameFiles: boolean }> {
  const handed: Record<string, object> = {};
  for (const [name, url] of Object.entries(modules)) handed[name] = await import(url);
  const module = await new PluginLoader(folder, clock, handed).load(specifier);
  const catalog = new PolicyCatalog();
  const [fault] = await new ExportCollector(catalog, clock).collect(module);
  const missing = (what: string) =>
    new TypeError(fault?.message ?? `${specifier} offers no ${what} ${type} in a thread of its own`);
  // The router may have counted more files: those that another plugin brought along with one that both import.
  const sameFiles = [...module.files].every(([path, digest]) => files.get(path) === digest);
  if (kind === 'hint') {
    const entry = catalog.hints.get(type);
    if (entry === undefined) throw missing('hint policy');
    return { guestKind: new HintGuest(await parametersOf(entry), send), sameFiles };
  }
  const entry = catalog.classifiers.get(type);
  if (entry === undefined) throw missing('request classifier');
  return { guestKind: new ClassifierGuest(await parametersOf(entry), send), sameFiles };
}

async function parametersOf<P extends Prepared<never>>(entry: CatalogEntry<P>): Promise<P> {
  const preparation = await prepareWithin(clock, entry, parameters);
  if (preparation.faults === null) return preparation.prepared;
  const [wrong] = preparation.faults;
  throw new TypeError(`${['parameters', ...(wrong?.path ?? [])].join('.')}: ${wrong?.message}`);
}
