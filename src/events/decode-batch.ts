// Decodes one KV event batch. Three encodings are in the field (array batch with array events, array batch with map events,
// map batch with map events); the first byte tells which, at batch level and again at each event.
import type { HashPairs } from '../kv/index.ts';
import { EventFields } from './event-fields.ts';
import { readWireName, type WireName } from './event-wire-names.ts';
import { MAX_NESTING, MsgpackReader } from './msgpack-reader.ts';
import type { KvEvent, KvEventBatch } from './types.ts';

/** Most events in one batch. */
export const MAX_BATCH_EVENTS = 65_536;

/**
 * Decodes the payload frame of one message. The arrays of the result are fresh, slices of a few buffers; nothing refers to
 * `bytes` afterwards.
 * Unknown tags, fields and mediums are skipped and counted in `skipped`.
 * @throws PointsmanError PM_EVENT_DECODE when the bytes are not one complete batch, a known event lacks a field or has one of a
 *   wrong type, or a cap is passed (65,536 events, 4 Mi token ids, 1 Mi hashes, strings of 4 KiB, 8 levels).
 */
export function decodeEventBatch(bytes: Uint8Array): KvEventBatch {
  const reader = new MsgpackReader(bytes);
  const fields = new EventFields(reader);
  const batch = reader.isMap() ? decodeMapBatch(reader, fields) : decodeArrayBatch(reader, fields);
  if (reader.at !== bytes.length) reader.fail('bytes follow behind the batch');
  if (fields.skippedEvents === 0 && fields.skippedFields === 0) return batch;
  return { ...batch, skipped: { events: fields.skippedEvents, fields: fields.skippedFields } };
}

function decodeArrayBatch(reader: MsgpackReader, fields: EventFields): KvEventBatch {
  const length = reader.arrayLength('the batch');
  if (length < 2) reader.fail('the batch must hold a timestamp and events', 0);
  const timestamp = reader.number('ts');
  const events = decodeEvents(reader, fields);
  const rank = length > 2 ? readRank(reader) : null;
  for (let slot = 3; slot < length; slot += 1) {
    reader.skip();
    fields.skippedFields += 1;
  }
  return { timestamp, events, rank };
}

function decodeMapBatch(reader: MsgpackReader, fields: EventFields): KvEventBatch {
  let timestamp: number | null = null;
  let events: KvEvent[] | null = null;
  let rank: number | null = null;
  for (let pairs = reader.mapLength('the batch'); pairs > 0; pairs -= 1) {
    const at = reader.at;
    const key = readWireName(reader, 'a key of the batch');
    if (key === 'ts') timestamp = reader.number('ts');
    else if (key === 'events') {
      if (events !== null) reader.fail('events stands twice in the batch', at);
      events = decodeEvents(reader, fields);
    } else if (key === 'data_parallel_rank' || key === 'attn_dp_rank' || key === 'dp_rank')
      rank = readRank(reader);
    // Of a tagged batch: which class it is.
    else if (key === 'type') reader.skip();
    else {
      reader.skip();
      fields.skippedFields += 1;
    }
  }
  if (timestamp === null || events === null) reader.fail('the batch must hold ts and events', 0);
  return { timestamp, events, rank };
}

function readRank(reader: MsgpackReader): number | null {
  return reader.takeNil() ? null : reader.unsigned('data_parallel_rank', 0xffffffff);
}

function decodeEvents(reader: MsgpackReader, fields: EventFields): KvEvent[] {
  const at = reader.at;
  const length = reader.arrayLength('events');
  if (length > MAX_BATCH_EVENTS) {
    reader.fail(`a batch holds at most ${MAX_BATCH_EVENTS} events, this one claims ${length}`, at);
  }
  const events: KvEvent[] = [];
  for (let i = 0; i < length; i += 1) {
    const event = reader.isMap() ? decodeMapEvent(reader, fields) : decodeArrayEvent(reader, fields);
    if (event === null) fields.skippedEvents += 1;
    else events.push(event);
  }
  return events;
}

