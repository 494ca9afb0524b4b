// The scan of the default cost over candidate columns, two candidates per vector: all costs and the cheapest row in one pass.
// The same operations in the same order as the plain loops of src/host, so the numbers are theirs to the
// last bit. Columns lie one `stride` after the other, in the order below, each with room for 8 rows more than are asked for.

export { drawnRow, softmax } from './softmax';
export { deviceTimes, hostTimes, roomyDeviceTimes } from './time';

const CACHED_TOKENS: usize = 0;
const ACTIVE_PREFILL_TOKENS: usize = 1;
const DECODE_COST_BLOCKS: usize = 2;
const COSTS: usize = 3;
const HOST_BLOCKS: usize = 4;
const DISK_BLOCKS: usize = 5;
const LOAD_AVAILABLE: usize = 6;
const ACTIVE_REQUESTS: usize = 7;
const PREFERRED_TAINT_MULTIPLIER: usize = 8;
const IN_FLIGHT_BLOCKS: usize = 11;

/** Rows per turn of the loop. */
const TURN: i32 = 8;

/** Blocks on the device tier only, loads known, neither requests nor taints. `device` is the byte offset of the column that counts. */
export function deviceCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
): i32 {
  return scan(false, false, false, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale, 0, 0, 0, 0, 1);
}

/** The same with blocks on all tiers, loads that may be unknown, requests and taints. */
export function tierCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
  hostWeight: f64,
  diskWeight: f64,
  requestWeight: f64,
): i32 {
  return scan(
    true, false, false, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale,
    hostWeight, diskWeight, requestWeight, 0, 1,
  );
}

/** `deviceCosts` with blocks in flight counted as cached on the device. */
export function flyingDeviceCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
): i32 {
  return scan(
    false, false, true, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale, 0, 0, 0, 0, 1,
  );
}

/** `tierCosts` with blocks in flight counted as cached on the device. */
export function flyingTierCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
  hostWeight: f64,
  diskWeight: f64,
  requestWeight: f64,
): i32 {
  return scan(
    true, false, true, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale,
    hostWeight, diskWeight, requestWeight, 0, 1,
  );
}

/** `deviceCosts` with a credit that decays by the prefill load beyond the least. */
export function decayedDeviceCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
  decayWeight: f64,
  requestBlocks: f64,
): i32 {
  return scan(
    false, true, false, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale,
    0, 0, 0, decayWeight, requestBlocks,
  );
}

/** `tierCosts` with a credit that decays by the prefill load beyond the least. */
export function decayedTierCosts(
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
  hostWeight: f64,
  diskWeight: f64,
  requestWeight: f64,
  decayWeight: f64,
  requestBlocks: f64,
): i32 {
  return scan(
    true, true, false, columns, stride, device, count, promptTokens, blockSize, creditWeight, prefillScale,
    hostWeight, diskWeight, requestWeight, decayWeight, requestBlocks,
  );
}

/**
 * Writes the costs. The answer is row × 4, row −1 where no cost is a number below infinity, + 2 when a row equalled the lowest of those
 * before it, + 1 when all costs are finite and their sum does not overflow.
 */
