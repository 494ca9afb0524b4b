// Puts simulated engines on the wire: HTTP, KV events and control channel of each on loopback, in this process.
import type { BlockHasher } from '../../kv/index.ts';
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER, TINY_WORDS } from '../../tokens/index.ts';
import type { EventFaultSettings } from '../core/event-faults.ts';
import { DEFAULT_EVENT_HISTORY, MAX_EVENT_HISTORY } from '../core/event-history.ts';
import type { EngineRestart, SimulatedEngineSettings } from '../types.ts';
import type { ReplayFrames } from './event-replay.ts';
import { startWireEngine, type WireEngine } from './wire-engine.ts';

/** Engines one process hosts at most. */
export const MAX_SIMULATORS = 256;

const HIGHEST_PORT = 65_535;

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
  /** What goes wrong with live event messages; default nothing. */
  readonly eventFaults?: EventFaultSettings | null;
  /** Engines that die and come back empty behind the same addresses. */
  readonly restarts?: readonly EngineRestart[];
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
  for (const { worker } of options.restarts ?? []) {
    if (worker >= 1 && worker <= count) continue;
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `simulated engine ${worker} cannot be restarted; there are engines 1 to ${count}`,
    );
  }
  const tokenizer = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
  const words = Array.from({ length: TINY_WORDS }, (_, id) => tokenizer.decode([id]));
  const running: WireEngine[] = [];
  try {
    for (let i = 0; i < count; i += 1) {
      running.push(
        await startWireEngine(options, { tokenizer, words, port: port === 0 ? 0 : port + i, index: i }),
      );
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
