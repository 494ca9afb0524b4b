// Reads a request body with a cap. Time is limited by the server's own request timeout.
import type { IncomingMessage } from 'node:http';
import { PointsmanError } from '../plugin/index.ts';

/**
 * The whole body; null when the client went away.
 * @throws PointsmanError PM_BODY_TOO_LARGE as soon as that is certain, PM_REQUEST_INVALID for a compressed body.
 */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return Promise.reject(
      new PointsmanError(
        'PM_REQUEST_INVALID',
        'a compressed body is not read; send it without content-encoding',
      ),
    );
  }
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) return Promise.reject(tooLarge(maxBytes));
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const settle = (done: () => void): void => {
      req.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      done();
    };
    const onData = (part: Buffer): void => {
      size += part.length;
      if (size > maxBytes) settle(() => reject(tooLarge(maxBytes)));
      else parts.push(part);
    };
    const onEnd = (): void =>
      settle(() => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts, size)));
    const onClose = (): void => settle(() => resolve(null));
    req.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  });
}

function tooLarge(maxBytes: number): PointsmanError {
  return new PointsmanError(
    'PM_BODY_TOO_LARGE',
    `the body is larger than ${maxBytes} bytes (limits.body_bytes)`,
    { details: { max_bytes: maxBytes } },
  );
}
