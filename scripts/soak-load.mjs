// The clients of a soak test: each sends one request after the other, with prefixes that many share, reads fast, slowly or leaves.
import { Agent, request } from 'node:http';

const FAMILIES = 40;
const LONGEST_PREFIX = 1024;
const VOCABULARY = 500;

/** Numbers in [0, 1), the same for the same seed. */
export function seededNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Requests that no router may accept, each with the status it must get. */
const BAD = [
  ['/v1/completions', '{"model":"tiny","prompt":[1,2', 400],
  ['/v1/completions', '{"model":"tiny","prompt":[1,-2]}', 400],
  ['/v1/completions', '{"model":"no-such-model","prompt":"x"}', 404],
  ['/v1/chat/completions', '{"model":"tiny","messages":"x"}', 400],
  ['/v1/nothing', '{}', 404],
];

/** All clients. */
export class Load {
  faults = [];
  #options;
  #agent = new Agent({ keepAlive: true, maxSockets: 1024 });
  #counts = new Map();
  #over = false;
  #clients = [];

  constructor(options) {
    this.#options = options;
  }

  start() {
    const { clients, seed } = this.#options;
    this.#clients = Array.from({ length: clients }, (_, at) => this.#client(seededNumbers(seed * 7919 + at)));
  }

  async stop() {
    this.#over = true;
    await Promise.all(this.#clients);
    this.#agent.destroy();
  }

  count(what) {
    return this.#counts.get(what) ?? 0;
  }

  summary() {
    return [...this.#counts]
      .sort()
      .map(([what, count]) => `${what} ${count}`)
      .join(', ');
  }

  #add(what) {
    this.#counts.set(what, this.count(what) + 1);
  }

  async #client(random) {
    while (!this.#over) {
      const status = random() < 0.05 ? await this.#bad(random) : await this.#good(random);
      // A refused client waits before it comes back, as one should.
      if (status >= 500) await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async #bad(random) {
    const [path, body, expected] = BAD[Math.floor(random() * BAD.length)];
    const { status } = await this.#send(path, body, { leaveAfterMs: null, slow: false });
    this.#add('bad');
    if (status !== expected)
      this.faults.push(`a bad request to ${path} was answered ${status}, not ${expected}`);
    return status;
  }

  async #good(random) {
    const chat = random() < 0.25;
    const stream = random() < 0.6;
    const { path, prompt } = chat ? chatPrompt(random) : tokenPrompt(random);
    const body = JSON.stringify({
      model: 'tiny',
      ...prompt,
      stream,
      max_tokens: 1 + Math.floor(random() * 64),
    });
    const leaves = random() < 0.15;
    const { status, text, broken, left } = await this.#send(path, body, {
      leaveAfterMs: leaves ? random() * 300 : null,
      slow: random() < 0.1,
    });
    if (left) this.#add('left');
    else if (status === 200 && stream) this.#streamEnded(text, broken);
    else this.#add(String(status));
    const known = [0, 200, 502, 503].includes(status);
    const calm = this.#options['kill-every'] === 0 && status >= 500;
    if (!known || calm || (status === 0 && !left))
      this.faults.push(`${path} was answered ${status}: ${text.slice(0, 200)}`);
    return status;
  }

  #streamEnded(text, broken) {
    if (!broken && text.endsWith('data: [DONE]\n\n')) this.#add('200');
    else if (!broken && text.includes('"code":"upstream_disconnected"') && this.#options['kill-every'] > 0)
      this.#add('200 cut by its worker');
    else this.faults.push(`a stream ended with ${JSON.stringify(text.slice(-200))}${broken ? ', cut' : ''}`);
  }

  /** Status 0 = no answer. `broken` = the answer was not complete, `left` = its client went away. */
  #send(path, body, { leaveAfterMs, slow }) {
    return new Promise((resolve) => {
      let status = 0;
      let text = '';
      let left = false;
      let timer;
      const settle = (broken) => {
        clearTimeout(timer);
        resolve({ status, text, broken, left });
      };
      const sent = request(
        `${this.#options.url}${path}`,
        { method: 'POST', agent: this.#agent, headers: { 'content-type': 'application/json' } },
        (answer) => {
          status = answer.statusCode;
          answer.setEncoding('utf8');
          answer.on('data', (part) => {
            text += part;
            if (!slow) return;
            answer.pause();
            setTimeout(() => answer.resume(), 20);
          });
          answer.on('error', () => undefined);
          answer.on('close', () => settle(!answer.complete));
        },
      );
      sent.on('error', (error) => {
        if (text === '') text = String(error);
        settle(true);
      });
      const leave = () => {
        left = true;
        sent.destroy();
      };
      if (leaveAfterMs !== null) timer = setTimeout(leave, leaveAfterMs);
      sent.end(body);
    });
  }
}

/** A prefix that others share, up to somewhere, and a tail of its own. */
function tokenPrompt(random) {
  const family = Math.floor(random() ** 2 * FAMILIES);
  const shared = seededNumbers(family);
  const length = 32 + Math.floor(random() * LONGEST_PREFIX);
  const prompt = Array.from({ length }, () => Math.floor(shared() * VOCABULARY));
  const tail = Math.floor(random() * 64);
  for (let at = 0; at < tail; at += 1) prompt.push(Math.floor(random() * VOCABULARY));
  return { path: '/v1/completions', prompt: { prompt } };
}

function chatPrompt(random) {
  const family = Math.floor(random() * 8);
  const words = ['town', 'goods', 'click', 'looks', 'pulls', 'what'];
  const shared = seededNumbers(family + 1000);
  const text = Array.from({ length: 40 + family * 20 }, () => words[Math.floor(shared() * words.length)]);
  return {
    path: '/v1/chat/completions',
    prompt: { messages: [{ role: 'user', content: `${text.join(' ')} ${Math.floor(random() * 50)}` }] },
  };
}
