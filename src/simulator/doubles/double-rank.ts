// One data-parallel rank of a protocol double: a machine of the simulator core, its KV events and its control channel. What is spoken
// around it (HTTP, event encoding, addresses) is the double's.
import { randomInt } from 'node:crypto';
import type { KvEvent, KvEventBatch } from '../../events/index.ts';
import type { BlockHasher } from '../../kv/index.ts';
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import { TINY_WORDS } from '../../tokens/index.ts';
import { createSimulatedEngine } from '../core/create-engine.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { createControlPeers } from '../wire/control-peers.ts';
import { bindControlSource } from '../wire/control-source.ts';
import { EngineDriver } from '../wire/engine-driver.ts';
import { bindEventPublisher, type EventPublisher, type SocketPlace } from '../wire/event-publisher.ts';
import type { ReplayFrames } from '../wire/event-replay.ts';
import type { DoubleFaults } from './double-faults.ts';
import { jumpingClock, plantedEvents } from './planted-events.ts';

/** How a rank publishes KV events. */
export interface RankEvents {
  readonly topic: string;
  readonly live: SocketPlace;
  /** Null = no replay is offered. */
  readonly replayAt: string | null;
  readonly replayFrames: ReplayFrames;
  /** Batches kept for replay. */
  readonly history: number;
  readonly encode: (batch: KvEventBatch) => Uint8Array;
}

/** What a rank is made of. */
export interface DoubleRankOptions {
  readonly settings: SimulatedEngineSettings;
  readonly rank: number;
  /** Names this run of the engine. */
  readonly engineId: string;
  /** Null = it publishes no KV events. */
  readonly events: RankEvents | null;
  readonly faults: DoubleFaults;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  readonly warn: (problem: string) => void;
}

/** A running rank. */
export interface DoubleRank {
  readonly driver: EngineDriver;
  /** Null = it publishes no KV events. */
  readonly events: Pick<EventPublisher, 'endpoint' | 'replayEndpoint'> | null;
  /** Where peers ask it for KV, `tcp://127.0.0.1:port`. */
  readonly control: string;
  /** Empties its cache, and says so. Nothing may be under way. */
  clear(): void;
  close(): void;
}

/** Starts a rank. @throws PointsmanError PM_SIM_SETTINGS for a bad setting; what the system says of an address in use. */
export async function startDoubleRank(options: DoubleRankOptions): Promise<DoubleRank> {
  const { clock, engineId, faults, hasher } = options;
  const settings =
    faults.randomHashSeed === true
      ? { ...options.settings, hashSeed: randomInt(1, 2 ** 31) }
      : options.settings;
  let driver: EngineDriver | null = null;
  const started = (): EngineDriver => {
    if (driver === null) throw new PointsmanError('PM_SIM_START', 'the engine is not ready yet');
    return driver;
  };
  const closing: (() => void)[] = [];
  const close = (): void => {
    for (const step of closing.splice(0).reverse()) step();
  };
  try {
    const peers = await createControlPeers(() => driver?.wake());
    closing.push(() => peers.close());
    const source = await bindControlSource({
      epoch: () => engineId,
      grant: (request) => started().grantFetch(request),
      release: (key, how) => started().releaseFetch(key, how),
      claim: (claim, answered) => started().claimHandoff(claim, answered),
      drop: (handoff) => started().dropHandoff(handoff),
      onAnswer: () => undefined,
    });
    closing.push(() => source.close());
    const newEngine = () =>
      createSimulatedEngine(settings, {
        hasher,
        peers,
        engineId,
        announceRate: (key, gbps) => source.announceRate(key, gbps),
        vocabulary: TINY_WORDS,
      });
    const events = await publisherOf(options);
    if (events !== null) closing.push(() => events.close());
    const silent = faults.eventsOff === true || faults.prefixCachingOff === true;
    const publish = (list: readonly KvEvent[], at: number): void => {
      if (!silent) events?.publish(plantedEvents(list, faults), at);
    };
    const running = new EngineDriver({ engine: newEngine(), clock, publish });
    driver = running;
    closing.push(() => running.close());
    const clear = (): void => {
      running.replace(newEngine());
      publish([{ kind: 'cleared' }], clock.now());
    };
    return { driver: running, events, control: source.endpoint, clear, close };
  } catch (error) {
    close();
    throw error;
  }
}

function publisherOf({
  clock,
  events,
  faults,
  rank,
  warn,
}: DoubleRankOptions): Promise<EventPublisher> | null {
  if (events === null) return null;
  const { encode, history, live, replayFrames, topic } = events;
  const replayAt = faults.noReplay === true ? null : events.replayAt;
  return bindEventPublisher({
    topic,
    rank,
    history: replayAt === null ? 0 : history,
    replayFrames,
    faults: null,
    clock,
    encode: faults.clockJump === true ? jumpingClock(encode) : encode,
    forgetsBatches: faults.oldReplay === true,
    live,
    ...(replayAt === null ? {} : { replayAt }),
    warn,
  });
}
