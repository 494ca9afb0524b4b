// The default selection as it is written first in JavaScript, with what the published fixture gives: loads, overlaps and cached tokens
// in Maps by worker id.
import { BLOCK_SIZE, PROMPT_TOKENS } from './selection-fixture.ts';

interface WorkerLoad {
  readonly row: number;
  readonly eligible: boolean;
  readonly prefillTokens: number;
  readonly decodeBlocks: number;
}

/** Decides over the fixture, without allocating; answers the row of the chosen worker. */
export function mapOfObjects(workers: number): () => number {
  const ids = Array.from({ length: workers }, (_, i) => i);
  // What the fleet holds per worker, and what the index found for this request.
  const loads = new Map(
    ids.map((id): [number, WorkerLoad] => [
      id,
      { row: id, eligible: true, prefillTokens: 16 * id, decodeBlocks: id % 127 },
    ]),
  );
  const overlaps = new Map(ids.map((id) => [id, ((id % 32) * 64) / BLOCK_SIZE]));
  const cachedTokens = new Map(ids.map((id) => [id, (id % 32) * 64]));
  return () => {
    let lowest = Number.POSITIVE_INFINITY;
    let chosen = -1;
    let ties = 0;
    for (const [id, load] of loads) {
      if (!load.eligible) continue;
      const overlap = overlaps.get(id) ?? 0;
      const cached = cachedTokens.get(id) ?? 0;
      const tokens = load.prefillTokens + Math.max(PROMPT_TOKENS, cached);
      const cost = Math.max(0, tokens / BLOCK_SIZE - overlap) + load.decodeBlocks;
      if (cost < lowest) {
        lowest = cost;
        chosen = load.row;
        ties = 1;
      } else if (cost === lowest) {
        ties += 1;
        if (Math.random() * ties < 1) chosen = load.row;
      }
    }
    return chosen;
  };
}
