// Preferred taints: how much a worker's labels make it dearer or cheaper for one request.

/**
 * Cost multiplier exp(−tanh(Σ weights of the preferred taints that the worker carries)), within [1/e, e]; 1 when it carries
 * none. Weights are rounded to 32-bit floats first, as the Rust router holds them.
 */
export function taintMultiplier(carried: readonly string[], preferred: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const taint of carried) sum += Math.fround(preferred.get(taint) ?? 0);
  return Math.exp(-Math.tanh(sum));
}
