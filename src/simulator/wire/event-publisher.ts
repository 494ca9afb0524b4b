// Publishes one rank's KV events on ZeroMQ the way vLLM does: topic, sequence number (8 bytes, big-endian, from 0), payload; and
// answers subscribers that missed some out of what it keeps.
import { encodeEventBatch, type KvEvent, type KvEventBatch, loadZeromq } from '../../events/index.ts';
import type { Clock } from '../../plugin/index.ts';
import type { EventFaults } from '../core/event-faults.ts';
import { EventHistory } from '../core/event-history.ts';
import { bindEventReplay, type EventReplay, type ReplayFrames, sequenceFrame } from './event-replay.ts';
import { SerialSender } from './serial-sender.ts';

/** Batches libzmq queues per subscriber before it drops for that subscriber. */
const SEND_HIGH_WATER_MARK = 100_000;

/** What is published, and how. */
export interface EventPublisherOptions {
  /** First frame of every message. */
  readonly topic: string;
  /** Data-parallel rank written into every batch. */
  readonly rank: number;
  /** Batches kept for replay; 0 = no replay is offered. */
  readonly history: number;
  readonly replayFrames: ReplayFrames;
  /** null = every batch is sent as it is published. */
  readonly faults: EventFaults<Uint8Array[]> | null;
  readonly clock: Clock;
  /** Writes the payload; default: as the simulated engine does. */
  readonly encode?: (batch: KvEventBatch) => Uint8Array;
  /** Where it publishes; default: it binds any free loopback port. */
  readonly live?: SocketPlace;
  /** Where it answers replay requests; default: any free loopback port. */
  readonly replayAt?: string;
  /** Replay knows of the first batch alone, as if nothing later had been kept; default no. */
  readonly forgetsBatches?: boolean;
  readonly warn: (problem: string) => void;
}

/** A ZeroMQ address, and who opens the connection. */
export interface SocketPlace {
  readonly address: string;
  /** It connects to a subscriber that listens there, instead of listening itself. */
  readonly connects: boolean;
}

const ANYWHERE: SocketPlace = { address: 'tcp://127.0.0.1:*', connects: false };

/** An open publisher. */
export interface EventPublisher {
  /** The address subscribers connect to. */
  readonly endpoint: string;
  /** The address missed batches are asked for at; null when none are kept. */
  readonly replayEndpoint: string | null;
  /** Publishes one batch; never waits. */
  publish(events: readonly KvEvent[], atMs: number): void;
  /** The engine died and a new one publishes here: numbers from 0, nothing kept. The sockets stay. */
  restart(): void;
  close(): void;
}

/** Opens a publisher. */
export async function bindEventPublisher(options: EventPublisherOptions): Promise<EventPublisher> {
  const { clock, encode = encodeEventBatch, faults, live = ANYWHERE, rank } = options;
  const { Publisher } = await loadZeromq();
  const socket = new Publisher({ sendHighWaterMark: SEND_HIGH_WATER_MARK, linger: 0 });
  const history = new EventHistory(options.history);
  const topic = Buffer.from(options.topic);
  let replay: EventReplay | null = null;
  try {
    if (live.connects) socket.connect(live.address);
    else await socket.bind(live.address);
    if (options.history > 0) {
      replay = await bindEventReplay({
        topic,
        address: options.replayAt ?? ANYWHERE.address,
        frames: options.replayFrames,
        history: options.history,
        since: (start) =>
          options.forgetsBatches === true
            ? history.since(start).filter(({ sequence }) => sequence === 0)
            : history.since(start),
        warn: options.warn,
      });
    }
  } catch (error) {
    socket.close();
    throw error;
  }
  const sender = new SerialSender(socket, SEND_HIGH_WATER_MARK);
  let closed = false;
  let cancelNext: () => void = () => undefined;
  const sendDue = (from: EventFaults<Uint8Array[]>): void => {
    cancelNext();
    for (const frames of from.takeDue(clock.now())) sender.send(frames);
    const next = from.nextDue();
    cancelNext = next === null ? () => undefined : clock.schedule(next - clock.now(), () => sendDue(from));
  };
  return {
    endpoint: live.connects ? live.address : (socket.lastEndpoint ?? ''),
    replayEndpoint: replay?.endpoint ?? null,
    publish(events, atMs) {
      if (closed) return;
      const payload = encode({ timestamp: atMs / 1000, events, rank });
      const { sequence } = history.append(payload);
      const frames = [topic, sequenceFrame(sequence), payload];
      if (faults === null) {
        sender.send(frames);
        return;
      }
      faults.offer(frames, clock.now());
      sendDue(faults);
    },
    restart() {
      history.restart();
      faults?.restart();
    },
    close() {
      if (closed) return;
      closed = true;
      cancelNext();
      replay?.close();
      sender.close();
      socket.close();
    },
  };
}
