// Encodes a KV event batch exactly as vLLM's publisher does, in both of the forms that are in the field: events as maps with defaults left
// out (current), or as positional arrays with every slot (older). Field order: vllm/distributed/kv_events.py.
import { MEDIUM_OF_TIER } from './event-wire-names.ts';
import { MsgpackWriter } from './msgpack-writer.ts';
import type { BlockStoredEvent, KvEvent, KvEventBatch } from './types.ts';

/** How events are written; the batch around them is an array in both. */
export type VllmWire = 'map' | 'array';

/** Upper bound of an event's bytes without its hashes, tokens and strings. */
const EVENT_OVERHEAD = 256;

/** The payload frame for a batch. What vLLM has no event for (outcomes of hints) is not written, nor are sessions in the older form. */
export function encodeVllmBatch({ events, rank, timestamp }: KvEventBatch, wire: VllmWire): Uint8Array {
  const known = events.filter(({ kind }) => kind !== 'hint-outcome');
  const writer = new MsgpackWriter(known.reduce((sum, event) => sum + boundOf(event), 64));
  writer.array(3);
  writer.float64(timestamp);
  writer.array(known.length);
  for (const event of known) {
    if (wire === 'map') writeMap(writer, event);
    else writeArray(writer, event);
  }
  if (rank === null) writer.nil();
  else writer.unsigned(rank);
  return writer.take();
}

function boundOf(event: KvEvent): number {
  if (event.kind === 'removed') return EVENT_OVERHEAD + event.external.length * 5;
  if (event.kind !== 'stored') return EVENT_OVERHEAD;
  const texts =
    (event.loraName?.length ?? 0) + (event.cacheSalt?.length ?? 0) + (event.sessionId?.length ?? 0);
  const kind = event.scope?.attentionKind?.length ?? 0;
  return EVENT_OVERHEAD + event.external.length * 6 + event.tokenIds.length * 5 + 3 * (texts + kind);
}

function writeMap(writer: MsgpackWriter, event: KvEvent): void {
  if (event.kind === 'stored') {
    const salted = saltedBlocks(event);
    writer.map(8 + (salted > 0 ? 1 : 0) + (event.sessionId === null ? 0 : 1) + groupFields(event));
    named(writer, 'type', () => writer.word('BlockStored'));
    named(writer, 'block_hashes', () => writeHashes(writer, event.external));
    named(writer, 'parent_block_hash', () => writeParent(writer, event));
    named(writer, 'token_ids', () => writer.unsignedArray(event.tokenIds));
    named(writer, 'block_size', () => writer.unsigned(event.blockSize));
    named(writer, 'lora_id', () => writer.nil());
    named(writer, 'medium', () => writer.word(MEDIUM_OF_TIER[event.tier]));
    named(writer, 'lora_name', () => writer.stringOrNull(event.loraName));
    if (salted > 0) named(writer, 'extra_keys', () => writeExtraKeys(writer, event, salted));
    if (event.sessionId !== null) named(writer, 'session_id', () => writer.stringOrNull(event.sessionId));
    writeGroup(writer, event);
  } else if (event.kind === 'removed') {
    const index = event.scope?.groupIndex ?? null;
    writer.map(index === null ? 3 : 4);
    named(writer, 'type', () => writer.word('BlockRemoved'));
    named(writer, 'block_hashes', () => writeHashes(writer, event.external));
    named(writer, 'medium', () => writer.word(MEDIUM_OF_TIER[event.tier]));
    if (index !== null) named(writer, 'group_idx', () => writer.unsigned(index));
  } else {
    writer.map(1);
    named(writer, 'type', () => writer.word('AllBlocksCleared'));
  }
}

/** The group of a hybrid model's block, which older forms do not name. */
function groupFields({ scope }: BlockStoredEvent): number {
  return ((scope?.groupIndex ?? null) === null ? 0 : 1) + ((scope?.attentionKind ?? null) === null ? 0 : 1);
}

function writeGroup(writer: MsgpackWriter, { scope }: BlockStoredEvent): void {
  const { attentionKind = null, groupIndex = null } = scope ?? {};
  if (groupIndex !== null) named(writer, 'group_idx', () => writer.unsigned(groupIndex));
  if (attentionKind !== null) named(writer, 'kv_cache_spec_kind', () => writer.stringOrNull(attentionKind));
}

function writeArray(writer: MsgpackWriter, event: KvEvent): void {
  if (event.kind === 'stored') {
    const salted = saltedBlocks(event);
    writer.array(9);
    writer.word('BlockStored');
    writeHashes(writer, event.external);
    writeParent(writer, event);
    writer.unsignedArray(event.tokenIds);
    writer.unsigned(event.blockSize);
    writer.nil();
    writer.word(MEDIUM_OF_TIER[event.tier]);
    writer.stringOrNull(event.loraName);
    if (salted > 0) writeExtraKeys(writer, event, salted);
    else writer.nil();
  } else if (event.kind === 'removed') {
    writer.array(3);
    writer.word('BlockRemoved');
    writeHashes(writer, event.external);
    writer.word(MEDIUM_OF_TIER[event.tier]);
  } else {
    writer.array(1);
    writer.word('AllBlocksCleared');
  }
}

/** The salt goes into the hash of the first block of a prompt alone; 0 = nothing to name. */
function saltedBlocks({ cacheSalt, external, parent }: BlockStoredEvent): number {
  return cacheSalt === null || parent !== null ? 0 : external.length / 2;
}

function writeExtraKeys(writer: MsgpackWriter, { cacheSalt }: BlockStoredEvent, blocks: number): void {
  writer.array(blocks);
  writer.array(1);
  writer.stringOrNull(cacheSalt);
  for (let block = 1; block < blocks; block += 1) writer.nil();
}

function writeHashes(writer: MsgpackWriter, pairs: Uint32Array): void {
  writer.array(pairs.length / 2);
  for (let i = 0; i < pairs.length; i += 2) writer.unsigned64(pairs[i]!, pairs[i + 1]!);
}

function writeParent(writer: MsgpackWriter, { parent }: BlockStoredEvent): void {
  if (parent === null) writer.nil();
  else writer.unsigned64(parent.lo, parent.hi);
}

function named(writer: MsgpackWriter, key: string, write: () => void): void {
  writer.word(key);
  write();
}
