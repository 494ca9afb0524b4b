// Opens and closes the HTTP servers of simulated engines.
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type Clock, errorText, PointsmanError } from '../../plugin/index.ts';

/** Listens on a loopback port; 0 = any free one. @throws PointsmanError PM_SIM_START */
export async function listen(server: Server, port: number): Promise<void> {
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
export async function drain(server: Server, clock: Clock, graceMs: number): Promise<void> {
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
