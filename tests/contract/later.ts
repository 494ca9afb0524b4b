// What the contract will say of parts that are not built yet: told on its page, held by nothing.

/** One line each. */
export const LATER: readonly string[] = [
  'Reservations in two phases: that they run the hint stage when they book, look at captured sources again, and answer 409 when a committed copy under `release` cannot be sent.',
  'Requests to an explicit worker outside of the KV path: their hints come with the session and without copy data.',
  'A shared cache pool: the column `sharedHits`, and copies from cache owners that are no workers.',
  'Retries and migrations of a request, each a new booking with the overrides of its one classification.',
  'Lineage queries from a thread beyond `uniqueBlocks` and `exclusiveBlocks` of the request’s own session on the booked worker.',
  'Replay against a live URL, which will refuse listed hints.',
];
