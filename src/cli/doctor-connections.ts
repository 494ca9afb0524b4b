// Why nothing is heard of an event endpoint: the engine publishes nothing, or under another topic, or it was given a host name and
// connects instead of listening, so that whoever listens there hears it.
import { subscribeZmq } from '../events/index.ts';
import type { Clock } from '../plugin/index.ts';

/** Publishers try again several times a second. */
const LISTEN_MS = 2_000;

/** What listening in the place of the engine shows. */
export type EndpointVerdict =
  /** A publisher came: the engine connects. */
  | 'engine_connects'
  /** Nobody came. */
  | 'nobody'
  /** The address is not of this machine, or taken. */
  | 'unknown';

/** Listens where an engine should, for at most two seconds. Nobody else may be connected there meanwhile. */
export async function listenInstead(endpoint: string, clock: Clock): Promise<EndpointVerdict> {
  let connected = (): void => undefined;
  const came = new Promise<EndpointVerdict>((resolve) => {
    connected = () => resolve('engine_connects');
  });
  try {
    const source = await subscribeZmq({
      endpoint,
      binds: true,
      topic: '',
      owner: 0,
      sink: { onBatch: () => connected() },
      onError: () => undefined,
      onConnection: (isThere) => {
        if (isThere) connected();
      },
    });
    try {
      return await Promise.race([came, listened(clock).then((): EndpointVerdict => 'nobody')]);
    } finally {
      source.close();
    }
  } catch {
    return 'unknown';
  }
}

/** A topic in a sentence is cut off here. */
const TOPIC_LENGTH = 100;
/** A publisher learns of a subscription a while after the connection stands, and drops what it publishes before that. */
const TOPIC_TRIES = 3;

/**
 * The topic under which an engine publishes what it computes meanwhile, heard by a subscription to everything; null = none was heard.
 * @param compute makes the engine publish something; it is told which try this is, from 0, as nothing is published of a prompt seen before.
 *   False = it failed, so that there is nothing to wait for.
 */
export async function topicOf(
  endpoint: string,
  clock: Clock,
  compute: (nth: number) => Promise<boolean>,
): Promise<string | null> {
  const wait = <T>(promise: Promise<T>): Promise<T | null> =>
    Promise.race([promise, listened(clock).then(() => null)]);
  let connected = (): void => undefined;
  const isConnected = new Promise<void>((resolve) => {
    connected = resolve;
  });
  let heard = (_topic: string): void => undefined;
  const topic = new Promise<string>((resolve) => {
    heard = resolve;
  });
  const source = await subscribeZmq({
    endpoint,
    topic: '',
    owner: 0,
    sink: { onBatch: () => undefined },
    onError: () => undefined,
    onTopic: (bytes) => heard(printable(bytes)),
    onConnection: (isThere) => {
      if (isThere) connected();
    },
  });
  try {
    await wait(isConnected);
    for (let nth = 0; nth < TOPIC_TRIES; nth++) {
      if (!(await compute(nth))) return null;
      const found = await wait(topic);
      if (found !== null) return found;
    }
    return null;
  } finally {
    source.close();
  }
}

function listened(clock: Clock): Promise<void> {
  return new Promise((resolve) => void clock.schedule(LISTEN_MS, resolve));
}

function printable(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.subarray(0, TOPIC_LENGTH)).toString('latin1');
  return text.replaceAll(/[^\x20-\x7e]|"/g, '?');
}
