// The watchdog's thread: ends the process when the main thread has not moved its heartbeat for too long, and says who ran. Plain
// JavaScript, so that it starts alike from sources and from a build. It must not need the main thread for anything.
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';

const STDERR = 2;
/** What each part of PluginPlace is called. */
const KINDS = { hint: 'hint policy', selection: 'worker-selection policy', classifier: 'request classifier' };
/** @type {{ shared: SharedArrayBuffer, limitMs: number, intervalMs: number, plugins: [number, object][] }} */
const { shared, limitMs, intervalMs, plugins: known } = workerData;
// Layout: watchdog.ts.
const [HEARTBEAT, RUNNING] = [0, 1];
const words = new Int32Array(shared);
const plugins = new Map(known);
let heartbeat = Atomics.load(words, HEARTBEAT);
let lookedAt = performance.now();
let blockedMs = 0;

parentPort.on('message', ([id, place]) => plugins.set(id, place));

setInterval(() => {
  const now = performance.now();
  // A machine that slept stopped both threads: only time in which this one was awake counts.
  const awakeMs = Math.min(now - lookedAt, 2 * intervalMs);
  lookedAt = now;
  const current = Atomics.load(words, HEARTBEAT);
  blockedMs = current === heartbeat ? blockedMs + awakeMs : 0;
  heartbeat = current;
  if (blockedMs < limitMs) return;
  const place = plugins.get(Atomics.load(words, RUNNING));
  const line = {
    level: 'fatal',
    time: new Date().toISOString(),
    plugin: place?.plugin ?? null,
    role: place?.role ?? null,
    part: place?.part ?? null,
    blocked_ms: Math.round(blockedMs),
    msg: place
      ? `${KINDS[place.part]} ${place.plugin}${place.role === null ? '' : ` of role ${place.role}`} blocked the router: ending the process`
      : 'the router was blocked, and no callback of a plugin was running: ending the process',
  };
  try {
    writeSync(STDERR, `${JSON.stringify(line)}\n`);
  } finally {
    // Nothing gentler reaches a thread that never comes back; exiting from here would end this thread alone.
    process.kill(process.pid, 'SIGKILL');
  }
}, intervalMs);
