// Chains sequence hashes with a published XXH3 package, one call per block: an implementation the router's own has no part in.
import { xxh3 } from '@node-rs/xxhash';
import type { BlockHasher } from '../hashing/types.ts';
import { toBigUint64Array } from '../hashing/u64.ts';

/** Seed of the chain, from the format of Dynamo's KV router. */
const CHAIN_SEED = 1337n;

/** The chaining part of a block hasher. */
export const chainHasher: Pick<BlockHasher, 'chain'> = {
  chain(parent, local, out) {
    const written = new BigUint64Array(out.buffer, out.byteOffset, out.length / 2);
    const input = new BigUint64Array(2);
    let before = parent === null ? null : (BigInt(parent.hi) << 32n) | BigInt(parent.lo);
    toBigUint64Array(local).forEach((content, i) => {
      input[0] = before ?? 0n;
      input[1] = content;
      before = before === null ? content : xxh3.xxh64(new Uint8Array(input.buffer), CHAIN_SEED);
      written[i] = before;
    });
  },
};
