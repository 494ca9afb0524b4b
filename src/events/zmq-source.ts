// Subscribes to one engine rank's KV events over ZeroMQ: frames (topic, sequence as 8 bytes big-endian, msgpack batch), as vLLM
// and SGLang publish them. One socket and one reading loop per (worker, rank); libzmq reconnects by itself.
import type { OwnerSlot } from '../kv/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { KvEventSink, KvEventSource } from './types.ts';

/** Messages queued before libzmq drops; a drop shows as a gap in the sequence. */
const RECEIVE_HIGH_WATER_MARK = 100_000;

/** Larger messages end the connection, which then shows as a gap. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

const TWO_32 = 4294967296;

/** One subscription. */
export interface ZmqSubscription {
  /** The publisher's address, for example `tcp://10.0.0.7:5557`. */
  readonly endpoint: string;
  /** Topic prefix; empty for everything. */
  readonly topic: string;
  readonly owner: OwnerSlot;
  readonly sink: KvEventSink;
  /** Told of messages that are no KV event message, and of a sink that threw; the subscription goes on. */
  readonly onError: (error: PointsmanError) => void;
  /** Told each time the connection stands (from then on nothing is missed) or is lost. */
  readonly onConnection?: (connected: boolean) => void;
}

/**
 * Starts a subscription. An endpoint that nobody serves yet is no error: the connection is retried quietly, at most every
 * second. ZeroMQ is loaded on the first call.
 * @throws PointsmanError PM_EVENT_ENDPOINT when the endpoint is no ZeroMQ address.
 */
export async function subscribeZmq(subscription: ZmqSubscription): Promise<KvEventSource> {
  const { Subscriber } = await import('zeromq');
  const socket = new Subscriber({
    receiveHighWaterMark: RECEIVE_HIGH_WATER_MARK,
    maxMessageSize: MAX_MESSAGE_BYTES,
    reconnectInterval: 50,
    reconnectMaxInterval: 1000,
    heartbeatInterval: 10_000,
    heartbeatTimeout: 30_000,
    linger: 0,
  });
  const { onConnection } = subscription;
  if (onConnection !== undefined) {
    socket.events.on('handshake', () => onConnection(true));
    socket.events.on('disconnect', () => onConnection(false));
  }
  try {
    socket.subscribe(subscription.topic);
    socket.connect(subscription.endpoint);
  } catch (cause) {
    socket.close();
    throw new PointsmanError(
      'PM_EVENT_ENDPOINT',
      `KV events cannot be read from "${subscription.endpoint}" (${errorText(cause)}); give an address such as tcp://10.0.0.7:5557`,
      { cause },
    );
  }
  let closed = false;
  void read(socket, subscription, () => closed);
  return {
    close() {
      if (closed) return;
      closed = true;
      socket.close();
    },
  };
}

async function read(
  socket: AsyncIterable<readonly Uint8Array[]>,
  subscription: ZmqSubscription,
  isClosed: () => boolean,
): Promise<void> {
  try {
    for await (const frames of socket) {
      if (isClosed()) return;
      deliver(frames, subscription);
    }
  } catch (cause) {
    if (isClosed()) return;
    report(subscription, `the subscription ended: ${errorText(cause)}`, cause);
    subscription.onConnection?.(false);
  }
}

function deliver(frames: readonly Uint8Array[], subscription: ZmqSubscription): void {
  const [, sequence, payload] = frames;
  if (frames.length !== 3 || sequence === undefined || payload === undefined || sequence.length !== 8) {
    report(
      subscription,
      `a message of ${frames.length} frames is no KV event message; it must be topic, 8-byte sequence, payload`,
    );
    return;
  }
  const view = new DataView(sequence.buffer, sequence.byteOffset, 8);
  const number = view.getUint32(0) * TWO_32 + view.getUint32(4);
  if (!Number.isSafeInteger(number)) {
    report(subscription, 'a sequence number is beyond 2^53 and was ignored');
    return;
  }
  try {
    subscription.sink.onBatch(subscription.owner, number, payload);
  } catch (cause) {
    report(subscription, `applying a batch failed: ${errorText(cause)}`, cause);
  }
}

function report(subscription: ZmqSubscription, problem: string, cause?: unknown): void {
  subscription.onError(
    new PointsmanError('PM_EVENT_MESSAGE', `KV events from ${subscription.endpoint}: ${problem}`, { cause }),
  );
}
