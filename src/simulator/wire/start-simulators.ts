// Puts simulated engines on the wire: HTTP, KV events and control channel of each on loopback, in this process.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { BlockHasher } from '../../kv/index.ts';
import { type Clock, errorText, PointsmanError } from '../../plugin/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER, TINY_WORDS } from '../../tokens/index.ts';
import { advertisedActions, createSimulatedEngine } from '../core/create-engine.ts';
import { DEFAULT_EVENT_HISTORY, MAX_EVENT_HISTORY } from '../core/event-history.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { createControlPeers } from './control-peers.ts';
import { bindControlSource } from './control-source.ts';
import { EngineDriver } from './engine-driver.ts';
import { createEngineMetrics } from './engine-metrics.ts';
import { createEngineServer } from './engine-server.ts';
import { bindEventPublisher, type EventPublisher } from './event-publisher.ts';
import type { ReplayFrames } from './event-replay.ts';

/** Engines one process hosts at most. */
export const MAX_SIMULATORS = 256;

const HIGHEST_PORT = 65_535;

/** Default cap of a request body, bytes. */
export const DEFAULT_SIM_BODY_BYTES = 32 * 1024 * 1024;

/** What is started. */
export interface StartSimulatorsOptions {
  /** 1 to {@link MAX_SIMULATORS}. */
  readonly count: number;
  /** The same for all. */
  readonly settings: SimulatedEngineSettings;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  /** HTTP port of the first engine, the others follow; 0 (default) = any free port. */
  readonly port?: number;
  /** Default {@link DEFAULT_SIM_BODY_BYTES}. */
  readonly maxBodyBytes?: number;
  /** Event batches each engine keeps for replay, 0 = no replay is offered; default {@link DEFAULT_EVENT_HISTORY}. */
  readonly eventHistory?: number;
  /** Layout of replay answers; default 4 frames, with the topic. */
  readonly eventReplayFrames?: ReplayFrames;
  /** Told what an engine ignored; default: nobody. */
  readonly warn?: (problem: string) => void;
}

/** Addresses of one engine, in the names of the JSON line that `pointsman sim` prints. */
export interface SimulatorAddress {
  readonly url: string;
  /** ZeroMQ address of the KV events of rank 0. */
  readonly kv_events: string;
  /** ZeroMQ address where missed KV events of rank 0 are asked for; null when the engine keeps none. */
  readonly kv_events_replay: string | null;
  /** ZeroMQ address of the control channel. */
  readonly control: string;
  readonly model: string;
  readonly block_size: number;
  readonly hash_scheme: string;
  readonly epoch: string;
}

/** Running engines. */
export interface RunningSimulators {
  readonly engines: readonly SimulatorAddress[];
  /** Takes no more requests, lets those under way finish for at most `graceMs`, cuts the rest and frees every socket. */
  close(graceMs: number): Promise<void>;
}

/**
 * Starts engines; all or none.
 * @throws PointsmanError PM_SIM_SETTINGS for a bad setting, PM_SIM_START when a port cannot be bound.
 */
export async function startSimulators(options: StartSimulatorsOptions): Promise<RunningSimulators> {
  const { count, port = 0 } = options;
  if (!Number.isInteger(count) || count < 1 || count > MAX_SIMULATORS) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `${count} simulated engines cannot be started; give 1 to ${MAX_SIMULATORS}`,
    );
  }
  if (port !== 0 && port + count - 1 > HIGHEST_PORT) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `${count} simulated engines from port ${port} on need ports up to ${port + count - 1}; the highest there is is ${HIGHEST_PORT}`,
    );
  }
  const { eventHistory = DEFAULT_EVENT_HISTORY } = options;
  if (!Number.isInteger(eventHistory) || eventHistory < 0 || eventHistory > MAX_EVENT_HISTORY) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `the simulated engine's event history is ${eventHistory} batches; it must be a whole number from 0 to ${MAX_EVENT_HISTORY}`,
    );
  }
  const tokenizer = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
  const words = Array.from({ length: TINY_WORDS }, (_, id) => tokenizer.decode([id]));
  const running: RunningSimulator[] = [];
  try {
    for (let i = 0; i < count; i += 1) {
      running.push(await startOne(options, tokenizer, words, port === 0 ? 0 : port + i));
    }
  } catch (error) {
    await Promise.all(running.map((engine) => engine.close(0)));
    throw error;
  }
  return {
    engines: running.map(({ address }) => address),
    close: async (graceMs) => {
      await Promise.all(running.map((engine) => engine.close(graceMs)));
    },
  };
}

