// Why nobody answers at an event endpoint: the engine publishes nothing, or it was given a host name and connects instead of
// listening, so that whoever listens there hears it.
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
      const gaveUp = new Promise<EndpointVerdict>((resolve) => {
        clock.schedule(LISTEN_MS, () => resolve('nobody'));
      });
      return await Promise.race([came, gaveUp]);
    } finally {
      source.close();
    }
  } catch {
    return 'unknown';
  }
}
