// The time stamp of an encoded batch, read without decoding the rest: it comes first in every encoding.
import { readWireName } from './event-wire-names.ts';
import { MsgpackReader } from './msgpack-reader.ts';

/** Seconds by the engine's clock; null when the bytes begin with none, or with one that no clock shows (0 or less). */
export function batchTimestamp(bytes: Uint8Array): number | null {
  const reader = new MsgpackReader(bytes);
  try {
    return usableTimestamp(reader.isMap() ? mapTimestamp(reader) : arrayTimestamp(reader));
  } catch {
    // Whoever decodes the batch says what is wrong with it.
    return null;
  }
}

/** The time stamp, unless no clock shows it. */
export function usableTimestamp(timestamp: number | null): number | null {
  return timestamp !== null && Number.isFinite(timestamp) && timestamp > 0 ? timestamp : null;
}

function arrayTimestamp(reader: MsgpackReader): number | null {
  return reader.arrayLength('the batch') === 0 ? null : reader.number('ts');
}

function mapTimestamp(reader: MsgpackReader): number | null {
  const pairs = reader.mapLength('the batch');
  return pairs > 0 && readWireName(reader, 'a key of the batch') === 'ts' ? reader.number('ts') : null;
}
