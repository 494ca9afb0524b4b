import { request as httpRequest } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { NO_LOG } from '../plugin/index.ts';
import { createAdminServer } from './server.ts';
import type { AdminEvent, AdminEvents, AdminServer } from './types.ts';

let server: AdminServer | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

async function start(events: AdminEvents): Promise<AdminServer> {
  server = await createAdminServer({
    host: '127.0.0.1',
    port: 0,
    token: null,
    decisions: { list: () => [], get: () => null, ofRequest: () => [] },
    metrics: { text: async () => '' },
    workers: () => [],
    plugins: () => [],
    config: () => ({}),
    ready: () => ({ reasons: [], warnings: [] }),
    events,
    log: NO_LOG,
  });
  return server;
}

/** An event source whose listeners can be counted. */
function eventSource() {
  const listeners = new Set<(event: AdminEvent) => void>();
  return {
    listeners,
    emit(event: AdminEvent) {
      for (const listener of listeners) listener(event);
    },
    subscribe(listener: (event: AdminEvent) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Opens a stream and waits until its text contains `until`. */
function stream({ port }: { readonly port: number }): {
  read(until: string): Promise<string>;
  leave(): void;
  ended: Promise<void>;
} {
  let text = '';
  let wake = (): void => {};
  const request = httpRequest({ host: '127.0.0.1', port, path: '/events' });
  const ended = new Promise<void>((resolve) => {
    request.on('response', (response) => {
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        wake();
      });
      response.on('close', resolve);
      response.on('error', () => {});
    });
    request.on('error', () => resolve());
  });
  request.end();
  return {
    ended,
    leave: () => request.destroy(),
    async read(until) {
      while (!text.includes(until)) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return text;
    },
  };
}

test('events are streamed as exact JSON until the client leaves', async () => {
  const events = eventSource();
  const client = stream(await start(events));
  await client.read(': connected\n\n');
  events.emit({ type: 'worker\ndata: x', data: { id: 18446744073709551615n } });
  expect(await client.read('615')).toBe(
    ': connected\n\nevent: worker data: x\ndata: {"id":18446744073709551615}\n\n',
  );
  const left = new Promise<void>((resolve) => {
    const remove = events.listeners.delete.bind(events.listeners);
    events.listeners.delete = (listener) => {
      resolve();
      return remove(listener);
    };
  });
  client.leave();
  await left;
  expect(events.listeners.size).toBe(0);
});

test('more than 32 streams are refused, and closing the server ends those that run', async () => {
  const events = eventSource();
  const { close, port, url } = await start(events);
  const clients = Array.from({ length: 32 }, () => stream({ port }));
  await Promise.all(clients.map((client) => client.read(': connected')));
  const refused = await fetch(`${url}/events`);
  expect([refused.status, await refused.json()]).toEqual([
    503,
    { error: { code: 'PM_ADMIN_BUSY', message: 'at most 32 event streams run at the same time' } },
  ]);
  await close();
  server = null;
  await Promise.all(clients.map((client) => client.ended));
  expect(events.listeners.size).toBe(0);
});
