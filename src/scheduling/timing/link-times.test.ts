import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { LinkTimes } from './link-times.ts';

const TARGET = { workerId: 1n, rank: 0 };
const PEER = 'tcp://127.0.0.1:1';
const BLOCK_BYTES = 2_097_152;

/** A link on which a copy takes `latencyMs`, and its bytes at `gbps`. */
function copyOver({ gbps, latencyMs }: { gbps: number; latencyMs: number }, blocks: number, from = PEER) {
  const bytes = blocks * BLOCK_BYTES;
  const ms = latencyMs + (bytes * 8) / (gbps * 1e6);
  return { target: TARGET, controlEndpoint: from, blocks, bytes, ms };
}

function expectedMs(links: LinkTimes, blocks: number, from = PEER): number {
  const link = links.between(TARGET, from);
  return link === null ? Number.NaN : link.latencyMs + blocks * link.blockMs;
}

describe('the measured link', () => {
  it('is unknown until a copy is reported', () => {
    expect(new LinkTimes(() => 0).between(TARGET, PEER)).toBeNull();
  });

  it.each([
    { gbps: 3, latencyMs: 1 },
    { gbps: 24, latencyMs: 3 },
    { gbps: 100, latencyMs: 3 },
    { gbps: 1600, latencyMs: 0.2 },
  ])('is within a fifth after 100 copies, one in ten of which waited, at %o', (link) => {
    const links = new LinkTimes(() => 0);
    const rng = seededRng(3);
    for (let copy = 0; copy < 100; copy += 1) {
      const one = copyOver(link, 1 + rng.integer(64));
      links.observe({ ...one, ms: one.ms * (rng.integer(10) === 0 ? 1 + 5 * rng.next() : 1) });
    }
    for (const blocks of [4, 16, 64])
      expect(Math.abs(Math.log(expectedMs(links, blocks) / copyOver(link, blocks).ms))).toBeLessThan(0.2);
    expect(links.between(TARGET, PEER)?.confidence).toBeGreaterThan(0.6);
  });

  it('of all workers is that of the copies of any of them, and fades as any does', () => {
    let now = 0;
    const links = new LinkTimes(() => now);
    expect(links.overall()).toBeNull();
    const link = { gbps: 24, latencyMs: 3 };
    for (let copy = 0; copy < 60; copy += 1)
      links.observe({ ...copyOver(link, 1 + (copy % 16)), target: { workerId: BigInt(copy % 3), rank: 0 } });
    const first = links.overall();
    expect(links.overall()).toBe(first);
    const ms = (first?.latencyMs ?? 0) + 16 * (first?.blockMs ?? 0);
    expect(Math.abs(Math.log(ms / copyOver(link, 16).ms))).toBeLessThan(0.1);
    now = 60_000;
    expect(links.overall()?.confidence).toBeCloseTo((first?.confidence ?? 0) / 2, 9);
  });

  it('of all workers is that of workers of the model, whose blocks are of other sizes than others’', () => {
    const links = new LinkTimes(
      () => 0,
      ({ workerId }) => ['gone', 'small', 'large'][Number(workerId)] ?? null,
    );
    const copies = (workerId: bigint, blockBytes: number) => {
      for (let copy = 0; copy < 60; copy += 1) {
        const blocks = 1 + (copy % 16);
        const bytes = blocks * blockBytes;
        const told = { controlEndpoint: PEER, blocks, bytes, ms: 3 + (bytes * 8) / 24e6 };
        links.observe({ target: { workerId, rank: 0 }, ...told });
      }
    };
    copies(1n, BLOCK_BYTES);
    expect(links.overall('large')).toBeNull();
    const small = links.overall('small')?.blockMs ?? Number.NaN;
    copies(2n, 10 * BLOCK_BYTES);
    expect(links.overall('small')?.blockMs).toBe(small);
    expect((links.overall('large')?.blockMs ?? Number.NaN) / small).toBeGreaterThan(7);
  });

  it('of all workers is none where the only copy told of cannot have been one', () => {
    const links = new LinkTimes(() => 0);
    links.observe({ ...copyOver({ gbps: 24, latencyMs: 3 }, 8), ms: 1e12 });
    expect(links.overall()).toBeNull();
  });

  it('of all workers is kept for the 64 models that were measured last', () => {
    const links = new LinkTimes(
      () => 0,
      ({ workerId }) => String(workerId),
    );
    for (let workerId = 0n; workerId < 65n; workerId += 1n)
      links.observe({ ...copyOver({ gbps: 24, latencyMs: 3 }, 8), target: { workerId, rank: 0 } });
    expect(links.overall('0')).toBeNull();
    expect(links.overall('1')).not.toBeNull();
    expect(links.overall('64')).not.toBeNull();
  });

  it('of a source not copied from yet is that of the worker, and its own once a few copies came', () => {
    const links = new LinkTimes(() => 0);
    const [fast, slow] = [
      { gbps: 100, latencyMs: 1 },
      { gbps: 5, latencyMs: 1 },
    ];
    for (let copy = 0; copy < 50; copy += 1) links.observe(copyOver(fast, 1 + (copy % 16)));
    expect(expectedMs(links, 16, 'tcp://other')).toBe(expectedMs(links, 16));
    for (let copy = 0; copy < 50; copy += 1) links.observe(copyOver(slow, 1 + (copy % 16), 'tcp://other'));
    expect(expectedMs(links, 16, 'tcp://other') / expectedMs(links, 16)).toBeGreaterThan(10);
    expect(links.between({ workerId: 2n, rank: 0 }, PEER)).toBeNull();
  });

  it('fades while nothing is measured, and a clock set back makes it no surer', () => {
    let now = 1e6;
    const links = new LinkTimes(() => now);
    for (let copy = 0; copy < 50; copy += 1) links.observe(copyOver({ gbps: 100, latencyMs: 1 }, 8));
    const confidence = () => links.between(TARGET, PEER)?.confidence ?? Number.NaN;
    const sure = confidence();
    now += 60_000;
    expect(confidence()).toBeCloseTo(sure / 2, 9);
    now -= 3_600_000;
    expect(confidence()).toBe(sure);
  });

  it.each([
    { blocks: 0 },
    { blocks: Number.NaN },
    { bytes: 0 },
    { bytes: 2 ** 50 },
    { bytes: Number.NaN },
    { ms: 0 },
    { ms: -1 },
    { ms: Number.POSITIVE_INFINITY },
  ])('learns nothing from a copy with %o', (wrong) => {
    const links = new LinkTimes(() => 0);
    expect(links.observe({ ...copyOver({ gbps: 100, latencyMs: 1 }, 8), ...wrong })).toBe(false);
    expect(links.size).toBe(0);
  });

  it('is finite, positive and bounded whatever engines report, and finds back', () => {
    const number = fc.oneof(
      fc.double(),
      fc.constantFrom(0, 1, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e-300, 1e308, 2 ** 44),
      fc.nat(1_000_000),
    );
    const report = fc.record({ blocks: number, bytes: number, ms: number, from: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(report, { maxLength: 100 }), (reports) => {
        const links = new LinkTimes(() => 0);
        for (const { from, ...told } of reports) {
          const controlEndpoint = from === 0 ? PEER : `tcp://${from}`;
          links.observe({ target: TARGET, controlEndpoint, ...told });
          const link = links.between(TARGET, controlEndpoint);
          if (link === null) continue;
          expect(link.latencyMs).toBeGreaterThan(0);
          expect(link.latencyMs).toBeLessThanOrEqual(3 * 64 * 8);
          expect(link.blockMs).toBeGreaterThan(0);
          expect(Number.isFinite(link.blockMs)).toBe(true);
          expect(link.confidence).toBeGreaterThanOrEqual(0);
          expect(link.confidence).toBeLessThan(1);
        }
        const real = { gbps: 50, latencyMs: 2 };
        for (let copy = 0; copy < 1000; copy += 1) links.observe(copyOver(real, 1 + (copy % 32)));
        expect(Math.abs(Math.log(expectedMs(links, 16) / copyOver(real, 16).ms))).toBeLessThan(0.3);
      }),
      { numRuns: 60 },
    );
  });

  it('keeps the 4,096 links that were measured last', () => {
    const links = new LinkTimes(() => 0);
    for (let peer = 0; peer < 5000; peer += 1)
      links.observe(copyOver({ gbps: 100, latencyMs: 1 }, 8, `tcp://${peer}`));
    expect(links.size).toBe(4096);
    expect(links.between(TARGET, 'tcp://1')).toEqual(links.between(TARGET, 'tcp://never'));
  });
});
