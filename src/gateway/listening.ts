// Opening and closing a listening HTTP server.
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, errorText, PointsmanError } from '../plugin/index.ts';

/** Binds; answers the address in use. @throws PointsmanError PM_LISTEN */
export function listen(server: Server, host: string, port: number): Promise<{ host: string; port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => {
      const why = error.code === 'EADDRINUSE' ? 'another process uses that port' : errorText(error);
      reject(
        new PointsmanError('PM_LISTEN', `cannot listen on ${host}:${port}: ${why}`, {
          cause: error,
          details: { host, port },
        }),
      );
    };
    server.once('error', onError);
    server.listen(port, host, () => {
      server.off('error', onError);
      // A listening TCP server has an address object.
      const address = server.address() as AddressInfo;
      resolve({ host: address.address, port: address.port });
    });
  });
}

/** Last bytes of ended answers get this long, in ms; whoever reads no further is cut off. */
const LAST_BYTES_MS = 1_000;
const SWEEP_MS = 20;

/** Closes the port and, as soon as they are idle, its connections. Resolves when all are closed. */
export function closeServer(server: Server, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    let open = true;
    server.close(() => {
      open = false;
      resolve();
    });
    const until = clock.now() + LAST_BYTES_MS;
    // A keep-alive connection becomes idle only after its last answer; closing the server does not wait for that.
    const sweep = (): void => {
      if (!open) return;
      if (clock.now() >= until) {
        server.closeAllConnections();
      } else {
        server.closeIdleConnections();
        clock.schedule(SWEEP_MS, sweep);
      }
    };
    sweep();
  });
}
