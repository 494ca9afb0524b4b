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

/** Rows per turn of the loop. */
const TURN: i32 = 8;

/** Blocks on the device tier only, no taints. `device` is the byte offset of the column that counts, `least` the lowest cost before. */
export function deviceTimes(columns: usize, stride: usize, device: usize, count: i32, terms: usize, least: f64): i32 {
  return times(false, columns, stride, device, count, terms, least);
}

/** The same with blocks on the host tier, and taints. */
export function hostTimes(columns: usize, stride: usize, device: usize, count: i32, terms: usize, least: f64): i32 {
  return times(true, columns, stride, device, count, terms, least);
}

/**
 * Writes the costs. The answer is row × 4, row −1 where no cost is a number below `least`, + 2 when a row equalled the lowest of those
 * before it, + 1 when all costs are finite and their sum does not overflow.
 */
@inline
function times(more: bool, columns: usize, stride: usize, device: usize, count: i32, terms: usize, least: f64): i32 {
  const full = v128.load64_splat(terms);
  const floor = v128.load64_splat(terms, 8);
  const block = v128.load64_splat(terms, 16);
  const pairs = v128.load64_splat(terms, 24);
  const token = v128.load64_splat(terms, 32);
  const attention = v128.load64_splat(terms, 40);
  const prefill = v128.load64_splat(terms, 48);
  const decodes = v128.load64_splat(terms, 56);
  const waits = v128.load64_splat(terms, 104);
  const late = v128.load64_splat(terms, 112);
  const target = v128.load64_splat(terms, 120);
  const room = v128.load64_splat(terms, 64);
  const idle = v128.load64_splat(terms, 72);
  const slope = v128.load64_splat(terms, 80);
  const bend = v128.load64_splat(terms, 88);
  const read = v128.load64_splat(terms, 96);
  const costs = stride * COSTS;
  let leasts = f64x2.splat(least);
  let leastRow = -1;
  let tied = 0;
  let sums = f64x2.splat(0);
  let at = columns;
  let row = 0;
  for (; row + TURN <= count; row += TURN) {
    const a = pair(more, at, stride, device, full, floor, block, pairs, token, attention, prefill, decodes, waits, late, target, room, idle, slope, bend, read);
    v128.store(at + costs, a);
    const b = pair(more, at + 16, stride, device, full, floor, block, pairs, token, attention, prefill, decodes, waits, late, target, room, idle, slope, bend, read);
    v128.store(at + costs, b, 16);
    const c = pair(more, at + 32, stride, device, full, floor, block, pairs, token, attention, prefill, decodes, waits, late, target, room, idle, slope, bend, read);
    v128.store(at + costs, c, 32);
    const d = pair(more, at + 48, stride, device, full, floor, block, pairs, token, attention, prefill, decodes, waits, late, target, room, idle, slope, bend, read);
    v128.store(at + costs, d, 48);
    sums = f64x2.add(sums, f64x2.add(f64x2.add(a, b), f64x2.add(c, d)));
    // As in wasm/scan.ts: only a turn with something as low as what was seen, or no number, is gone through row by row.
    const above = v128.and(
      v128.and(f64x2.gt(a, leasts), f64x2.gt(b, leasts)),
      v128.and(f64x2.gt(c, leasts), f64x2.gt(d, leasts)),
    );
    if (i64x2.bitmask(above) == 3) {
      at += 8 * TURN;
      continue;
    }
    const equal = v128.and(
      v128.and(f64x2.ge(a, leasts), f64x2.ge(b, leasts)),
      v128.and(f64x2.ge(c, leasts), f64x2.ge(d, leasts)),
    );
    if (i64x2.bitmask(equal) == 3) tied = 2;
    else {
      for (let next = 0; next < TURN; next++) {
        const cost = load<f64>(at + costs + ((next as usize) << 3));
        if (cost < least) {
          least = cost;
          leastRow = row + next;
        } else if (cost == least) tied = 2;
      }
      leasts = f64x2.splat(least);
    }
    at += 8 * TURN;
  }
  let sum = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (; row < count; row += 2) {
    const last = pair(more, at, stride, device, full, floor, block, pairs, token, attention, prefill, decodes, waits, late, target, room, idle, slope, bend, read);
    v128.store(at + costs, last);
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

/** The costs of the rows at `at` and behind it. `pmax(a, b)` is `a < b ? b : a` and `pmin(a, b)` `b < a ? b : a`. */
@inline
function pair(
  more: bool,
  at: usize,
  stride: usize,
  device: usize,
  full: v128,
  floor: v128,
  block: v128,
  pairs: v128,
  token: v128,
  attention: v128,
  prefill: v128,
  decodes: v128,
  waits: v128,
  late: v128,
  target: v128,
  room: v128,
  idle: v128,
  slope: v128,
  bend: v128,
  read: v128,
): v128 {
  const zero = f64x2.splat(0);
  const onDevice = v128.load(at + device);
  const held = f64x2.pmax(v128.load(at + stride * IN_FLIGHT_BLOCKS), onDevice);
  const sum = f64x2.add(
    f64x2.mul(token, v128.load(at + stride * PREFILL_TOKENS)),
    f64x2.mul(attention, v128.load(at + stride * PREFILL_ATTENTION)),
  );
  const waiting = v128.load(at + stride * PREFILL_REQUESTS);
  const mean = f64x2.div(sum, waiting);
  const done = f64x2.pmin(v128.load(at + stride * PREFILL_FRONT_MS), mean);
  const queue = f64x2.pmax(f64x2.sub(sum, done), zero);
  const weight = f64x2.add(
    f64x2.add(prefill, f64x2.mul(decodes, v128.load(at + stride * DECODE_REQUESTS))),
    f64x2.mul(waits, waiting),
  );
  let time = weighed(queue, computing(held, full, floor, block, pairs), weight, late, target);
  if (more) {
    const reached = f64x2.pmax(held, f64x2.add(onDevice, v128.load(at + stride * HOST_BLOCKS)));
    const fetched = f64x2.pmax(f64x2.mul(f64x2.sub(reached, held), read), queue);
    const other = weighed(fetched, computing(reached, full, floor, block, pairs), weight, late, target);
    time = f64x2.pmin(time, other);
  }
  const booked = f64x2.pmin(v128.load(at + stride * BOOKED_PROMPT_TOKENS), room);
  const decode = f64x2.add(idle, f64x2.mul(booked, f64x2.sub(slope, f64x2.mul(bend, booked))));
  const cost = f64x2.add(time, decode);
  return more ? f64x2.mul(cost, v128.load(at + stride * PREFERRED_TAINT_MULTIPLIER)) : cost;
}

/** A wait and the computing behind it, weighed, and what of both is late. */
@inline
function weighed(wait: v128, computing: v128, weight: v128, late: v128, target: v128): v128 {
  const over = f64x2.pmax(f64x2.sub(f64x2.add(wait, computing), target), f64x2.splat(0));
  return f64x2.add(f64x2.add(wait, f64x2.mul(weight, computing)), f64x2.mul(late, over));
}

/** Ms to compute the prompt after so many blocks of it. */
@inline
function computing(blocks: v128, full: v128, floor: v128, block: v128, pairs: v128): v128 {
  return f64x2.pmax(f64x2.sub(full, f64x2.mul(blocks, f64x2.add(block, f64x2.mul(pairs, blocks)))), floor);
}
