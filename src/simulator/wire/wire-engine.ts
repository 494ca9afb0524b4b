// One simulated engine on loopback: an HTTP server, an event publisher and a control channel around one machine, which a restart
// replaces while the sockets stay.
import { randomBytes } from 'node:crypto';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { type TextTokenizer, TINY_WORDS } from '../../tokens/index.ts';
import { advertisedActions, createSimulatedEngine } from '../core/create-engine.ts';
import { EventFaults, eventFaultRng } from '../core/event-faults.ts';
import { DEFAULT_EVENT_HISTORY } from '../core/event-history.ts';
import { advertisedHandoff } from '../handoff-fields.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { type ControlPeers, createControlPeers } from './control-peers.ts';
import { bindControlSource } from './control-source.ts';
import { EngineDriver } from './engine-driver.ts';
import { createEngineMetrics } from './engine-metrics.ts';
import { createEngineServer } from './engine-server.ts';
import { bindEventPublisher, type EventPublisher } from './event-publisher.ts';
import { drain, listen } from './listening.ts';
import type { SimulatorAddress, StartSimulatorsOptions } from './start-simulators.ts';

/** Default cap of a request body, bytes. */
export const DEFAULT_SIM_BODY_BYTES = 32 * 1024 * 1024;

/** What one engine has of its own. */
export interface WireEngineParts {
  readonly tokenizer: TextTokenizer;
  readonly words: readonly string[];
  /** HTTP port; 0 = any free one. */
  readonly port: number;
  /** Place among its siblings, from 0. */
  readonly index: number;
}

/** A running engine. */
export interface WireEngine {
  readonly address: SimulatorAddress;
  close(graceMs: number): Promise<void>;
}

/**
 * Starts an engine.
 * @throws PointsmanError PM_SIM_SETTINGS for a bad setting, PM_SIM_START when its port cannot be bound.
 */
export async function startWireEngine(
  options: StartSimulatorsOptions,
  { index, port, tokenizer, words }: WireEngineParts,
): Promise<WireEngine> {
  const { settings, hasher, clock } = options;
  const { eventFaults = null, warn = () => undefined } = options;
  let epoch = newEpoch();
  // The sockets answer only once the engine behind them exists: nothing is asked before the addresses are known.
  let driver: EngineDriver | null = null;
  const started = (): EngineDriver => {
    if (driver === null) throw new PointsmanError('PM_SIM_START', 'the engine is not ready yet');
    return driver;
  };
  const newPeers = (): Promise<ControlPeers> => createControlPeers(() => driver?.wake());
  const newMachine = (peers: ControlPeers) =>
    createSimulatedEngine(settings, {
      hasher,
      peers,
      engineId: epoch,
      announceRate: (key, gbps) => source.announceRate(key, gbps),
      vocabulary: TINY_WORDS,
    });
  let peers = await newPeers();
  const engine = newMachine(peers);
  const metrics = createEngineMetrics(settings, () => started().stats());
  const events = await bindEventPublisher({
    topic: '',
    rank: 0,
    history: options.eventHistory ?? DEFAULT_EVENT_HISTORY,
    replayFrames: options.eventReplayFrames ?? 4,
    faults: eventFaults && new EventFaults(eventFaults, eventFaultRng(settings.seed, index)),
    clock,
    warn,
  });
  const source = await bindControlSource({
    epoch: () => epoch,
    grant: (request) => started().grantFetch(request),
    release: (key, how) => started().releaseFetch(key, how),
    claim: (claim, answered) => started().claimHandoff(claim, answered),
    drop: (handoff) => started().dropHandoff(handoff),
    onAnswer: (answer) => metrics.fetchAsked(answer),
  });
  driver = new EngineDriver({ engine, clock, publish: (list, at) => events.publish(list, at) });
  let closed = false;
  const cancels: (() => void)[] = [];
  const close = (): void => {
    closed = true;
    for (const cancel of cancels) cancel();
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
    identity: () => ({ engineId: epoch, ...addressOf(source.endpoint) }),
    maxBodyBytes: options.maxBodyBytes ?? DEFAULT_SIM_BODY_BYTES,
  });
  try {
    await listen(server, port);
  } catch (error) {
    close();
    throw error;
  }
  const restart = async (): Promise<void> => {
    const fresh = await newPeers();
    if (closed) {
      fresh.close();
      return;
    }
    const before = peers;
    peers = fresh;
    server.closeAllConnections();
    epoch = newEpoch();
    events.restart();
    started().replace(newMachine(fresh));
    before.close();
  };
  for (const { atMs, worker } of options.restarts ?? []) {
    if (worker !== index + 1) continue;
    const run = (): void => {
      restart().catch((error: unknown) => warn(`engine ${worker} was not restarted: ${errorText(error)}`));
    };
    cancels.push(clock.schedule(atMs, run));
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

/** Host and port of a control channel. */
function addressOf(endpoint: string): { readonly host: string; readonly port: number } {
  const { hostname: host, port } = new URL(endpoint);
  return { host, port: Number(port) };
}

function newEpoch(): string {
  return randomBytes(4).toString('hex');
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
    worker_type: settings.role,
    ...(settings.role === 'aggregated'
      ? null
      : { handoff: advertisedHandoff(settings, epoch, addressOf(control)) }),
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
