// What live messages and answers have in common on the wire: a sequence frame, bounded messages, a fair reading loop.

/** Larger messages end the connection, which then shows as a gap. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Messages read in a row before others get their turn. */
const MESSAGES_PER_TURN = 64;

const TWO_32 = 4294967296;

/** The number in a sequence frame (8 bytes, big-endian); null when it has another length or lies beyond 2^53. */
export function sequenceOf(frame: Uint8Array): number | null {
  if (frame.length !== 8) return null;
  const view = new DataView(frame.buffer, frame.byteOffset, 8);
  const number = view.getUint32(0) * TWO_32 + view.getUint32(4);
  return Number.isSafeInteger(number) ? number : null;
}

/** A sequence frame. */
export function sequenceFrame(sequence: number): Uint8Array {
  const frame = new Uint8Array(8);
  const view = new DataView(frame.buffer);
  view.setUint32(0, Math.floor(sequence / TWO_32));
  view.setUint32(4, sequence % TWO_32);
  return frame;
}

/** Reads until `take` returns false or the socket ends. A flood of messages does not keep the process from anything else. */
export async function readMessages(
  socket: AsyncIterable<readonly Uint8Array[]>,
  take: (frames: readonly Uint8Array[]) => boolean,
): Promise<void> {
  let inTurn = 0;
  for await (const frames of socket) {
    if (!take(frames)) return;
    inTurn += 1;
    if (inTurn < MESSAGES_PER_TURN) continue;
    inTurn = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
