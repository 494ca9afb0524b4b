// Size of a hint payload as JSON text, without writing it: payloads may hold thousands of hashes.
import type { HintJson } from '../plugin/index.ts';

/** Bytes of a value as JSON without spaces; texts that need escapes count per UTF-8 byte of their escaped form. */
export function jsonBytes(value: HintJson | undefined): number {
  if (value === undefined) return 0;
  if (value instanceof BigUint64Array) return hashesBytes(value);
  if (typeof value === 'bigint') return String(value).length;
  if (typeof value !== 'object' || value === null) return Buffer.byteLength(JSON.stringify(value));
  if (isList(value))
    return 2 + value.reduce<number>((sum, item) => sum + jsonBytes(item), 0) + Math.max(0, value.length - 1);
  const members = Object.entries(value).filter(([, item]) => item !== undefined);
  return (
    2 +
    Math.max(0, members.length - 1) +
    members.reduce(
      (sum, [name, item]) => sum + Buffer.byteLength(JSON.stringify(name)) + 1 + jsonBytes(item),
      0,
    )
  );
}

function isList(value: HintJson): value is readonly HintJson[] {
  return Array.isArray(value);
}

/** Powers of ten up to the longest u64, as (high, low) halves. */
const POWERS = Array.from({ length: 19 }, (_, index) => {
  const power = BigInt(`1${'0'.repeat(index + 1)}`);
  return { high: Number(power >> 32n), low: Number(power & 0xffffffffn) };
});

/** Digits are counted on 32-bit halves, so that no bigint is made per hash. */
function hashesBytes(hashes: BigUint64Array): number {
  const words = new Uint32Array(hashes.buffer, hashes.byteOffset, hashes.length * 2);
  let bytes = 2 + Math.max(0, hashes.length - 1);
  for (let index = 0; index < hashes.length; index += 1) {
    const low = words[2 * index] ?? 0;
    const high = words[2 * index + 1] ?? 0;
    let digits = 20;
    while (digits > 1) {
      const power = POWERS[digits - 2];
      if (power === undefined || high > power.high || (high === power.high && low >= power.low)) break;
      digits -= 1;
    }
    bytes += digits;
  }
  return bytes;
}
