// Who may call the admin API: holders of the token; without one, only requests that name this machine, so that a web page
// whose host name was pointed at 127.0.0.1 (DNS rebinding) gets nothing.
import type { IncomingMessage } from 'node:http';
import { bearsToken, isLoopback } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** Largest body an admin request may announce, in bytes. */
const MAX_BODY = 65_536;

/** Throws PM_ADMIN_UNAUTHORIZED, PM_ADMIN_HOST or PM_ADMIN_BODY when a request may not pass. */
export function guardRequest(request: IncomingMessage, token: string | null): void {
  if (token === null) {
    if (!namesThisMachine(request.headers.host ?? '')) {
      throw new PointsmanError(
        'PM_ADMIN_HOST',
        'without a token the admin API answers only requests whose Host is a loopback name or address; call http://127.0.0.1, or set admin.token',
      );
    }
  } else if (!bearsToken(request, token)) {
    throw new PointsmanError(
      'PM_ADMIN_UNAUTHORIZED',
      'the admin API needs the header authorization: Bearer TOKEN',
    );
  }
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > MAX_BODY || request.headers['transfer-encoding'] !== undefined) {
    throw new PointsmanError(
      'PM_ADMIN_BODY',
      `an admin request may have a body of at most ${MAX_BODY} bytes, of stated length`,
    );
  }
}

/** Throws PM_ADMIN_HOST when a page of another site sends a request that changes something: a browser asks nobody before it does. */
export function guardOrigin({ headers }: IncomingMessage): void {
  const { host = '', origin } = headers;
  if (origin === undefined || (URL.canParse(origin) && new URL(origin).host === host)) return;
  throw new PointsmanError('PM_ADMIN_HOST', 'the admin API takes changes from no page of another site');
}

/** Whether a Host header names a loopback address, with or without port. */
export function namesThisMachine(host: string): boolean {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?$/i.exec(host);
  return match !== null && isLoopback((match[1] ?? match[2] ?? '').toLowerCase());
}
