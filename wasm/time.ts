// The scan of the cost in time over candidate columns, two candidates per vector: all costs and the cheapest row in one pass. The same
// operations in the same order as the plain loop of src/host/time-rows.ts, so the numbers are its to the last bit. What a decision has in
// common for all rows comes as terms, in the order below; columns lie as wasm/scan.ts says.

const COSTS: usize = 3;
const HOST_BLOCKS: usize = 4;
const PREFERRED_TAINT_MULTIPLIER: usize = 8;
const IN_FLIGHT_BLOCKS: usize = 11;
const PREFILL_REQUESTS: usize = 12;
const PREFILL_TOKENS: usize = 13;
const PREFILL_ATTENTION: usize = 14;
const PREFILL_FRONT_MS: usize = 15;
const DECODE_REQUESTS: usize = 16;
const BOOKED_PROMPT_TOKENS: usize = 17;
const PREFILL_BEHIND: usize = 18;
const CACHE_PRESSURE: usize = 19;

/** The pairs of rows of a turn, as large as what lies before each: in a function only of a type is that a constant. */
class First {}
class Second extends First {
  x: f64;
  y: f64;
}
class Third extends Second {
  z: f64;
  w: f64;
}
class Fourth extends Third {
  u: f64;
  v: f64;
}
class Fifth extends Fourth {
  s: f64;
  t: f64;
}
class Sixth extends Fifth {
  q: f64;
  r: f64;
}
class Seventh extends Sixth {
  o: f64;
  p: f64;
}
class Eighth extends Seventh {
  m: f64;
  n: f64;
}

/** Rows per turn of a loop: finding addresses, comparing and going back are once for all of them. */
const TURN: i32 = 16;
/** Turns of the first loop before the second catches up: what one writes the other reads while it is near. */
const CHUNK: i32 = 8;

/**
 * Blocks on the device tier only, no taints. `device` is the byte offset of the column that counts, `least` the lowest cost before,
 * `scratch` room for as many numbers as there are rows.
 *
 * What all rows share does not fit into the registers, nor do the addresses of so many columns: one loop would fetch them again for every
 * row. Hence two of them: the wait and the computing, and what these and decoding cost.
 */
export function deviceTimes(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  terms: usize,
  least: f64,
  scratch: usize,
): i32 {
  return deviceRows(true, columns, stride, device, count, terms, least, scratch);
}

/** The same where the pool of no row is more than full. */
export function roomyDeviceTimes(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  terms: usize,
  least: f64,
  scratch: usize,
): i32 {
  return deviceRows(false, columns, stride, device, count, terms, least, scratch);
}

/**
 * Writes the costs. The answer is row × 4, row −1 where no cost is a number below `least`, + 2 when a row equalled the lowest of those
 * before it, + 1 when all costs are finite and their sum does not overflow.
 */
