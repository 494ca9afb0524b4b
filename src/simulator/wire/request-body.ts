// Reads a request's body up to a cap and parses it as JSON with exact 64-bit integers.
import type { IncomingMessage } from 'node:http';
import { nestsDeeperThan, parseExactJson } from '../../config/index.ts';
import { PointsmanError } from '../../plugin/index.ts';

/** Parsing millions of levels would hold up every engine of the process for seconds. */
const MAX_DEPTH = 128;

/**
 * The parsed body.
 * @param maxBytes larger bodies are refused without being read to the end.
 * @throws PointsmanError PM_SIM_TOO_LARGE, or PM_SIM_INVALID when it is not JSON or the client left.
 */
export async function readJsonBody(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const body = await readBody(request, maxBytes);
  if (body === null) {
    throw new PointsmanError(
      'PM_SIM_TOO_LARGE',
      `the body is larger than the ${maxBytes} bytes this engine accepts`,
    );
  }
  const text = body.toString('utf8');
  if (nestsDeeperThan(text, MAX_DEPTH)) {
    throw new PointsmanError('PM_SIM_INVALID', `the body nests deeper than ${MAX_DEPTH} levels`);
  }
  try {
    return parseExactJson(text);
  } catch {
    // The parser's message may quote the prompt.
    throw new PointsmanError('PM_SIM_INVALID', 'the body is not valid JSON');
  }
}

/**
 * The bytes of a body; null = it is larger than `maxBytes`, and was not read to the end. Listeners rather than iteration: leaving an
 * iteration early destroys the connection before the refusal is written.
 * @throws PointsmanError PM_SIM_INVALID when the client left.
 */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const tooLarge = (): void => {
      request.removeAllListeners('data');
      request.pause();
      resolve(null);
    };
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
      tooLarge();
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) tooLarge();
      else chunks.push(chunk);
    });
    request.on('end', () => resolve(Buffer.concat(chunks)));
    request.on('error', (cause) => {
      reject(new PointsmanError('PM_SIM_INVALID', 'the client left before its body was complete', { cause }));
    });
  });
}
