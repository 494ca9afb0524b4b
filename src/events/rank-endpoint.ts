// Where the other ranks of an engine publish, when only the place of rank 0 is known: every rank has a publisher of its own, and
// engines (vLLM, SGLang) derive its address from the one they were given.

const MAX_PORT = 65_535;

/**
 * The address of a rank: `tcp://host:P` becomes `tcp://host:(P + rank)`, `inproc://name` becomes `inproc://name_dp<rank>`; that
 * of rank 0 is the given one. Null when the address has no such form, or its port would be none.
 */
export function rankEndpoint(address: string, rank: number): string | null {
  if (rank === 0) return address;
  if (address.startsWith('inproc://')) return `${address}_dp${rank}`;
  const match = /^(tcp:\/\/.+:)(\d{1,5})$/.exec(address);
  if (match === null) return null;
  const port = Number(match[2]) + rank;
  return port > MAX_PORT ? null : `${match[1]}${port}`;
}
