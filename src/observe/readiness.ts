// Whether the router can serve, and what works worse than configured: the one answer of `/ready` on every port.

/** What stands in the way of serving, and what works worse than configured, each in one sentence. */
export interface Readiness {
  /** Not ready while there is one. */
  readonly reasons: readonly string[];
  /** Worth knowing, but requests are served. */
  readonly warnings: readonly string[];
}

/** The answer of `GET /ready`: status 200 or 503, and the sentences. */
export function readyAnswer({ reasons, warnings }: Readiness): { status: number; body: object } {
  const ready = reasons.length === 0;
  return { status: ready ? 200 : 503, body: { status: ready ? 'ready' : 'not_ready', reasons, warnings } };
}
