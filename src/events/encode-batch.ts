// Encodes a KV event batch as current vLLM does (array batch, map events, narrowest integers), for the simulated engine.
// Beyond vLLM: `session_id` on stores and the event `KvHintOutcome`.
import type { MultimodalItems } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { MEDIUM_OF_TIER } from './event-wire-names.ts';
import { MsgpackWriter } from './msgpack-writer.ts';
import type { BlockStoredEvent, KvEvent, KvEventBatch, KvEventScope } from './types.ts';

/** Upper bound of an event's bytes without its hashes, tokens and strings. */
const EVENT_OVERHEAD = 384;

/**
 * The payload frame for a batch; fresh bytes, nothing of the batch is kept. `skipped` is not written.
 * @throws PointsmanError PM_EVENT_ENCODE for a store whose identity this encoder cannot write (`scope.unsupported`).
 */
export function encodeEventBatch(batch: KvEventBatch): Uint8Array {
  let bound = 64;
  for (const event of batch.events) bound += boundOf(event);
  const writer = new MsgpackWriter(bound);
  writer.array(3);
  writer.float64(batch.timestamp);
  writer.array(batch.events.length);
  for (const event of batch.events) writeEvent(writer, event);
  if (batch.rank === null) writer.nil();
  else writer.unsigned(batch.rank);
  return writer.take();
}

function boundOf(event: KvEvent): number {
  switch (event.kind) {
    case 'stored':
      return (
        EVENT_OVERHEAD +
        event.external.length * 5 +
        event.tokenIds.length * (event.bigrams === true ? 11 : 5) +
        boundOfItems(event) +
        3 *
          ((event.loraName?.length ?? 0) + (event.cacheSalt?.length ?? 0) + (event.sessionId?.length ?? 0)) +
        boundOfScope(event.scope)
      );
    case 'removed':
      return EVENT_OVERHEAD + event.external.length * 5 + boundOfScope(event.scope);
    case 'cleared':
      return EVENT_OVERHEAD;
    case 'hint-outcome':
      return (
        EVENT_OVERHEAD + 3 * (event.messageId.length + event.actionId.length + (event.reason?.length ?? 0))
      );
  }
}

/** A block's item takes 9 bytes and the words around it. */
function boundOfItems({ multimodal }: BlockStoredEvent): number {
  let bound = 0;
  for (const items of multimodal ?? []) bound += 16 + (items?.length ?? 0) * 12;
  return multimodal === undefined ? 0 : bound + 32;
}

function boundOfScope(scope: KvEventScope | undefined): number {
  return 3 * ((scope?.attentionKind?.length ?? 0) + (scope?.locality?.length ?? 0));
}

function writeEvent(writer: MsgpackWriter, event: KvEvent): void {
  switch (event.kind) {
    case 'stored': {
      const scope = event.scope;
      if (scope !== undefined && scope.unsupported !== null) {
        throw new PointsmanError(
          'PM_EVENT_ENCODE',
          `a BlockStored event with ${scope.unsupported} cannot be encoded; leave out scope.unsupported`,
        );
      }
      writer.map(
        8 +
          scopeFields(scope) +
          (event.multimodal === undefined ? 0 : 1) +
          (event.cacheSalt === null ? 0 : 1) +
          (event.sessionId === null ? 0 : 1),
      );
      writeTag(writer, 'BlockStored');
      writeHashes(writer, event.external);
      writer.word('parent_block_hash');
      if (event.parent === null) writer.nil();
      else writer.unsigned64(event.parent.lo, event.parent.hi);
      writer.word('token_ids');
      if (event.bigrams === true) writePairs(writer, event.tokenIds);
      else writer.unsignedArray(event.tokenIds);
      writer.word('block_size');
      writer.unsigned(event.blockSize);
      writer.word('lora_id');
      writer.nil();
      writer.word('medium');
      writer.word(MEDIUM_OF_TIER[event.tier]);
      writer.word('lora_name');
      writer.stringOrNull(event.loraName);
      writeScope(writer, scope);
      if (event.multimodal !== undefined) writeItems(writer, event.multimodal);
      writeOptional(writer, 'cache_salt', event.cacheSalt);
      writeOptional(writer, 'session_id', event.sessionId);
      return;
    }
    case 'removed':
      writer.map(3 + scopeFields(event.scope));
      writeTag(writer, 'BlockRemoved');
      writeHashes(writer, event.external);
      writer.word('medium');
      writer.word(MEDIUM_OF_TIER[event.tier]);
      writeScope(writer, event.scope);
      return;
    case 'cleared':
      writer.map(event.tier === undefined ? 1 : 2);
      writeTag(writer, 'AllBlocksCleared');
      if (event.tier !== undefined) writeOptional(writer, 'medium', MEDIUM_OF_TIER[event.tier]);
      return;
    case 'hint-outcome':
      writer.map(4 + (event.reason === null ? 0 : 1) + (event.blocks === null ? 0 : 1));
      writeTag(writer, 'KvHintOutcome');
      writeOptional(writer, 'message_id', event.messageId);
      writeOptional(writer, 'action_id', event.actionId);
      writeOptional(writer, 'outcome', event.outcome);
      writeOptional(writer, 'reason', event.reason);
      if (event.blocks !== null) {
        writer.word('blocks');
        writer.unsigned(event.blocks);
      }
  }
}

function writeTag(writer: MsgpackWriter, tag: string): void {
  writer.word('type');
  writer.word(tag);
}

function writeHashes(writer: MsgpackWriter, pairs: Uint32Array): void {
  writer.word('block_hashes');
  writer.array(pairs.length / 2);
  for (let i = 0; i < pairs.length; i += 2) writer.unsigned64(pairs[i]!, pairs[i + 1]!);
}

/** Each token with the one behind it. */
function writePairs(writer: MsgpackWriter, tokenIds: Uint32Array): void {
  const pairs = Math.max(0, tokenIds.length - 1);
  writer.array(pairs);
  for (let i = 0; i < pairs; i += 1) {
    writer.array(2);
    writer.unsigned(tokenIds[i]!);
    writer.unsigned(tokenIds[i + 1]!);
  }
}

function writeItems(writer: MsgpackWriter, multimodal: MultimodalItems): void {
  writer.word('block_mm_infos');
  writer.array(multimodal.length);
  for (const items of multimodal) {
    if (items === null) {
      writer.nil();
      continue;
    }
    writer.map(1);
    writer.word('mm_objects');
    writer.array(items.length / 2);
    for (let at = 0; at < items.length; at += 2) {
      writer.map(1);
      writer.word('mm_hash');
      writer.unsigned64(items[at]!, items[at + 1]!);
    }
  }
}

function writeOptional(writer: MsgpackWriter, key: string, value: string | null): void {
  if (value === null) return;
  writer.word(key);
  writer.string(value);
}

function scopeFields(scope: KvEventScope | undefined): number {
  if (scope === undefined) return 0;
  return (
    (scope.groupIndex === null ? 0 : 1) +
    (scope.attentionKind === null ? 0 : 1) +
    (scope.locality === null ? 0 : 1)
  );
}

function writeScope(writer: MsgpackWriter, scope: KvEventScope | undefined): void {
  if (scope === undefined) return;
  if (scope.groupIndex !== null) {
    writer.word('group_idx');
    writer.unsigned(scope.groupIndex);
  }
  writeOptional(writer, 'kv_cache_spec_kind', scope.attentionKind);
  writeOptional(writer, 'locality', scope.locality);
}
