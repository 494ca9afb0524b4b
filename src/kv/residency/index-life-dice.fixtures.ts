// What a random life of a prefix index draws: most of it small and of few owners, some of it large.
import { type Rng, seededRng, type WorkerId } from '../../plugin/index.ts';
import type { IndexLifeOptions } from './index-life-options.fixtures.ts';
import { TIERS } from './types.ts';

/** The dice of one life. */
export class LifeDice {
  readonly rng: Rng;
  readonly #depth: number;
  readonly #owners: number;

  constructor({ depth, owners, seed }: IndexLifeOptions) {
    this.rng = seededRng(seed);
    this.#depth = depth;
    this.#owners = owners;
  }

  /** Uniform in [0, n). */
  integer(n: number): number {
    return this.rng.integer(n);
  }

  /** Blocks of an event. */
  length(): number {
    const dice = this.integer(10);
    if (dice < 4) return 1;
    if (dice < 8) return 1 + this.integer(20);
    return 1 + this.integer(this.#depth);
  }

  /** Few owners do most, so that their chains get long. */
  owner(): number {
    return this.integer(3) === 0 ? this.integer(this.#owners) : this.integer(Math.min(this.#owners, 5));
  }

  /** Number of a tier, mostly the first. */
  tier(): number {
    return this.integer(4) > 0 ? 0 : this.integer(TIERS.length);
  }

  /** One of four, by a number drawn before. */
  worker(dice: number): WorkerId {
    return BigInt(dice % 4);
  }

  /** One of a list. */
  pick<T>(list: readonly T[]): T {
    return list[this.integer(list.length)]!;
  }
}