function decodeMapEvent(reader: MsgpackReader, fields: EventFields): KvEvent | null {
  const start = reader.at;
  const pairs = reader.mapLength('an event');
  const first = reader.at;
  const tag = findTag(reader, pairs, start);
  reader.at = first;
  if (!isKnownTag(tag)) {
    for (let values = pairs * 2; values > 0; values -= 1) reader.skip(MAX_NESTING);
    return null;
  }
  fields.reset(start);
  for (let i = 0; i < pairs; i += 1) {
    const key = readWireName(reader, 'a key of an event');
    if (key === 'type') reader.skip();
    else fields.read(key);
  }
  return finish(tag, fields);
}

/** The value of `type`, wherever it stands; engines write it first. */
function findTag(reader: MsgpackReader, pairs: number, start: number): WireName {
  for (let i = 0; i < pairs; i += 1) {
    if (readWireName(reader, 'a key of an event') === 'type') return readWireName(reader, 'type');
    reader.skip();
  }
  return reader.fail('an event must have a type', start);
}

/** Slots of array events in order; behind the last one the rest is told apart by type. */
const STORED_SLOTS: readonly WireName[] = [
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
];
const REMOVED_SLOTS: readonly WireName[] = ['block_hashes', 'medium'];
/** ATOM names the tier that was cleared. */
const CLEARED_SLOTS: readonly WireName[] = ['medium'];
const OUTCOME_SLOTS: readonly WireName[] = ['message_id', 'action_id', 'outcome', 'reason', 'blocks'];

function decodeArrayEvent(reader: MsgpackReader, fields: EventFields): KvEvent | null {
  const start = reader.at;
  const length = reader.arrayLength('an event');
  if (length === 0) reader.fail('an event must have a type', start);
  const tag = readWireName(reader, 'type');
  if (!isKnownTag(tag)) {
    for (let slot = 1; slot < length; slot += 1) reader.skip();
    return null;
  }
  fields.reset(start);
  const slots = SLOTS_OF_TAG[tag];
  for (let slot = 1; slot < length; slot += 1) {
    const name = slots[slot - 1];
    if (name !== undefined) fields.read(name);
    else if (tag === 'KvHintOutcome') fields.read('unknown');
    else fields.readTail();
  }
  return finish(tag, fields);
}

type KnownTag = 'BlockStored' | 'BlockRemoved' | 'AllBlocksCleared' | 'KvHintOutcome';

const SLOTS_OF_TAG: Readonly<Record<KnownTag, readonly WireName[]>> = {
  BlockStored: STORED_SLOTS,
  BlockRemoved: REMOVED_SLOTS,
  AllBlocksCleared: CLEARED_SLOTS,
  KvHintOutcome: OUTCOME_SLOTS,
};

function isKnownTag(tag: WireName): tag is KnownTag {
  return (
    tag === 'BlockStored' || tag === 'BlockRemoved' || tag === 'AllBlocksCleared' || tag === 'KvHintOutcome'
  );
}

function finish(tag: KnownTag, fields: EventFields): KvEvent | null {
  const external: HashPairs | null = fields.hashes;
  switch (tag) {
    case 'BlockStored': {
      const tokenIds = fields.tokens;
      const blockSize = fields.blockSize;
      if (external === null || tokenIds === null || blockSize === null) {
        return fields.fail('BlockStored must have block_hashes, token_ids and block_size');
      }
      const { cacheSalt, multimodal, unsupported } = fields.identity();
      const stored = {
        kind: 'stored',
        external,
        parent: fields.parent,
        tokenIds,
        blockSize,
        tier: fields.tier,
        loraName: fields.loraName,
        cacheSalt,
        sessionId: fields.sessionId,
      } as const;
      const scope = fields.scope(unsupported);
      if (scope === null && !fields.bigrams && multimodal === null) return stored;
      return {
        ...stored,
        ...(scope === null ? null : { scope }),
        ...(fields.bigrams ? { bigrams: true } : null),
        ...(multimodal === null ? null : { multimodal }),
      };
    }
    case 'BlockRemoved': {
      if (external === null) return fields.fail('BlockRemoved must have block_hashes');
      const scope = fields.scope();
      return { kind: 'removed', external, tier: fields.tier, ...(scope === null ? null : { scope }) };
    }
    case 'AllBlocksCleared':
      return fields.mediumSeen ? { kind: 'cleared', tier: fields.tier } : { kind: 'cleared' };
    case 'KvHintOutcome':
      return fields.hintOutcome();
  }
}
