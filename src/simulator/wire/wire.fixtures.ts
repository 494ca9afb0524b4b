// Starts real simulated engines for tests, many times faster than life, and reads what they answer.
import { decodeEventBatch, type KvEvent, subscribeZmq } from '../../events/index.ts';
import { createBlockHasher } from '../../kv/index.ts';
import type { Clock } from '../../plugin/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { type RunningSimulators, type StartSimulatorsOptions, startSimulators } from './start-simulators.ts';

/** Real time. */
export const realClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

const running: RunningSimulators[] = [];
const sources: { close(): void }[] = [];

/** Starts engines that `stopAll` ends. */
export async function start(
  settings: Partial<SimulatedEngineSettings> = {},
  more: Partial<Omit<StartSimulatorsOptions, 'settings' | 'hasher'>> = {},
): Promise<RunningSimulators> {
  const started = await startSimulators({
    count: 1,
    settings: {
      ...DEFAULT_ENGINE_SETTINGS,
      model: 'tiny-sim',
      blockSize: 4,
      speedup: 1000,
      // Real time passes between these engines: on a busy machine no answer may come too late for its test.
      fetchReserveTimeoutMs: 60_000,
      fetchTimeoutMs: 60_000,
      ...settings,
    },
    hasher: createBlockHasher(),
    clock: realClock,
    ...more,
  });
  running.push(started);
  return started;
}

/** Ends everything started by `start` and `listen`. */
export async function stopAll(): Promise<void> {
  for (const source of sources.splice(0)) source.close();
  await Promise.all(running.splice(0).map((simulators) => simulators.close(0)));
}

/** Subscribes to an engine's events; `until` waits for events that satisfy a condition on all heard so far. */
export async function listen(endpoint: string) {
  const events: KvEvent[] = [];
  const sequences: number[] = [];
  let wake: (() => void) | null = null;
  const source = await subscribeZmq({
    endpoint,
    topic: '',
    owner: 0,
    sink: {
      onBatch(_owner, sequence, payload) {
        sequences.push(sequence);
        events.push(...decodeEventBatch(payload).events);
        wake?.();
      },
    },
    onError: (error) => {
      throw error;
    },
  });
  sources.push(source);
  const until = async (condition: (heard: readonly KvEvent[]) => boolean): Promise<readonly KvEvent[]> => {
    while (!condition(events)) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return events;
  };
  return { events, sequences, until };
}

/** Hashes of all stores heard, in order, as an engine is told of them in a hint. */
export function storedHashes(events: readonly KvEvent[]): bigint[] {
  const hashes: bigint[] = [];
  for (const event of events) {
    if (event.kind !== 'stored') continue;
    for (let i = 0; i < event.external.length; i += 2) {
      hashes.push((BigInt(event.external[i + 1] ?? 0) << 32n) | BigInt(event.external[i] ?? 0));
    }
  }
  return hashes;
}

/** Hashes of a prompt's full blocks as the events heard name them; fewer while not all were heard. */
export function hashesOfPrompt(
  events: readonly KvEvent[],
  prompt: readonly number[],
  blockSize = 4,
): bigint[] {
  const byTokens = new Map<string, bigint>();
  for (const event of events) {
    if (event.kind !== 'stored') continue;
    storedHashes([event]).forEach((hash, block) => {
      byTokens.set(event.tokenIds.slice(block * blockSize, (block + 1) * blockSize).join(), hash);
    });
  }
  const hashes: bigint[] = [];
  for (let at = 0; at + blockSize <= prompt.length; at += blockSize) {
    const hash = byTokens.get(prompt.slice(at, at + blockSize).join());
    if (hash !== undefined) hashes.push(hash);
  }
  return hashes;
}

/** Posts a body; JSON text may be given as it is, for integers that JSON.stringify cannot write. */
export function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** The `data:` payloads of a server-sent event stream, parsed except the closing `[DONE]`. */
export async function sse(response: Response): Promise<unknown[]> {
  const text = await response.text();
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      const data = event.replace(/^data: /, '');
      return data === '[DONE]' ? data : JSON.parse(data);
    });
}

/** Value of one line of a Prometheus text. */
export async function metric(url: string, line: string): Promise<number | undefined> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `));
  return found === undefined ? undefined : Number(found.slice(line.length + 1));
}

/** Asks for a metric until it has the value; the test's own timeout ends a wait in vain. */
export async function metricBecomes(url: string, line: string, value: number): Promise<void> {
  while ((await metric(url, line)) !== value);
}
