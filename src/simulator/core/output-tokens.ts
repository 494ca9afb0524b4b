// Synthetic output: token i of a request depends on the request id, the engine's seed and i alone, so that a replayed request
// gives the same answer on any worker.

/** Seed of a request's output: FNV-1a over the id's UTF-16 units, mixed with the engine's seed. */
export function outputSeed(requestId: string, seed: number): number {
  let hash = 0x811c9dc5 ^ (seed | 0);
  for (let index = 0; index < requestId.length; index += 1) {
    hash = Math.imul(hash ^ requestId.charCodeAt(index), 0x01000193);
  }
  return mixed(hash);
}

/** Output token `index` of the request with this seed, in [0, vocabulary). */
export function outputToken(seed: number, index: number, vocabulary: number): number {
  return mixed(seed + Math.imul(index, 0x9e3779b9)) % vocabulary;
}

/** The finalizer of MurmurHash3 (public domain): u32 to u32. */
function mixed(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
