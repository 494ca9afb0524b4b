// The router of a soak test, as a child process that answers questions: addresses, memory, what its index holds, stray errors.
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const built = (path) => import(pathToFileURL(join(root, 'dist', path)).href);
const errors = [];
const stray = (thrown) =>
  errors.push(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
process.on('unhandledRejection', stray);
process.on('uncaughtException', stray);

let running = null;
const answers = {
  start,
  async memory() {
    globalThis.gc();
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc();
    const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
    return { rss, heap: heapUsed + arrayBuffers, handles: process.getActiveResourcesInfo().length };
  },
  async residency() {
    const { index, fleet } = running.core;
    if (index === null) return { residency: null };
    const residency = {};
    for (let cursor = 0; cursor !== null; ) {
      const page = index.dump(cursor, 10_000);
      for (const { owner, external } of page.blocks) {
        const worker = fleet.slotWorkerId(owner);
        residency[worker] ??= [];
        residency[worker].push(((BigInt(external.hi) << 32n) | BigInt(external.lo)).toString(16));
      }
      cursor = page.cursor;
    }
    return { residency };
  },
  async errors() {
    return { errors };
  },
};

process.on('message', async ({ id, question, details }) => {
  process.send({ id, answer: await answers[question](details) });
});
process.on('disconnect', async () => {
  await running?.stop(0);
  process.exit(0);
});

async function start({ urls, mode }) {
  const [{ startRouter }, { systemClock }, { parseConfig }, { TINY_TOKENIZER }, { createJsonLog }] =
    await Promise.all(
      [
        'cli/running-router.js',
        'cli/system-clock.js',
        'config/index.js',
        'tokens/index.js',
        'cli/json-log.js',
      ].map(built),
    );
  const workers = urls.map((url, at) => `  - { id: ${at + 1}, model: tiny, url: "${url}", dialect: sim }`);
  // A small decision ring: its memory is full before the first quarter is over.
  const { config, source } = parseConfig(
    `listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
limits: { decision_bytes: 2MiB }
router: { mode: ${mode} }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
${workers.join('\n')}
`,
    'soak.yaml',
  );
  const log = createJsonLog('warn', { write: (line) => process.stderr.write(line) });
  running = await startRouter({ config, source, clock: systemClock(), log });
  return { url: running.url, admin: running.adminUrl };
}
