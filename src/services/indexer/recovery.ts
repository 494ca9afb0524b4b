// Start-up recovery: the dump of the first peer that gives a usable one.
import type { Logger } from '../../plugin/index.ts';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { applyDump, type DumpedPartition, readDump } from './peer-dump.ts';
import type { IndexerRegistry } from './registry.ts';

const TIMEOUT_MS = 10_000;
/** A dump has about 60 characters per block; longer ones cannot be read as one text. */
const MAX_DUMP_BYTES = 384 * 1024 * 1024;

/** Asks peers in order. Returns the one whose blocks this indexer has now; null when it starts without any. */
export async function recoverFromPeers(
  registry: IndexerRegistry,
  peers: readonly string[],
  log: Logger,
): Promise<string | null> {
  for (const peer of peers) {
    try {
      const left = take(registry, readDump(await fetchDump(peer)), log);
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

async function fetchDump(peer: string): Promise<string> {
  const response = await fetch(new URL('/dump', peer), { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (response.status !== 200 || response.body === null) {
    await response.body?.cancel();
    throw new PointsmanError('PM_INDEXER_PEER', `it answered ${response.status}`);
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body) {
    size += part.length;
    if (size > MAX_DUMP_BYTES) {
      throw new PointsmanError('PM_INDEXER_PEER', `its dump is larger than ${MAX_DUMP_BYTES} bytes`);
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