@inline
function deviceRows(
  fills: bool,
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  terms: usize,
  least: f64,
  scratch: usize,
): i32 {
  const full = v128.load64_splat(terms);
  const floor = v128.load64_splat(terms, 8);
  const block = v128.load64_splat(terms, 16);
  const pairs = v128.load64_splat(terms, 24);
  const token = v128.load64_splat(terms, 32);
  const attention = v128.load64_splat(terms, 40);
  const prefill = v128.load64_splat(terms, 48);
  const decodes = v128.load64_splat(terms, 56);
  const room = v128.load64_splat(terms, 64);
  const idle = v128.load64_splat(terms, 72);
  const slope = v128.load64_splat(terms, 80);
  const bend = v128.load64_splat(terms, 88);
  const waits = v128.load64_splat(terms, 104);
  const late = v128.load64_splat(terms, 112);
  const early = v128.load64_splat(terms, 120);
  const crowds = v128.load64_splat(terms, 128);
  const inFlight = stride * IN_FLIGHT_BLOCKS;
  const tokens = stride * PREFILL_TOKENS;
  const squares = stride * PREFILL_ATTENTION;
  const front = stride * PREFILL_FRONT_MS;
  const behind = stride * PREFILL_BEHIND;
  const requests = stride * PREFILL_REQUESTS;
  const decoding = stride * DECODE_REQUESTS;
  const pressure = stride * CACHE_PRESSURE;
  const booked = stride * BOOKED_PROMPT_TOKENS;
  const costs = stride * COSTS;
  let leasts = f64x2.splat(least);
  let leastRow = -1;
  let tied = 0;
  let sums = f64x2.splat(0);
  let at = columns;
  let row = 0;
  while (row + TURN <= count) {
    const turns = min<i32>(CHUNK, (count - row) / TURN);
    let to = at;
    for (let turn = 0; turn < turns; turn++) {
      const into = scratch + ((turn as usize) << 7);
      const inFlightAt = to + inFlight;
      const deviceAt = to + device;
      const tokensAt = to + tokens;
      const squaresAt = to + squares;
      const frontAt = to + front;
      const behindAt = to + behind;
      const costsAt = to + costs;
      waitAndComputing<First>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Second>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Third>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Fourth>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Fifth>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Sixth>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Seventh>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      waitAndComputing<Eighth>(into, inFlightAt, deviceAt, tokensAt, squaresAt, frontAt, behindAt, costsAt, full, floor, block, pairs, token, attention);
      to += 8 * TURN;
    }
    for (let turn = 0; turn < turns; turn++) {
      const from = scratch + ((turn as usize) << 7);
      const requestsAt = at + requests;
      const decodingAt = at + decoding;
      const pressureAt = at + pressure;
      const bookedAt = at + booked;
      const costsAt = at + costs;
      let cost = allOfIt<First>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      let lowest = cost;
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Second>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Third>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Fourth>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Fifth>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      const first = lowest;
      lowest = cost;
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Sixth>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Seventh>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      cost = allOfIt<Eighth>(fills, from, requestsAt, decodingAt, pressureAt, bookedAt, costsAt, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
      lowest = f64x2.pmin(lowest, cost);
      sums = f64x2.add(sums, cost);
      // As in wasm/scan.ts: only a half turn with something as low as what was seen is gone through row by row. The lesser of a number and
      // what is none is the first of the two: one pair after the other, so that what is none never stands before a number but as the first.
      if ((i64x2.bitmask(f64x2.gt(first, leasts)) & i64x2.bitmask(f64x2.gt(lowest, leasts))) != 3) {
        if ((i64x2.bitmask(f64x2.ge(first, leasts)) & i64x2.bitmask(f64x2.ge(lowest, leasts))) == 3) tied = 2;
        else {
          let next = i64x2.bitmask(f64x2.gt(first, leasts)) != 3 ? 0 : TURN / 2;
          const end = i64x2.bitmask(f64x2.gt(lowest, leasts)) != 3 ? TURN : TURN / 2;
          for (; next < end; next++) {
            const one = load<f64>(at + costs + ((next as usize) << 3));
            if (one < least) {
              least = one;
              leastRow = row + next;
            } else if (one == least) tied = 2;
          }
          leasts = f64x2.splat(least);
        }
      }
      at += 8 * TURN;
      row += TURN;
    }
  }
  let sum = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (; row < count; row += 2) {
    waitAndComputing<First>(scratch, at + inFlight, at + device, at + tokens, at + squares, at + front, at + behind, at + costs, full, floor, block, pairs, token, attention);
    allOfIt<First>(fills, scratch, at + requests, at + decoding, at + pressure, at + booked, at + costs, prefill, decodes, waits, crowds, late, early, idle, room, slope, bend);
    for (let next = row; next < row + 2 && next < count; next++) {
      const cost = load<f64>(at + costs + (((next - row) as usize) << 3));
      sum += cost;
      if (cost < least) {
        least = cost;
        leastRow = next;
      } else if (cost == least) tied = 2;
    }
    at += 16;
  }
  return (leastRow << 2) | tied | (sum - sum == 0 ? 1 : 0);
}

/** Of two rows: the wait, to the costs, and the time to compute, to `into`. `pmax(a, b)` is `a < b ? b : a` and `pmin(a, b)` `b < a ? b : a`. */
@inline
function waitAndComputing<Pair>(
  into: usize,
  inFlight: usize,
  device: usize,
  tokens: usize,
  squares: usize,
  front: usize,
  behind: usize,
  costs: usize,
  full: v128,
  floor: v128,
  block: v128,
  pairs: v128,
  token: v128,
  attention: v128,
): void {
  const held = f64x2.pmax(v128.load(inFlight, offsetof<Pair>()), v128.load(device, offsetof<Pair>()));
  v128.store(into, computing(held, full, floor, block, pairs), offsetof<Pair>());
  const sum = f64x2.add(
    f64x2.mul(token, v128.load(tokens, offsetof<Pair>())),
    f64x2.mul(attention, v128.load(squares, offsetof<Pair>())),
  );
  const wait = f64x2.pmax(
    f64x2.sub(sum, v128.load(front, offsetof<Pair>())),
    f64x2.mul(sum, v128.load(behind, offsetof<Pair>())),
  );
  v128.store(costs, wait, offsetof<Pair>());
}

/** Of the same rows: the computing at `from`, weighed, what of the time to the first token is late, and decoding, added to the wait. */
@inline
function allOfIt<Pair>(
  fills: bool,
  from: usize,
  requests: usize,
  decoding: usize,
  pressure: usize,
  booked: usize,
  costs: usize,
  prefill: v128,
  decodes: v128,
  waits: v128,
  crowds: v128,
  late: v128,
  early: v128,
  idle: v128,
  room: v128,
  slope: v128,
  bend: v128,
): v128 {
  const own = v128.load(from, offsetof<Pair>());
  const wait = v128.load(costs, offsetof<Pair>());
  const weight = f64x2.add(
    f64x2.add(
      f64x2.add(prefill, f64x2.mul(decodes, v128.load(decoding, offsetof<Pair>()))),
      f64x2.mul(waits, v128.load(requests, offsetof<Pair>())),
    ),
    f64x2.mul(crowds, v128.load(pressure, offsetof<Pair>())),
  );
  const time = f64x2.add(
    f64x2.add(wait, f64x2.mul(weight, own)),
    lateness(f64x2.add(wait, own), late, early, idle),
  );
  let prompts = v128.load(booked, offsetof<Pair>());
  if (fills) prompts = f64x2.pmin(prompts, room);
  const cost = f64x2.add(time, f64x2.mul(prompts, f64x2.sub(slope, f64x2.mul(bend, prompts))));
  v128.store(costs, cost, offsetof<Pair>());
  return cost;
}

/** What a time to the first token costs for being late, and what decoding on an idle worker does. */
@inline
function lateness(first: v128, late: v128, early: v128, idle: v128): v128 {
  return f64x2.pmax(f64x2.sub(f64x2.mul(late, first), early), idle);
}

/** Ms to compute the prompt after so many blocks of it. */
@inline
function computing(blocks: v128, full: v128, floor: v128, block: v128, pairs: v128): v128 {
  return f64x2.pmax(f64x2.sub(full, f64x2.mul(blocks, f64x2.add(block, f64x2.mul(pairs, blocks)))), floor);
}

/** The same with blocks on the host tier, and taints, in one loop: there each row has two ways to its first token, and the lesser counts. */
export function hostTimes(columns: usize, stride: usize, device: usize, count: i32, terms: usize, least: f64): i32 {
  const full = v128.load64_splat(terms);
  const floor = v128.load64_splat(terms, 8);
  const block = v128.load64_splat(terms, 16);
  const pairs = v128.load64_splat(terms, 24);
  const token = v128.load64_splat(terms, 32);
  const attention = v128.load64_splat(terms, 40);
  const prefill = v128.load64_splat(terms, 48);
  const decodes = v128.load64_splat(terms, 56);
  const room = v128.load64_splat(terms, 64);
  const idle = v128.load64_splat(terms, 72);
  const slope = v128.load64_splat(terms, 80);
  const bend = v128.load64_splat(terms, 88);
  const read = v128.load64_splat(terms, 96);
  const waits = v128.load64_splat(terms, 104);
  const late = v128.load64_splat(terms, 112);
  const early = v128.load64_splat(terms, 120);
  const crowds = v128.load64_splat(terms, 128);
  let leasts = f64x2.splat(least);
  let leastRow = -1;
  let tied = 0;
  let sum: f64 = 0;
  let at = columns;
  for (let row = 0; row < count; row += 2) {
    const onDevice = v128.load(at + device);
    const held = f64x2.pmax(v128.load(at + stride * IN_FLIGHT_BLOCKS), onDevice);
    const own = computing(held, full, floor, block, pairs);
    const waiting = f64x2.add(
      f64x2.mul(token, v128.load(at + stride * PREFILL_TOKENS)),
      f64x2.mul(attention, v128.load(at + stride * PREFILL_ATTENTION)),
    );
    const wait = f64x2.pmax(
      f64x2.sub(waiting, v128.load(at + stride * PREFILL_FRONT_MS)),
      f64x2.mul(waiting, v128.load(at + stride * PREFILL_BEHIND)),
    );
    const weight = f64x2.add(
      f64x2.add(
        f64x2.add(prefill, f64x2.mul(decodes, v128.load(at + stride * DECODE_REQUESTS))),
        f64x2.mul(waits, v128.load(at + stride * PREFILL_REQUESTS)),
      ),
      f64x2.mul(crowds, v128.load(at + stride * CACHE_PRESSURE)),
    );
    const alone = f64x2.add(
      f64x2.add(wait, f64x2.mul(weight, own)),
      lateness(f64x2.add(wait, own), late, early, idle),
    );
    const reached = f64x2.pmax(held, f64x2.add(onDevice, v128.load(at + stride * HOST_BLOCKS)));
    const rest = computing(reached, full, floor, block, pairs);
    const fetched = f64x2.pmax(f64x2.mul(f64x2.sub(reached, held), read), wait);
    const other = f64x2.add(
      f64x2.add(fetched, f64x2.mul(weight, rest)),
      lateness(f64x2.add(fetched, rest), late, early, idle),
    );
    const prompts = f64x2.pmin(v128.load(at + stride * BOOKED_PROMPT_TOKENS), room);
    const cost = f64x2.mul(
      f64x2.add(f64x2.pmin(alone, other), f64x2.mul(prompts, f64x2.sub(slope, f64x2.mul(bend, prompts)))),
      v128.load(at + stride * PREFERRED_TAINT_MULTIPLIER),
    );
    v128.store(at + stride * COSTS, cost);
    sum += f64x2.extract_lane(cost, 0);
    if (row + 1 < count) sum += f64x2.extract_lane(cost, 1);
    if (i64x2.bitmask(f64x2.gt(cost, leasts)) != 3) {
      for (let next = row; next < row + 2 && next < count; next++) {
        const one = load<f64>(at + stride * COSTS + (((next - row) as usize) << 3));
        if (one < least) {
          least = one;
          leastRow = next;
        } else if (one == least) tied = 2;
      }
      leasts = f64x2.splat(least);
    }
    at += 16;
  }
  return (leastRow << 2) | tied | (sum - sum == 0 ? 1 : 0);
}
