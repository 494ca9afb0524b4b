// Where a worker stands, as labels that requests can require or prefer like any other.

/** A taint `dynamo.topology/<domain>=<value>` for each domain of a topology, the form of the Rust router. */
export function topologyTaints(topology: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(topology).map(([domain, value]) => `dynamo.topology/${domain}=${value}`);
}
