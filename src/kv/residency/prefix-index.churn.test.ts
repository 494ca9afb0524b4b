// A small churn under a cap; `npm run soak -- --index --churn` leads one of 5 × 10⁷ block events.
import { expect, test } from 'vitest';
import { churn } from './index-churn.fixtures.ts';

/** Milliseconds a churn may take where machines are slow and busy. */
const PATIENCE = 300_000;

test(
  'an index that churned for long holds as many bytes and finds as much as one built anew',
  () => {
    const maxBytes = 3_000_000;
    const { tenths, fresh } = churn({
      events: 800_000,
      maxBytes,
      workers: 8,
      sessions: 400,
      pool: 12_000,
      seed: 1,
    });
    const first = tenths[0]!;
    const last = tenths.at(-1)!;
    expect(last.evicted).toBeGreaterThan(200_000);
    // One segment of a table is 2 % of so small an index.
    expect(Math.abs(last.bytes / first.bytes - 1)).toBeLessThan(0.04);
    expect(last.bytes).toBeLessThan(maxBytes);
    // Of so small an index the reserve for tables is a large share, and churn uses it; in one of 64 MiB this is 0.998.
    expect(last.holdings / last.bytes).toBeGreaterThan((0.86 * fresh.holdings) / fresh.bytes);
    expect(last.hitRate / fresh.hitRate).toBeGreaterThan(0.98);
    expect(last.hitRate).toBeGreaterThan(0.5);
  },
  PATIENCE,
);
