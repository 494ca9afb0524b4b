// What the contract will say of parts that are not built yet: told on its page, held by nothing.

/** One line each. */
export const LATER: readonly string[] = [
  'Reservations by replay of a committed copy that cannot be sent under `release`: 409; they are booked without the copy.',
  'Requests to an explicit worker outside of the KV path: their hints come with the session and without copy data.',
  'A shared cache pool: the column `sharedHits`, and copies from cache owners that are no workers.',
  'Migrations of a request, each a new booking with the overrides of its one classification.',
  'Lineage queries from a thread beyond `uniqueBlocks` and `exclusiveBlocks` of the request’s own session on the booked worker.',
  'Replay against a live URL, which will refuse listed hints.',
];
