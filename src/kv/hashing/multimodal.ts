// How images and other items in a prompt enter its block hashes. Tokens alone do not tell two images apart: every one is the same
// run of placeholders. Formulas: ai-dynamo/dynamo lib/kv-router/src/protocols.rs; the constants of pad values are SGLang's.
import { createReferenceHasher } from './reference-hasher.ts';
import type { HashPairs, U64 } from './types.ts';

/** The 64-bit hashes of each block's items in order of appearance, without repeats; null for a block without any. */
export type MultimodalItems = readonly (HashPairs | null)[];

const PAD_BASE = 1_000_000;
const PAD_MASK = 2 ** 30 - 1;
const ID_SEED: U64 = { lo: 0, hi: 0 };
const DIGEST = /^[0-9a-f]{64}$/i;

const encoder = new TextEncoder();
const hasher = createReferenceHasher();

/** Whether an item's id is a SHA-256 digest: exactly 64 hexadecimal digits. */
export function isDigestId(id: string): boolean {
  return id.length === 64 && DIGEST.test(id);
}

/**
 * The hash of an item's id: the first 16 digits of a digest, XXH3-64 (seed 0) of the UTF-8 of any other text.
 * @throws PM_KV_TOO_LONG when the id has more than 16 MiB.
 */
export function multimodalHash(id: string): U64 {
  if (!isDigestId(id)) return hasher.hashBytes(encoder.encode(id), ID_SEED);
  return { lo: Number.parseInt(id.slice(8, 16), 16), hi: Number.parseInt(id.slice(0, 8), 16) };
}

/** The token that stands for an item in place of its placeholders: 1,000,000 and the low 30 bits of its hash. */
export function padValue(hash: U64): number {
  return PAD_BASE + (hash.lo & PAD_MASK);
}

/**
 * A block's tokens with each run of the placeholder replaced by its item's pad value. Runs belong to the items in order; runs
 * beyond the last item are the last item's.
 */
export function withPadValues(tokens: Uint32Array, placeholder: number, items: HashPairs): Uint32Array {
  const padded = tokens.slice();
  let item = -1;
  for (let at = 0; at < tokens.length; at += 1) {
    if (tokens[at] !== placeholder) continue;
    if ((at === 0 || tokens[at - 1] !== placeholder) && 2 * (item + 2) <= items.length) item += 1;
    padded[at] = padValue({ lo: items[2 * item]!, hi: items[2 * item + 1]! });
  }
  return padded;
}

/** The items of a block as the local hash takes them: ascending as unsigned 64-bit numbers, each once. */
export function sortedItems(items: HashPairs): HashPairs {
  const order: U64[] = [];
  for (let at = 0; at < items.length; at += 2) order.push({ lo: items[at]!, hi: items[at + 1]! });
  order.sort((a, b) => a.hi - b.hi || a.lo - b.lo);
  const sorted = order.filter(
    ({ lo, hi }, i) => i === 0 || order[i - 1]!.lo !== lo || order[i - 1]!.hi !== hi,
  );
  return Uint32Array.from(sorted.flatMap(({ lo, hi }) => [lo, hi]));
}
