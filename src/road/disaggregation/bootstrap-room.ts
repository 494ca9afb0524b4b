// The room in which a prefill and a decode engine meet (SGLang). An engine with several ranks takes the room modulo their number as the
// rank that serves it, so a room is drawn that leads to the rank which was booked. Formula: lib/llm/src/kv_router/prefill_router.
import type { Rng } from '../../plugin/index.ts';

/** Largest room: i64 max. */
export const MAX_ROOM = (1n << 63n) - 1n;

/** A number uniform in [0, 2^63 − 1]. */
export function drawRoom(rng: Rng): bigint {
  return (BigInt(rng.integer(2 ** 31)) << 32n) | BigInt(rng.integer(2 ** 32));
}

/**
 * The room of a rank: with r drawn, q = r mod (⌊(2^63 − 1 − rank) / size⌋ + 1) and the room is q × size + rank.
 * @param drawn in [0, 2^63 − 1].
 * @param rank of the prefill engine, in [0, size), counted from its first.
 * @param size ranks behind the engine's address; 0 = not known, then the room is the number drawn.
 */
export function roomOfRank(drawn: bigint, rank: number, size: number): bigint {
  if (size <= 0) return drawn;
  const quotients = (MAX_ROOM - BigInt(rank)) / BigInt(size) + 1n;
  return (drawn % quotients) * BigInt(size) + BigInt(rank);
}
