// Start-up recovery: the dump of the first peer that gives a usable one.
import type { Clock, Logger } from '../../plugin/index.ts';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { applyDump, type DumpedPartition, DumpReader } from './peer-dump.ts';
import type { IndexerRegistry } from './registry.ts';

/** A peer that says nothing for so long is given up, ms. */
const SILENCE_MS = 10_000;
/** So long may a whole dump take; the largest takes about half a minute, ms. */
const WHOLE_MS = 120_000;
/** A dump has about 60 characters per block. */
const MAX_DUMP_BYTES = 384 * 1024 * 1024;

/** Asks peers in order. Returns the one whose blocks this indexer has now; null when it starts without any. */
export async function recoverFromPeers(
  registry: IndexerRegistry,
  peers: readonly string[],
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<string | null> {
  for (const peer of peers) {
    try {
      const left = take(registry, await fetchDump(peer, clock), log);
      log.info('the indexes were recovered from a peer', { peer, blocks_left: left });
      return peer;
    } catch (thrown) {
      log.warn(`a peer's blocks were not taken: ${errorText(thrown)}`, { peer, code: 'PM_INDEXER_PEER' });
    }
  }
  return null;
}

/** All of a dump or nothing. */
function take(registry: IndexerRegistry, dump: readonly DumpedPartition[], log: Logger): number {
  const before = new Map(
    registry.partitions().map((one) => [one, new Set(one.owners().map(([slot]) => slot))]),
  );
  let left = 0;
  try {
    for (const dumped of dump) {
      const partition = registry.partitionFor(dumped.model, dumped.routingGroup, dumped.blockSize);
      if (partition.blockSize !== dumped.blockSize) {
        log.warn('a peer has blocks of another size; its blocks of this model are not taken', {
          key: partition.key,
          peer_block_size: dumped.blockSize,
          block_size: partition.blockSize,
        });
        continue;
      }
      left += applyDump(partition, dumped);
    }
    return left;
  } catch (thrown) {
    for (const partition of registry.partitions()) {
      const slots = before.get(partition);
      partition.startOver(slots ?? new Set());
      if (slots === undefined) registry.dropPartition(partition);
    }
    throw thrown;
  }
}

/** Reads a peer's dump as it comes in. @throws PM_INDEXER_PEER saying in words why there is none */
async function fetchDump(peer: string, clock: Clock): Promise<readonly DumpedPartition[]> {
  const abort = new AbortController();
  const giveUp = (why: string): void => abort.abort(new PointsmanError('PM_INDEXER_PEER', why));
  const endAfter = (ms: number, what: string): (() => void) =>
    clock.schedule(ms, () => giveUp(`${what} within ${ms / 1000} s`));
  const cancelWhole = endAfter(WHOLE_MS, 'its dump was not complete');
  let cancelSilence = endAfter(SILENCE_MS, 'it said nothing');
  try {
    const response = await fetch(new URL('/dump', peer), { signal: abort.signal });
    if (response.status !== 200 || response.body === null) {
      await response.body?.cancel();
      throw new PointsmanError('PM_INDEXER_PEER', `it answered ${response.status}`);
    }
    const reader = new DumpReader();
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let size = 0;
    for await (const part of response.body) {
      cancelSilence();
      cancelSilence = endAfter(SILENCE_MS, 'it said nothing');
      size += part.length;
      if (size > MAX_DUMP_BYTES) {
        throw new PointsmanError('PM_INDEXER_PEER', `its dump is larger than ${MAX_DUMP_BYTES} bytes`);
      }
      reader.feed(decoder.decode(part, { stream: true }));
    }
    reader.feed(decoder.decode());
    return reader.end();
  } catch (thrown) {
    if (thrown instanceof PointsmanError) throw thrown;
    const { cause } = thrown instanceof Error ? thrown : {};
    throw new PointsmanError('PM_INDEXER_PEER', `the connection broke off: ${errorText(cause ?? thrown)}`, {
      cause: thrown,
    });
  } finally {
    cancelWhole();
    cancelSilence();
    // What is still to come is not wanted.
    giveUp('the dump was read');
  }
}
