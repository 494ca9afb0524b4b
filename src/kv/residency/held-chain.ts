// From an engine's hashes to the router's: a run of a chain as an owner names it.
import type { HashPairs } from '../hashing/types.ts';
import { u64Equal } from '../hashing/u64.ts';
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';
import type { HeldChain } from './types.ts';

const NONE = -1;

/** The blocks that an owner names so: those it does not know are left out, and the first that does not follow ends the chain. */
export function heldChain(
  extents: Extents,
  residencies: Residencies,
  state: OwnerState,
  external: HashPairs,
): HeldChain | null {
  const blocks = external.length >> 1;
  const hashes = new Uint32Array(external.length);
  const { names } = residencies;
  let parent: HeldChain['parent'] = null;
  let before = NONE;
  let used = 0;
  for (let i = 0; i < blocks; i++) {
    const name = names.find(state, external[2 * i]! | 0, external[2 * i + 1]! | 0);
    if (name === NONE) continue;
    const block = residencies.blockOf(name);
    if (before === NONE) parent = extents.parentOf(block);
    else if (!follows(extents, block, before)) break;
    const { lo, hi } = extents.hashOf(block, BLOCK.SEQUENCE);
    hashes[used++] = lo;
    hashes[used++] = hi;
    before = block;
  }
  return used === 0 ? null : { parent, hashes: hashes.subarray(0, used) };
}

function follows(extents: Extents, block: number, before: number): boolean {
  const { arena } = extents;
  if (arena.runOf(block) === arena.runOf(before)) return block === before + 1;
  const parent = extents.parentOf(block);
  return parent !== null && u64Equal(parent, extents.hashOf(before, BLOCK.SEQUENCE));
}
