// How long a large prompt keeps the router's own thread from everything else: bodies of 1 MB through the whole gateway, with client and
// engine in other processes. Of each kind the most processor time that one turn of the event loop took is told, per request, as the least and
// the median over the runs: what other programs take does not count (Linux only).
//
//     node scripts/build.mjs && node scripts/loop-block.mjs [--runs 30] [--json]
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const MB = 1_000_000;
const { values } = parseArgs({
  options: {
    client: { type: 'boolean', default: false },
    runs: { type: 'string', default: '30' },
    json: { type: 'boolean', default: false },
  },
});

if (values.client) client();
else await main(Number(values.runs));

/** Bodies of about 1 MB. */
function bodies() {
  const known = [' on', ' town', ' and', ' goods', ' click', ' looks', ' pulls', ' what'];
  let state = 7;
  const words = (bytes) => {
    let text = '';
    while (text.length < bytes) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      text += known[state >>> 29];
    }
    return text;
  };
  const many = Array.from({ length: 2000 }, (_, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: words(470),
  }));
  const ids = Array.from({ length: 260_000 }, (_, index) => (index * 7919) % 948);
  return {
    'chat, one message': { messages: [{ role: 'user', content: words(MB) }] },
    'chat, 2,000 messages': { messages: many },
    'chat, three bytes a character': { messages: [{ role: 'user', content: '早上好今天'.repeat(MB / 15) }] },
    'completion, text': { prompt: words(MB) },
    'completion, token ids': { prompt: ids },
  };
}

/** Posts what it is told to, in a process of its own. */
function client() {
  const made = bodies();
  process.on('message', ({ url, kind }) => {
    const path = kind.startsWith('chat') ? '/v1/chat/completions' : '/v1/completions';
    const body = JSON.stringify({ model: 'tiny', max_tokens: 1, ...made[kind] });
    fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      .then(async (answer) => {
        await answer.text();
        process.send({ status: answer.status, bytes: body.length });
      })
      .catch((error) => process.send({ status: String(error), bytes: body.length }));
  });
  process.send({ ready: true });
}

async function main(runs) {
  const { parseConfig } = await import('../dist/config/index.js');
  const { startEmbeddedRouter } = await import('../dist/cli/embedded-router.js');
  const { spawnSimulators } = await import('../dist/cli/spawn-simulators.js');
  const { TINY_TOKENIZER } = await import('../dist/tokens/index.js');
  const sims = await spawnSimulators({ count: 1, args: [], logs: 'ignore' });
  const child = fork(fileURLToPath(import.meta.url), ['--client']);
  const answer = () => new Promise((resolve) => child.once('message', resolve));
  await answer();
  const yaml = `
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
limits: { prompt_tokens: 2000000 }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers: [{ id: 1, model: tiny, url: "${sims.engines[0].url}", dialect: sim }]
`;
  const router = await startEmbeddedRouter(parseConfig(yaml, 'router.yaml'), {});
  const results = [];
  try {
    for (const kind of Object.keys(bodies())) {
      const longest = [];
      let last = null;
      for (let run = -3; run < runs; run += 1) {
        const turns = watchTurns();
        const answered = answer();
        child.send({ url: router.url, kind });
        last = await answered;
        const most = turns.stop();
        // The first ones warm up.
        if (run >= 0) longest.push(most);
      }
      longest.sort((a, b) => a - b);
      if (!values.json) console.error(`${kind} done`);
      results.push({
        kind,
        bytes: last.bytes,
        status: last.status,
        least_ms: round(longest[0]),
        median_ms: round(longest[longest.length >> 1]),
      });
    }
  } finally {
    child.kill();
    await router.stop(0);
    await sims.stop();
  }
  if (values.json) console.log(JSON.stringify(results, null, 2));
  else
    for (const { kind, bytes, status, least_ms, median_ms } of results)
      console.log(
        `${kind}: ${bytes} bytes, status ${status}: ${least_ms} ms at least, ${median_ms} ms in the middle`,
      );
}

/** The most processor time of this thread in one turn of the event loop, in ms: time that others had the processor does not count. */
function watchTurns() {
  let most = 0;
  let before = threadMs();
  let stopped = false;
  const turn = () => {
    const now = threadMs();
    most = Math.max(most, now - before);
    before = now;
    if (!stopped) setImmediate(turn);
  };
  setImmediate(turn);
  return {
    stop() {
      stopped = true;
      return most;
    },
  };
}

/** Processor time of the main thread, which has the id of its process (Linux). */
function threadMs() {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ', 1)[0]) / 1e6;
}

function round(ms) {
  return Math.round(ms * 10) / 10;
}
