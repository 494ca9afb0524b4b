// Which sequence a request runs in, and what of its prompt is there already.
import type { NamedPrompt, SequenceSlot } from './sequence-slot.ts';

/** Blocks that a sequence may lose to the next turn of its own conversation: the end of an answer is often written anew. */
const TAIL_BLOCKS = 2;
/** A copy takes the whole of another sequence: it must have at least this part of it in common with the prompt. */
const WORTH_COPYING = 1 / 8;

/** Where a request goes. */
export interface Placement {
  readonly slot: SequenceSlot;
  /** Full blocks of the prompt that need not be computed. */
  readonly blocks: number;
  /** Sequence that they are copied from; null = they are in the slot itself. */
  readonly from: SequenceSlot | null;
}

/**
 * Chooses a sequence: the one that has the longest part of the prompt, if the request goes on with what it holds. If it leaves that
 * behind, or the sequence is in use, its part is copied into the sequence that is worth least: unused, else with the lowest retain
 * priority among blocks that only it holds, else used least recently.
 * @param most blocks of the prompt that may come from the cache.
 * @param priorityOf highest retain priority that a sequence would lose beyond its first blocks; −1 = none.
 * @returns null = all are in use.
 */
export function placeRequest(
  slots: readonly SequenceSlot[],
  prompt: NamedPrompt,
  most: number,
  priorityOf: (slot: SequenceSlot, keepBlocks: number) => number,
): Placement | null {
  const victim = leastWorth(slots, prompt, most, priorityOf);
  if (victim === null) return null;
  let best = victim.commonBlocks(prompt, most);
  let holder = victim;
  for (const slot of slots) {
    if (!slot.settled) continue;
    const common = slot.commonBlocks(prompt, most);
    if (common < best || common === 0) continue;
    // Of several that hold as much: one that may be used as it is, else the one that is copied fastest.
    if (common > best || rank(slot) > rank(holder)) {
      best = common;
      holder = slot;
    }
  }
  if (holder === victim) return { slot: victim, blocks: best, from: null };
  if (!holder.busy && holder.blockCount - best <= TAIL_BLOCKS)
    return { slot: holder, blocks: best, from: null };
  if (best < WORTH_COPYING * holder.blockCount)
    return { slot: victim, blocks: victim.commonBlocks(prompt, most), from: null };
  return { slot: victim, blocks: best, from: holder };
}

function rank(slot: SequenceSlot): number {
  return (slot.busy ? 0 : 1e9) - slot.blockCount;
}

function leastWorth(
  slots: readonly SequenceSlot[],
  prompt: NamedPrompt,
  most: number,
  priorityOf: (slot: SequenceSlot, keepBlocks: number) => number,
): SequenceSlot | null {
  let least: SequenceSlot | null = null;
  let leastPriority = 0;
  for (const slot of slots) {
    if (slot.busy) continue;
    const priority = priorityOf(slot, slot.commonBlocks(prompt, most));
    const isLess =
      least === null ||
      priority < leastPriority ||
      (priority === leastPriority && slot.lastUsed < least.lastUsed);
    if (!isLess) continue;
    least = slot;
    leastPriority = priority;
  }
  return least;
}