@inline
function scan(
  tiers: bool,
  decays: bool,
  flying: bool,
  columns: usize,
  stride: usize,
  device: usize,
  count: i32,
  promptTokens: f64,
  blockSize: f64,
  creditWeight: f64,
  prefillScale: f64,
  hostWeight: f64,
  diskWeight: f64,
  requestWeight: f64,
  decayWeight: f64,
  requestBlocks: f64,
): i32 {
  const prompt = f64x2.splat(promptTokens);
  const size = f64x2.splat(blockSize);
  const credit = f64x2.splat(creditWeight);
  const scale = f64x2.splat(prefillScale);
  const host = f64x2.splat(hostWeight);
  const disk = f64x2.splat(diskWeight);
  const requests = f64x2.splat(requestWeight);
  const decay = f64x2.splat(decayWeight);
  const asked = f64x2.splat(requestBlocks);
  const idlest = f64x2.splat(decays ? leastOf(columns + stride * ACTIVE_PREFILL_TOKENS, count) : 0);
  const costs = stride * COSTS;
  let least = Infinity;
  let leasts = f64x2.splat(Infinity);
  let leastRow = -1;
  let tied = 0;
  let sums = f64x2.splat(0);
  let more = f64x2.splat(0);
  let at = columns;
  let row = 0;
  for (; row + TURN <= count; row += TURN) {
    const a = pair(tiers, decays, flying, at, stride, device, prompt, size, credit, scale, host, disk, requests, decay, asked, idlest);
    const b = pair(tiers, decays, flying, at + 16, stride, device, prompt, size, credit, scale, host, disk, requests, decay, asked, idlest);
    const c = pair(tiers, decays, flying, at + 32, stride, device, prompt, size, credit, scale, host, disk, requests, decay, asked, idlest);
    const d = pair(tiers, decays, flying, at + 48, stride, device, prompt, size, credit, scale, host, disk, requests, decay, asked, idlest);
    v128.store(at + costs, a);
    v128.store(at + costs, b, 16);
    v128.store(at + costs, c, 32);
    v128.store(at + costs, d, 48);
    sums = f64x2.add(sums, f64x2.add(a, b));
    more = f64x2.add(more, f64x2.add(c, d));
    // Most turns hold nothing as low as what was seen, in an idle fleet nothing lower. One that does is gone through row by row, as the
    // plain loop would; so is one with a cost that is no number.
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
  sums = f64x2.add(sums, more);
  let sum = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (; row < count; row += 2) {
    const last = pair(tiers, decays, flying, at, stride, device, prompt, size, credit, scale, host, disk, requests, decay, asked, idlest);
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

/** The costs of the rows at `at` and behind it. `pmax(a, b)` is `a < b ? b : a`, as the plain loops say it. */
@inline
function pair(
  tiers: bool,
  decays: bool,
  flying: bool,
  at: usize,
  stride: usize,
  device: usize,
  prompt: v128,
  size: v128,
  creditWeight: v128,
  prefillScale: v128,
  hostWeight: v128,
  diskWeight: v128,
  requestWeight: v128,
  decayWeight: v128,
  requestBlocks: v128,
  idlest: v128,
): v128 {
  const active = v128.load(at + stride * ACTIVE_PREFILL_TOKENS);
  let weight = creditWeight;
  if (decays) {
    const queued = f64x2.mul(decayWeight, f64x2.div(f64x2.sub(active, idlest), size));
    const one = f64x2.splat(1);
    weight = f64x2.mul(creditWeight, f64x2.div(one, f64x2.add(one, f64x2.div(queued, requestBlocks))));
  }
  const onDevice = v128.load(at + device);
  const held = flying ? f64x2.pmax(v128.load(at + stride * IN_FLIGHT_BLOCKS), onDevice) : onDevice;
  let credit = f64x2.mul(weight, held);
  let tokens = f64x2.add(active, f64x2.pmax(v128.load(at + stride * CACHED_TOKENS), prompt));
  if (tiers) {
    let beyond = v128.load(at + stride * HOST_BLOCKS);
    if (flying) beyond = f64x2.pmax(f64x2.sub(f64x2.add(onDevice, beyond), held), f64x2.splat(0));
    const onHost = f64x2.mul(hostWeight, beyond);
    const onDisk = f64x2.mul(diskWeight, v128.load(at + stride * DISK_BLOCKS));
    credit = f64x2.add(f64x2.add(credit, onHost), onDisk);
    const known = f64x2.gt(v128.load(at + stride * LOAD_AVAILABLE), f64x2.splat(0));
    tokens = v128.bitselect(tokens, prompt, known);
  }
  const left = f64x2.pmax(f64x2.sub(f64x2.div(tokens, size), credit), f64x2.splat(0));
  let cost = f64x2.add(f64x2.mul(prefillScale, left), v128.load(at + stride * DECODE_COST_BLOCKS));
  if (tiers) {
    cost = f64x2.add(cost, f64x2.mul(requestWeight, v128.load(at + stride * ACTIVE_REQUESTS)));
    cost = f64x2.mul(cost, v128.load(at + stride * PREFERRED_TAINT_MULTIPLIER));
  }
  return cost;
}

/** The least of `count` ≥ 1 numbers. */
function leastOf(column: usize, count: i32): f64 {
  let leasts = v128.load64_splat(column);
  let row = 0;
  for (; row + 4 <= count; row += 4) {
    const further = f64x2.pmin(v128.load(column), v128.load(column, 16));
    leasts = f64x2.pmin(leasts, further);
    column += 32;
  }
  let least = Math.min(f64x2.extract_lane(leasts, 0), f64x2.extract_lane(leasts, 1));
  for (; row < count; row++) {
    least = Math.min(least, load<f64>(column));
    column += 8;
  }
  return least;
}