interface RunningSimulator {
  readonly address: SimulatorAddress;
  close(graceMs: number): Promise<void>;
}

async function startOne(
  options: StartSimulatorsOptions,
  tokenizer: ReturnType<typeof loadTextTokenizer>,
  words: readonly string[],
  port: number,
): Promise<RunningSimulator> {
  const { settings, hasher, clock } = options;
  const epoch = randomBytes(4).toString('hex');
  // The sockets answer only once the engine behind them exists: nothing is asked before the addresses are known.
  let driver: EngineDriver | null = null;
  const started = (): EngineDriver => {
    if (driver === null) throw new PointsmanError('PM_SIM_START', 'the engine is not ready yet');
    return driver;
  };
  const peers = await createControlPeers(() => driver?.wake());
  const engine = createSimulatedEngine(settings, {
    hasher,
    peers,
    announceRate: (key, gbps) => source.announceRate(key, gbps),
    vocabulary: TINY_WORDS,
  });
  const metrics = createEngineMetrics(settings, () => engine.stats());
  const events = await bindEventPublisher({
    topic: '',
    rank: 0,
    history: options.eventHistory ?? DEFAULT_EVENT_HISTORY,
    replayFrames: options.eventReplayFrames ?? 4,
    warn: options.warn ?? (() => undefined),
  });
  const source = await bindControlSource({
    epoch,
    grant: (request) => started().grantFetch(request),
    release: (key) => started().releaseFetch(key),
    onAnswer: (answer) => metrics.fetchAsked(answer),
  });
  driver = new EngineDriver({ engine, clock, publish: (list, at) => events.publish(list, at) });
  const close = (): void => {
    driver?.close();
    peers.close();
    source.close();
    events.close();
  };
  const hashScheme = `sim-xxh3/seed=${settings.hashSeed}`;
  const server = createEngineServer({
    settings,
    driver,
    tokenizer,
    textOf: (tokenId) => words[tokenId] ?? '',
    metrics,
    clock,
    capabilities: () => capabilitiesOf(settings, epoch, hashScheme, source.endpoint, events),
    maxBodyBytes: options.maxBodyBytes ?? DEFAULT_SIM_BODY_BYTES,
  });
  try {
    await listen(server, port);
  } catch (error) {
    close();
    throw error;
  }
  const bound = server.address();
  return {
    address: {
      url: `http://127.0.0.1:${typeof bound === 'object' && bound !== null ? bound.port : port}`,
      kv_events: events.endpoint,
      kv_events_replay: events.replayEndpoint,
      control: source.endpoint,
      model: settings.model,
      block_size: settings.blockSize,
      hash_scheme: hashScheme,
      epoch,
    },
    async close(graceMs) {
      await drain(server, clock, graceMs);
      close();
    },
  };
}

async function listen(server: Server, port: number): Promise<void> {
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (cause) {
    throw new PointsmanError(
      'PM_SIM_START',
      `a simulated engine cannot listen on 127.0.0.1:${port}: ${portTaken(cause) ? 'another process uses that port' : errorText(cause)}`,
      { cause },
    );
  }
}

function portTaken(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
}

/** Closes a server: idle connections at once, busy ones when their answer is out or the time is over. */
async function drain(server: Server, clock: Clock, graceMs: number): Promise<void> {
  if (!server.listening) return;
  // An answer that goes out now is the last one on its connection.
  server.keepAliveTimeout = 1;
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  if (graceMs <= 0) server.closeAllConnections();
  const cancel = clock.schedule(graceMs, () => server.closeAllConnections());
  await closed;
  cancel();
}

function capabilitiesOf(
  settings: SimulatedEngineSettings,
  epoch: string,
  hashScheme: string,
  control: string,
  events: Pick<EventPublisher, 'endpoint' | 'replayEndpoint'>,
): object {
  const actions = advertisedActions(settings);
  return {
    protocol_versions: ['0.1'],
    epoch,
    model: settings.model,
    worker_type: 'aggregated',
    block_size: settings.blockSize,
    total_kv_blocks: settings.kvBlocks,
    max_num_batched_tokens: settings.maxNumBatchedTokens,
    hash_scheme: hashScheme,
    reports_outcomes: true,
    ranks: {
      '0': {
        router_hint: true,
        ...(actions === null ? null : { actions }),
        source_control_endpoint: control,
        kv_events: events.endpoint,
        ...(events.replayEndpoint === null ? null : { kv_events_replay: events.replayEndpoint }),
      },
    },
  };
}
