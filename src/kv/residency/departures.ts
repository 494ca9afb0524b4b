// Which blocks leave the device of an owner, for whoever follows what lies there: collected while an event is applied, told when it is.
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { DeviceFollower } from './types.ts';

/** Blocks of one owner at a time. */
export class Departures {
  readonly #extents: Extents;
  readonly #follower: DeviceFollower;
  #owner = 0;
  #words = new Uint32Array(128);
  #used = 0;

  constructor(extents: Extents, follower: DeviceFollower) {
    this.#extents = extents;
    this.#follower = follower;
  }

  /** So many blocks of an extent from `block` on leave an owner's device; their rows must be as they were. */
  add(owner: number, block: number, run: number): void {
    if (owner !== this.#owner) {
      this.tell();
      this.#owner = owner;
    }
    const { rows } = this.#extents.arena;
    const needed = this.#used + 2 * run;
    if (this.#words.length < needed) {
      const grown = new Uint32Array(2 * needed);
      grown.set(this.#words);
      this.#words = grown;
    }
    const words = this.#words;
    for (let at = block; at < block + run; at++) {
      words[this.#used++] = rows.get(at, BLOCK.SEQUENCE);
      words[this.#used++] = rows.get(at, BLOCK.SEQUENCE + 1);
    }
  }

  /** Tells of what was added since the last time. */
  tell(): void {
    if (this.#used === 0) return;
    const hashes = this.#words.subarray(0, this.#used);
    this.#used = 0;
    this.#follower.left(this.#owner, hashes);
  }

  /** An owner's device was cleared. */
  cleared(owner: number): void {
    this.tell();
    this.#follower.cleared(owner);
  }
}
