// Publishes one rank's KV events on ZeroMQ the way vLLM does: topic, sequence number (8 bytes, big-endian, from 0), payload.
import { encodeEventBatch, type KvEvent } from '../../events/index.ts';
import { SerialSender } from './serial-sender.ts';

/** Batches libzmq queues per subscriber before it drops for that subscriber. */
const SEND_HIGH_WATER_MARK = 100_000;

/** A bound publisher. */
export interface EventPublisher {
  /** The address subscribers connect to. */
  readonly endpoint: string;
  /** Publishes one batch; never waits. */
  publish(events: readonly KvEvent[], atMs: number): void;
  close(): void;
}

/**
 * Binds a publisher on a free loopback port.
 * @param topic first frame of every message.
 * @param rank data-parallel rank written into every batch.
 */
export async function bindEventPublisher(topic: string, rank: number): Promise<EventPublisher> {
  const { Publisher } = await import('zeromq');
  const socket = new Publisher({ sendHighWaterMark: SEND_HIGH_WATER_MARK, linger: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  const endpoint = socket.lastEndpoint ?? '';
  const sender = new SerialSender(socket, SEND_HIGH_WATER_MARK);
  const topicFrame = Buffer.from(topic);
  let sequence = 0;
  let closed = false;
  return {
    endpoint,
    publish(events, atMs) {
      if (closed) return;
      const frame = new Uint8Array(8);
      new DataView(frame.buffer).setBigUint64(0, BigInt(sequence));
      sequence += 1;
      sender.send([topicFrame, frame, encodeEventBatch({ timestamp: atMs / 1000, events, rank })]);
    },
    close() {
      if (closed) return;
      closed = true;
      sender.close();
      socket.close();
    },
  };
}
