// One configured seed, many independent generators: every instance gets its own, so that adding one policy does not shift the
// draws of another.
import { randomBytes } from 'node:crypto';

/** A seed for the part named by `labels`; equal arguments give equal seeds. A safe integer. */
export function deriveSeed(seed: number, ...labels: readonly string[]): number {
  // FNV-1a over the text, twice with different offsets, each finished with the mixer of MurmurHash3.
  const text = `${seed}\u0000${labels.join('\u0000')}`;
  let low = 0x811c9dc5;
  let high = 0x9dc5811c;
  for (let at = 0; at < text.length; at += 1) {
    low = Math.imul(low ^ text.charCodeAt(at), 0x01000193);
    high = Math.imul(high ^ text.charCodeAt(at), 0x01000193);
  }
  return (mix(high) >>> 11) * 4294967296 + (mix(low) >>> 0);
}

/** A seed from the system, for `router.seed: 0`. */
export function systemSeed(): number {
  return randomBytes(6).readUIntBE(0, 6) + 1;
}

/** A u64 parameter as a seed: its low 53 bits. */
export function seedOfU64(value: number | bigint): number {
  return Number(BigInt.asUintN(53, BigInt(value)));
}

function mix(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
