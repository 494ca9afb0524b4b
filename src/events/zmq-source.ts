// Subscribes to one engine rank's KV events over ZeroMQ: frames (topic, sequence as 8 bytes big-endian, msgpack batch), as vLLM
// and SGLang publish them. One socket and one reading loop per (worker, rank); libzmq reconnects by itself.
import type { OwnerSlot } from '../kv/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { KvEventSink, KvEventSource } from './types.ts';
import { loadZeromq } from './zeromq.ts';
import { MAX_MESSAGE_BYTES, readMessages, sequenceOf } from './zmq-frames.ts';

/** Messages queued before libzmq drops; a drop shows as a gap in the sequence. */
const RECEIVE_HIGH_WATER_MARK = 100_000;

/** One subscription. */
export interface ZmqSubscription {
  /** The publisher's address, for example `tcp://10.0.0.7:5557`; with `binds` the one to listen on. */
  readonly endpoint: string;
  /** Listen, for an engine that connects; default false. */
  readonly binds?: boolean;
  /** Topic prefix; empty for everything. */
  readonly topic: string;
  readonly owner: OwnerSlot;
  readonly sink: KvEventSink;
  /** Told of messages that are no KV event message, and of a sink that threw; the subscription goes on. */
  readonly onError: (error: PointsmanError) => void;
  /** Told the topic of each message, before the sink gets it. */
  readonly onTopic?: (topic: Uint8Array) => void;
  /** Told each time the connection stands (from then on nothing is missed) or is lost. */
  readonly onConnection?: (connected: boolean) => void;
}

/**
 * Starts a subscription. An endpoint that nobody serves yet is no error: the connection is retried quietly, at most every
 * second. ZeroMQ is loaded on the first call.
 * @throws PointsmanError PM_EVENT_ENDPOINT when the endpoint is no ZeroMQ address, or cannot be listened on.
 */
export async function subscribeZmq(subscription: ZmqSubscription): Promise<KvEventSource> {
  const { Subscriber } = await loadZeromq();
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
    if (subscription.binds === true) await socket.bind(subscription.endpoint);
    else socket.connect(subscription.endpoint);
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
    await readMessages(socket, (frames) => {
      if (isClosed()) return false;
      deliver(frames, subscription);
      return true;
    });
  } catch (cause) {
    if (isClosed()) return;
    report(subscription, `the subscription ended: ${errorText(cause)}`, cause);
    subscription.onConnection?.(false);
  }
}

function deliver(frames: readonly Uint8Array[], subscription: ZmqSubscription): void {
  const [topic, sequence, payload] = frames;
  if (topic !== undefined) subscription.onTopic?.(topic);
  if (frames.length !== 3 || sequence === undefined || payload === undefined || sequence.length !== 8) {
    report(
      subscription,
      `a message of ${frames.length} frames is no KV event message; it must be topic, 8-byte sequence, payload`,
    );
    return;
  }
  const number = sequenceOf(sequence);
  if (number === null) {
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
