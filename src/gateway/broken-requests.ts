// Requests that Node's parser gave up on, or that came too slowly, never reach a handler: their answer is written by hand.
import type { Socket } from 'node:net';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { errorAnswer } from './openai-error.ts';
import type { RunningCalls } from './running-calls.ts';

/** A client gets this long to read the answer and to close, in ms; one that keeps its end open is cut off. */
const CLOSE_MS = 1_000;

/** Answers broken requests and closes their connections. */
export class BrokenRequests {
  readonly #calls: RunningCalls;
  readonly #clock: Clock;
  readonly #answered = new WeakSet<Socket>();

  constructor(calls: RunningCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /** Takes one `clientError`; the bytes behind the first mistake raise more of them. */
  answer(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#answered.has(socket)) return;
    // What is written now would be taken for (a part of) the answer to the request before.
    if (!socket.writable || error.code === 'ECONNRESET' || this.#calls.isAnswering(socket)) {
      socket.destroy();
      return;
    }
    this.#answered.add(socket);
    const answer = errorAnswer(brokenRequest(error.code), 429);
    const reason = { 400: 'Bad Request', 408: 'Request Timeout', 431: 'Request Header Fields Too Large' }[
      answer.status
    ];
    socket.end(
      `HTTP/1.1 ${answer.status} ${reason ?? 'Error'}\r\nconnection: close\r\ncontent-type: application/json; charset=utf-8\r\n` +
        `content-length: ${Buffer.byteLength(answer.body)}\r\n\r\n${answer.body}`,
    );
    const cancel = this.#clock.schedule(CLOSE_MS, () => socket.destroy());
    socket.once('close', cancel);
  }
}

function brokenRequest(code: string | undefined): PointsmanError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new PointsmanError(
        'PM_HEADERS_TOO_LARGE',
        'the request headers are larger than limits.header_bytes',
      );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new PointsmanError('PM_REQUEST_TIMEOUT', 'the request did not arrive in time');
    default:
      return new PointsmanError('PM_REQUEST_INVALID', 'the request is not valid HTTP');
  }
}
