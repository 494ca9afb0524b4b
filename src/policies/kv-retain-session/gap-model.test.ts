import { describe, expect, it } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { GapModel, normalQuantile } from './gap-model.ts';

describe('normalQuantile', () => {
  it.each([
    [0.5, 0],
    [0.8, 0.8416],
    [0.9, 1.2816],
    [0.975, 1.96],
    [0.1, -1.2816],
  ])('is at %d about %d', (share, expected) => {
    expect(Math.abs(normalQuantile(share) - expected)).toBeLessThan(1e-3);
  });
});

describe('GapModel', () => {
  it('finds the quantiles of log-normal gaps again, each kind by itself', () => {
    const rng = seededRng(7);
    const model = new GapModel();
    const normal = () => Math.sqrt(-2 * Math.log(1 - rng.next())) * Math.cos(2 * Math.PI * rng.next());
    for (let turn = 0; turn < 4000; turn += 1) {
      model.learn('tool', Math.exp(8 + 0.5 * normal()));
      model.learn('user', Math.exp(10 + normal()));
    }
    for (const [kind, mean, deviation] of [
      ['tool', 8, 0.5],
      ['user', 10, 1],
    ] as const) {
      const expected = Math.exp(mean + 1.2816 * deviation);
      expect(model.quantile(kind, 0.9, 1)! / expected).toBeGreaterThan(0.85);
      expect(model.quantile(kind, 0.9, 1)! / expected).toBeLessThan(1.18);
    }
  });

  it('follows when gaps change, and says nothing before it has seen enough', () => {
    const model = new GapModel();
    for (let turn = 0; turn < 15; turn += 1) model.learn('tool', 1000);
    expect(model.quantile('tool', 0.9, 16)).toBeNull();
    model.learn('tool', 1000);
    expect(model.quantile('tool', 0.9, 16)).toBeCloseTo(1000, 6);
    for (let turn = 0; turn < 20_000; turn += 1) model.learn('tool', 60_000);
    expect(model.quantile('tool', 0.5, 16)! / 60_000).toBeCloseTo(1, 3);
    expect(model.quantile('other', 0.5, 1)).toBeNull();
  });
});
