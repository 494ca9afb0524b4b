// What a plugin in a thread writes to standard output and error: passed on up to a budget per second. Beyond it nothing is read, so
// that the thread holds what it wrote, or waits; of a chunk that is too long the rest is dropped and counted.
import type { Readable } from 'node:stream';

/** Bytes passed on within a second. */
export const OUTPUT_BYTES_PER_SECOND = 65_536;
const SECOND_MS = 1000;

/** Where output goes. */
export interface OutputPorts {
  readonly write: (chunk: Uint8Array) => void;
  readonly dropped: (bytes: number) => void;
}

/** Passes a stream on until it ends. */
export function passOutput(stream: Readable, { write, dropped }: OutputPorts): void {
  let left = OUTPUT_BYTES_PER_SECOND;
  let refill: NodeJS.Timeout | null = null;
  stream.on('data', (given: Uint8Array | string) => {
    const chunk = Buffer.from(given);
    const passed = chunk.subarray(0, left);
    left -= passed.length;
    if (passed.length > 0) write(passed);
    if (passed.length < chunk.length) dropped(chunk.length - passed.length);
    refill ??= setTimeout(() => {
      refill = null;
      left = OUTPUT_BYTES_PER_SECOND;
      stream.resume();
    }, SECOND_MS).unref();
    if (left === 0) stream.pause();
  });
  stream.on('close', () => {
    if (refill !== null) clearTimeout(refill);
  });
}
