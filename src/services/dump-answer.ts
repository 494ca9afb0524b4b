// The answer to `/dump`: what indexes hold, as store events, streamed.
import type { ServerResponse } from 'node:http';
import type { BlockHasher } from '../kv/index.ts';
import type { Clock } from '../plugin/index.ts';
import { type DumpSource, dumpPartition } from './indexer/dump-events.ts';

/** A reader that takes nothing for so long has gone away. */
const STALLED_MS = 30_000;

/** Answers with the dump of all sources, by their keys. */
export async function answerDump(
  response: ServerResponse,
  sources: Iterable<DumpSource>,
  hasher: Pick<BlockHasher, 'chain'>,
  clock: Clock,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json' });
  const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  let separator = '{';
  for (const source of sources) {
    response.write(`${separator}${JSON.stringify(source.key)}:`);
    separator = ',';
    for await (const text of dumpPartition(source, hasher, clock.now(), pause)) {
      if (response.destroyed) return;
      // A slow reader holds the dump up, not memory.
      if (!response.write(text)) await drained(response, clock);
    }
  }
  response.end(separator === '{' ? '{}' : '}');
}

function drained(response: ServerResponse, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.schedule(STALLED_MS, () => response.destroy());
    const done = (): void => {
      cancel();
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}
