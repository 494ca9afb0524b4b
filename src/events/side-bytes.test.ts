// What is kept of events beside the index shows as bytes, and they are those of the process.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../observe/index.ts';
import { bench, removed, stored } from './applier.fixtures.ts';
import { HashMarks } from './hash-marks.ts';
import { PageTable } from './page-table.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Bytes of all array buffers of the process. */
function held(): number {
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}

const NOTHING = { complete() {}, broken() {} };

describe('bytes kept beside the index', () => {
  it('are those of the array buffers of the process: marks', () => {
    const list = Uint32Array.from({ length: 400_000 }, (_, at) => Math.imul(at + 1, 0x9e3779b1));
    const before = held();
    const marks = new HashMarks(1_000_000, { bytes: 0, maxBytes: 1 << 30 });
    marks.salt(list, 'tenant');
    expect(marks.size).toBe(200_000);
    expect(Math.abs(held() - before - marks.bytes)).toBeLessThan(marks.bytes * 0.02 + 100_000);
    expect(marks.bytes).toBeGreaterThan(2_000_000);
    // Beyond what a mark is reckoned with, no table holds.
    expect(marks.bytes).toBeLessThan(40 * marks.size + 1000);
    expect(list).toHaveLength(400_000);
  });

  it('are those of the array buffers of the process: pages', () => {
    const tokens = new Uint32Array(100_000);
    const before = held();
    const budget = { pages: 0, maxPages: 1_000_000 };
    const pages = new PageTable(4, 16, false, 1_000_000, budget);
    for (let page = 0; page < 100_000; page += 1) {
      pages.store('device', null, { lo: page, hi: 1 }, tokens, page >> 2, null, NOTHING);
    }
    expect(pages.size).toBe(100_000);
    expect(Math.abs(held() - before - pages.bytes)).toBeLessThan(pages.bytes * 0.02 + 100_000);
    expect(pages.bytes).toBeGreaterThan(2_000_000);
    expect(tokens).toHaveLength(100_000);
  });

  it('are a gauge by part, and go with what they are kept for', async () => {
    const metrics = createMetrics();
    const { applier, send } = bench({ metrics, blockSizeOf: () => 4 });
    const bytes = async (part: string): Promise<number> =>
      Number(
        new RegExp(`pointsman_kv_side_bytes\\{part="${part}"\\} (\\d+)`).exec(await metrics.text())?.[1],
      );
    const all = async () => Promise.all(['marks', 'pages', 'orphans'].map(bytes));
    expect(await all()).toEqual([0, 0, 0]);
    const of = { blockSize: 4 };
    send(2, stored([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], { blockSize: 1 }));
    expect(await bytes('pages')).toBeGreaterThan(0);
    send(1, stored([1], [1, 2, 3, 4], of));
    const tables = await all();
    send(1, stored([2], [5, 6, 7, 8], { ...of, cacheSalt: 'tenant' }));
    expect((await bytes('marks')) - (tables[0] ?? 0)).toBe(160 + 2 * 'tenant'.length);
    send(1, stored([9], [1, 2, 3, 4], { ...of, after: 8 }));
    expect((await bytes('orphans')) - (tables[2] ?? 0)).toBeGreaterThan(768);
    send(1, removed([9]), removed([2]));
    expect(await bytes('marks')).toBe(tables[0]);
    // The lists of its two tables stay.
    expect((await bytes('orphans')) - (tables[2] ?? 0)).toBeLessThan(100);
    for (const owner of [1, 2]) applier.forget(owner);
    expect(await all()).toEqual([0, 0, 0]);
  });
});
