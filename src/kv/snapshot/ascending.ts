// Sorts numbers in steps, so that millions of them hold nobody up: a radix sort, which knows beforehand how much work is left.

const DIGIT_BITS = 16;
const DIGITS = 1 << DIGIT_BITS;

/**
 * The numbers of the elements of `keys` by ascending key, equal ones in their order. Between two steps the caller may do something
 * else, as long as it leaves the keys alone.
 * @param perStep elements of a step, ≥ 1.
 */
export function* ascending(keys: Uint32Array, perStep: number): Generator<void, Uint32Array> {
  let from = Uint32Array.from(keys.keys());
  let to = new Uint32Array(keys.length);
  const places = new Uint32Array(DIGITS + 1);
  for (const shift of [0, DIGIT_BITS]) {
    places.fill(0);
    for (let at = 0; at < keys.length; at++) {
      if (at % perStep === perStep - 1) yield;
      places[((keys[at]! >>> shift) & (DIGITS - 1)) + 1]!++;
    }
    for (let digit = 0; digit < DIGITS; digit++) places[digit + 1]! += places[digit]!;
    for (let at = 0; at < from.length; at++) {
      if (at % perStep === perStep - 1) yield;
      const element = from[at]!;
      to[places[(keys[element]! >>> shift) & (DIGITS - 1)]!++] = element;
    }
    [from, to] = [to, from];
  }
  return from;
}
