// What a double says of its blocks, with the faults that lie in what is said. The blocks themselves are those of the simulator core.
import type { BlockStoredEvent, KvEvent, KvEventBatch } from '../../events/index.ts';
import type { U64 } from '../../kv/index.ts';
import type { DoubleFaults } from './double-faults.ts';

/** Live batches after which a clock jumps, and how far, s. */
const JUMP_AFTER = 2;
const JUMP_SECONDS = 3600;

/** What stands between adapter and salt in the one namespace that the core knows. */
const BETWEEN = '\u0000';

/** The core's namespace of an adapter and a salt; null = neither. */
export function namespaceOf(adapter: string | null, cacheSalt: string | null): string | null {
  return adapter === null ? cacheSalt : `${adapter}${BETWEEN}${cacheSalt ?? ''}`;
}

/** Events of the core as an engine publishes them: adapters by their names, and what is planted. */
export function plantedEvents(events: readonly KvEvent[], faults: DoubleFaults): KvEvent[] {
  return events.flatMap((event): KvEvent[] => {
    if (event.kind === 'removed') return inGroups(event, faults);
    if (event.kind !== 'stored') return [event];
    const named = { ...event, ...scopeOf(event.cacheSalt, faults) };
    const pages = faults.singleTokenPages === true ? singleTokens(named) : [named];
    const told = faults.duplicateStores === true ? [...pages, ...pages] : pages;
    return told.flatMap((one) => inGroups(one, faults));
  });
}

/** Writes batches with the time stamps of a clock that jumps. */
export function jumpingClock(
  encode: (batch: KvEventBatch) => Uint8Array,
): (batch: KvEventBatch) => Uint8Array {
  let batches = 0;
  return (batch) => {
    batches += 1;
    return encode(batches > JUMP_AFTER ? { ...batch, timestamp: batch.timestamp + JUMP_SECONDS } : batch);
  };
}

function scopeOf(
  namespace: string | null,
  { unnamedAdapters = false }: DoubleFaults,
): Pick<BlockStoredEvent, 'cacheSalt' | 'loraName'> {
  const at = namespace?.indexOf(BETWEEN) ?? -1;
  if (namespace === null || at < 0) return { cacheSalt: namespace, loraName: null };
  const salt = namespace.slice(at + 1);
  return {
    cacheSalt: salt === '' ? null : salt,
    loraName: unnamedAdapters ? null : namespace.slice(0, at),
  };
}

/** Every block in a group of full attention, and in one with a window. */
function inGroups<T extends Extract<KvEvent, { kind: 'stored' | 'removed' }>>(
  event: T,
  { hybridGroups = false }: DoubleFaults,
): T[] {
  if (!hybridGroups) return [event];
  const scope = { groupIndex: 0, attentionKind: 'full_attention', locality: null, unsupported: null };
  const other = { ...scope, groupIndex: 1, attentionKind: 'sliding_window' };
  return [
    { ...event, scope },
    { ...event, scope: other },
  ];
}

/** A block as pages of one token each; the last page has the block's own hash. */
function singleTokens(event: BlockStoredEvent): BlockStoredEvent[] {
  const { blockSize, external, tokenIds } = event;
  const pages: BlockStoredEvent[] = [];
  let parent: U64 | null = event.parent;
  for (let token = 0; token < tokenIds.length; token += 1) {
    const block = Math.floor(token / blockSize);
    const lo = external[2 * block] ?? 0;
    const hi = external[2 * block + 1] ?? 0;
    const at = token % blockSize;
    const hash: U64 =
      at === blockSize - 1 ? { lo, hi } : { lo: (lo ^ (at + 1)) >>> 0, hi: (hi ^ 0x5a5a5a5a) >>> 0 };
    pages.push({
      ...event,
      external: Uint32Array.of(hash.lo, hash.hi),
      parent,
      tokenIds: tokenIds.slice(token, token + 1),
      blockSize: 1,
    });
    parent = hash;
  }
  return pages;
}
