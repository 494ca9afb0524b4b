// SGLang doubles for tests, many times faster than life, and the hashes under which they announce blocks.
import { systemClock } from '../../src/cli/system-clock.ts';
import { decodeEventBatch, type KvEvent, subscribeZmq } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  type SglangDouble,
  type SglangDoubleOptions,
  type SimulatedEngineSettings,
  startSglangDouble,
} from '../../src/simulator/index.ts';

const closers: (() => void | Promise<void>)[] = [];

/** Ends everything started here. */
export async function stopDoubles(): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

export async function startDouble(
  settings: Partial<SimulatedEngineSettings> = {},
  more: Partial<Omit<SglangDoubleOptions, 'settings'>> = {},
): Promise<SglangDouble> {
  const patient = { fetchReserveTimeoutMs: 60_000, fetchTimeoutMs: 60_000, handoffTimeoutMs: 60_000 };
  const own = { model: 'tiny-sim', blockSize: 4, speedup: 1000, ...patient };
  const double = await startSglangDouble({
    settings: { ...DEFAULT_ENGINE_SETTINGS, ...own, ...settings },
    hasher: createBlockHasher(),
    clock: systemClock(),
    ...more,
  });
  closers.push(() => double.close());
  return double;
}

/** Hears a double's events; `hashes` are those of a prompt's blocks of 4 tokens, fewer while not all were heard. */
export async function listenTo(double: SglangDouble) {
  const info = JSON.parse(await (await fetch(`${double.url}/server_info`)).text());
  const events: KvEvent[] = [];
  const source = await subscribeZmq({
    endpoint: JSON.parse(info.kv_events_config).endpoint.replace('*', '127.0.0.1'),
    topic: '',
    owner: 0,
    sink: { onBatch: (_owner, _sequence, payload) => events.push(...decodeEventBatch(payload).events) },
    onError: (error) => {
      throw error;
    },
  });
  closers.push(() => source.close());
  return {
    hashes(prompt: readonly number[]): bigint[] {
      const known = new Map<string, bigint>();
      for (const event of events) {
        const [lo = 0, hi = 0] = event.kind === 'stored' ? event.external : [];
        if (event.kind === 'stored') known.set(event.tokenIds.join(), (BigInt(hi) << 32n) | BigInt(lo));
      }
      const hashes: bigint[] = [];
      for (let at = 0; at + 4 <= prompt.length; at += 4) {
        const hash = known.get(prompt.slice(at, at + 4).join());
        if (hash !== undefined) hashes.push(hash);
      }
      return hashes;
    },
  };
}
