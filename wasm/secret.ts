// The default secret of XXH3 and what a seed makes of it, in static memory. The last seed is kept: most prompts follow another
// with the same adapter and cache salt.

/** The 192-byte default secret. */
export const PLAIN: usize = memory.data<u64>(
  [
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
  ],
  16,
);
/** The secret with the seed mixed in: 192 bytes, read by lengths above 16. */
export const SECRET: usize = memory.data(192, 16);
/** Keys of 129 to 240 bytes from round 8 on, which the secret gives at odd offsets: 7 of 16 bytes, then that of the last mix. */
export const MIDDLE: usize = memory.data(128, 16);
/**
 * The first 128 bytes of `SECRET` for two blocks at once: per u64 k a vector (k low, k low, k high, k high).
 */
export const PAIRED: usize = memory.data(256, 16);

let prepared = false;
let preparedSeed: u64 = 0;

/** The seed of the hash in progress. */
@inline
export function seed(): u64 {
  return preparedSeed;
}

/** Derives `SECRET`, `MIDDLE` and `PAIRED` unless they belong to this seed already. */
export function prepare(wanted: u64): void {
  if (prepared && preparedSeed == wanted) return;
  for (let at: usize = 0; at < 192; at += 16) derive(SECRET + at, PLAIN + at, wanted);
  for (let at: usize = 0; at < 112; at += 16) derive(MIDDLE + at, PLAIN + at + 3, wanted);
  derive(MIDDLE + 112, PLAIN + 119, wanted);
  for (let at: usize = 0; at < 128; at += 8) {
    const key = v128.load64_splat(SECRET + at);
    v128.store(PAIRED + 2 * at, v128.shuffle<u32>(key, key, 0, 2, 1, 3));
  }
  preparedSeed = wanted;
  prepared = true;
}

function derive(to: usize, from: usize, wanted: u64): void {
  store<u64>(to, load<u64>(from) + wanted);
  store<u64>(to, load<u64>(from, 8) - wanted, 8);
}
