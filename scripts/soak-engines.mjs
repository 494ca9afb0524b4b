// The simulated engines of a soak test: each a process that is killed and started again at the same address, and beside it a
// subscriber of its own that adds its KV events up to what the engine holds.
import { Subscriber } from 'zeromq';
import { seededNumbers } from './soak-load.mjs';

/** One engine over all its lives. */
class Engine {
  #args;
  #built;
  #process = null;
  #subscriber = null;
  #held = new Set();
  #port = 0;
  epoch = '';
  events = '';
  url = '';

  constructor(args, built) {
    this.#args = args;
    this.#built = built;
  }

  async start() {
    const { spawnSimulators } = await this.#built('cli/spawn-simulators.js');
    this.#process = await spawnSimulators({
      count: 1,
      args: [...this.#args, '--port', String(this.#port)],
      logs: 'ignore',
    });
    const [engine] = this.#process.engines;
    this.url = engine.url;
    this.#port = new URL(engine.url).port;
    this.epoch = engine.epoch;
    this.events = engine.kv_events;
    await this.#follow();
  }

  async #follow() {
    const { decodeEventBatch } = await this.#built('events/index.js');
    const subscriber = new Subscriber({ linger: 0, receiveHighWaterMark: 0 });
    const held = new Set();
    this.#subscriber = subscriber;
    this.#held = held;
    const connected = new Promise((resolve) => subscriber.events.on('handshake', resolve));
    subscriber.subscribe('');
    subscriber.connect(this.events);
    await connected;
    void (async () => {
      for await (const [, , payload] of subscriber) {
        for (const event of decodeEventBatch(payload).events) {
          if (event.kind === 'stored') for (const hash of hashesOf(event.external)) held.add(hash);
          if (event.kind === 'removed') for (const hash of hashesOf(event.external)) held.delete(hash);
          if (event.kind === 'cleared') held.clear();
        }
      }
    })().catch(() => undefined);
  }

  async kill() {
    this.#process.kill();
    await this.#process.exited;
    this.#subscriber.close();
  }

  async stop() {
    this.#subscriber?.close();
    await this.#process?.stop();
  }

  /** External hashes of the blocks it holds, in hex. */
  blocks() {
    return this.#held;
  }

  /** Requests that it runs or keeps waiting. */
  async running() {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    return [...text.matchAll(/^vllm:num_requests_(?:running|waiting)\{.*\} (\d+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  }
}

/** All engines, and what befalls them. */
export class EngineFleet {
  engines = [];
  kills = 0;
  faults = [];
  #options;
  #random;
  #over = false;
  #troubling = Promise.resolve();

  constructor(options, built) {
    this.#options = options;
    this.#random = seededNumbers(options.seed ^ 0x5eed);
    const args = ['--speed', String(options.speed), '--kv-blocks', String(options['kv-blocks'])];
    this.engines = Array.from({ length: options.workers }, () => new Engine(args, built));
  }

  get urls() {
    return this.engines.map(({ url }) => url);
  }

  async start() {
    await Promise.all(this.engines.map((engine) => engine.start()));
  }

  /** From now on engines are killed and started again, one at a time. */
  trouble() {
    const every = this.#options['kill-every'] * 1000;
    if (every > 0)
      this.#troubling = this.#killAndRestart(every).catch((error) => this.faults.push(String(error)));
  }

  async #killAndRestart(every) {
    for (;;) {
      await this.#wait(every);
      if (this.#over) return;
      const engine = this.engines[Math.floor(this.#random() * this.engines.length)];
      await engine.kill();
      this.kills += 1;
      // Sometimes back at once, before any health check fails.
      if (this.#random() < 0.7) await this.#wait(this.#random() * this.#options['down-ms']);
      await engine.start();
    }
  }

  async #wait(ms) {
    const until = performance.now() + ms;
    while (!this.#over && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** No more kills; every engine is up. */
  async calm() {
    this.#over = true;
    await this.#troubling;
  }

  async stop() {
    this.#over = true;
    await this.#troubling;
    await Promise.all(this.engines.map((engine) => engine.stop()));
  }
}

function hashesOf(pairs) {
  const hashes = [];
  for (let at = 0; at < pairs.length; at += 2)
    hashes.push(((BigInt(pairs[at + 1]) << 32n) | BigInt(pairs[at])).toString(16));
  return hashes;
}
