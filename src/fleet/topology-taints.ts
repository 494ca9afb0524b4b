// Where a worker stands, as labels that requests can require or prefer like any other.

/** The taint of everybody at one place of a topology domain, as the Rust router names it. */
export function topologyTaint(domain: string, value: string): string {
  return `dynamo.topology/${domain}=${value}`;
}

/** A taint `dynamo.topology/<domain>=<value>` for each domain of a topology, the form of the Rust router. */
export function topologyTaints(topology: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(topology).map(([domain, value]) => topologyTaint(domain, value));
}
