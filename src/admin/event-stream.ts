// `/events`: live events as server-sent events. Subscribers are few, and one that reads too slowly is let go.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import type { AdminEvents } from './types.ts';

/** Streams at the same time. */
export const MAX_SUBSCRIBERS = 32;

/** Bytes that may wait for a slow reader before its stream is ended. */
const MAX_WAITING = 2 ** 20;

/** The open streams of one server. */
export class EventStreams {
  readonly #events: AdminEvents;
  readonly #open = new Set<() => void>();

  constructor(events: AdminEvents) {
    this.#events = events;
  }

  /** Answers with a stream that lasts until the client leaves. Throws PM_ADMIN_BUSY when there are too many. */
  open(request: IncomingMessage, response: ServerResponse): void {
    if (this.#open.size >= MAX_SUBSCRIBERS) {
      throw new PointsmanError(
        'PM_ADMIN_BUSY',
        `at most ${MAX_SUBSCRIBERS} event streams run at the same time`,
      );
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write(': connected\n\n');
    const unsubscribe = this.#events.subscribe(({ data, type }) => {
      // One line per field: a line break in the type would start another field, and JSON has none.
      response.write(`event: ${type.replace(/\s+/g, ' ')}\ndata: ${exactJsonStringify(data)}\n\n`);
      if (response.writableLength > MAX_WAITING) end();
    });
    const end = (): void => {
      if (!this.#open.delete(end)) return;
      unsubscribe();
      response.end();
      // A reader that is too slow would never take the end either.
      if (response.writableLength > MAX_WAITING) response.destroy();
    };
    this.#open.add(end);
    request.on('close', end);
    response.on('close', end);
  }

  /** Ends all streams. */
  close(): void {
    for (const end of [...this.#open]) end();
  }
}
