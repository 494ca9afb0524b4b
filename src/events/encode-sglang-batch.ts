// Encodes a KV event batch as SGLang does: everything an array with every slot, block hashes signed, one store for each page. Fields:
// SGLang's event classes, of which tests/python has the same.
import { PointsmanError } from '../plugin/index.ts';
import { MsgpackWriter } from './msgpack-writer.ts';
import type { BlockStoredEvent, KvEvent, KvEventBatch } from './types.ts';

/** Upper bound of an event's bytes without its hashes, tokens and strings. */
const EVENT_OVERHEAD = 96;

const MEDIUMS = { device: 'GPU', host: 'CPU_PINNED', disk: 'DISK', external: 'EXTERNAL' } as const;

/**
 * The payload frame for a batch; hint outcomes are left out, as SGLang has none.
 * @throws PointsmanError PM_EVENT_ENCODE for a store with images, an adapter or bigrams, which are not played.
 */
export function encodeSglangBatch(batch: KvEventBatch): Uint8Array {
  let bound = 64;
  let count = 0;
  for (const event of batch.events) {
    if (event.kind === 'stored') {
      const pages = event.external.length / 2;
      const metadata = 64 + 3 * (event.cacheSalt?.length ?? 0);
      bound += pages * (EVENT_OVERHEAD + metadata) + event.tokenIds.length * 5;
      count += pages;
    } else if (event.kind !== 'hint-outcome') {
      bound += EVENT_OVERHEAD + (event.kind === 'removed' ? event.external.length * 5 : 0);
      count += 1;
    }
  }
  const writer = new MsgpackWriter(bound);
  writer.array(3);
  writer.float64(batch.timestamp);
  writer.array(count);
  for (const event of batch.events) writeEvent(writer, event);
  if (batch.rank === null) writer.nil();
  else writer.unsigned(batch.rank);
  return writer.take();
}

function writeEvent(writer: MsgpackWriter, event: KvEvent): void {
  switch (event.kind) {
    case 'stored':
      writePages(writer, event);
      return;
    case 'removed':
      writer.array(3);
      writer.word('BlockRemoved');
      writer.array(event.external.length / 2);
      for (let at = 0; at < event.external.length; at += 2) writeHash(writer, event.external, at);
      writer.word(MEDIUMS[event.tier]);
      return;
    case 'cleared':
      writer.array(1);
      writer.word('AllBlocksCleared');
      return;
    case 'hint-outcome':
  }
}

function writePages(writer: MsgpackWriter, event: BlockStoredEvent): void {
  const { blockSize, cacheSalt, external, parent, tokenIds } = event;
  if (event.multimodal !== undefined || event.loraName !== null || event.bigrams === true) {
    throw new PointsmanError(
      'PM_EVENT_ENCODE',
      'SGLang events are written without images, adapters and bigrams',
    );
  }
  for (let page = 0; page < external.length / 2; page += 1) {
    writer.array(cacheSalt === null ? 7 : 8);
    writer.word('BlockStored');
    writer.array(1);
    writeHash(writer, external, 2 * page);
    if (page > 0) writeHash(writer, external, 2 * page - 2);
    else if (parent === null) writer.nil();
    else writer.signed64(parent.lo, parent.hi);
    writer.unsignedArray(tokenIds.subarray(page * blockSize, (page + 1) * blockSize));
    writer.unsigned(blockSize);
    writer.nil();
    writer.word(MEDIUMS[event.tier]);
    if (cacheSalt === null) continue;
    writer.map(1);
    writer.word('cache_salt');
    writer.string(cacheSalt);
  }
}

function writeHash(writer: MsgpackWriter, pairs: Uint32Array, at: number): void {
  writer.signed64(pairs[at]!, pairs[at + 1]!);
}
