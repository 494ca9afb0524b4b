// Where a rank of an engine publishes, from the one address in its flags: every rank counts the port on, and whether it listens there or
// connects follows from the address alone. A double stays on loopback, whatever the address says.
import { rankEndpoint } from '../../events/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { SocketPlace } from '../wire/event-publisher.ts';

/** `tcp://` with a host or wildcard and a port; port 0 = any free one. */
const TCP = /^tcp:\/\/(.+):(\d{1,5})$/;

/**
 * Where a rank publishes. As vLLM has it: an address with `*` or `::`, or `ipc://`, is listened on; any other host is connected to.
 * @throws PointsmanError PM_SIM_SETTINGS for an address that is none.
 */
export function publisherPlace(endpoint: string, rank: number): SocketPlace {
  if (endpoint.startsWith('ipc://') && rank === 0) return { address: endpoint, connects: false };
  const [, host = '', port = ''] = TCP.exec(endpoint) ?? [];
  const connects = !host.includes('*') && !host.includes('::');
  // Any free port is another one for every rank by itself.
  const own = Number(port) === 0 ? 'tcp://127.0.0.1:*' : rankEndpoint(`tcp://127.0.0.1:${port}`, rank);
  if (host === '' || own === null || (connects && Number(port) === 0)) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `"${endpoint.slice(0, 200)}" is no address for the KV events of rank ${rank}; it must look like tcp://*:5557`,
    );
  }
  return { address: own, connects };
}
