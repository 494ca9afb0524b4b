// When output counts as load, and for how much.
import { describe, expect, it } from 'vitest';
import { prompt, REPORT, testRoad } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const tracked = () => testRoad({ tracksOutputBlocks: true });

describe('blocks of output', () => {
  it('count from where prompt and output reach into another block, at most one per item of the stream', async () => {
    const { arrive, transport, scheduler, expectIdle } = await tracked();
    arrive({ tokens: prompt(1, 70) });
    const blocks = (): number | undefined => scheduler.loads.activeDecodeBlocks[0];
    const { sink } = transport.last;
    sink.head(200, {}, []);
    // 70 tokens: 4 full blocks and the fifth begun, which is full with the tenth token of output.
    const seen = [1, 9, 1, 32, 1, 14, 1].map((count) => {
      sink.tokens(count);
      return blocks();
    });
    expect(seen).toEqual([4, 4, 5, 6, 6, 6, 7]);
    sink.finished(REPORT);
    expectIdle();
  });

  it('weigh what is left of the expected output, with the end of the prompt that nobody shares', async () => {
    const { arrive, transport, scheduler, expectIdle } = await tracked();
    const blocks = (): number | undefined => scheduler.loads.activeDecodeBlocks[0];
    const pinnedWorker = { workerId: 1n, rank: null };
    const asked = { ...NO_CONSTRAINTS, pinnedWorker };
    arrive({ tokens: prompt(1, 160), expectedOutputTokens: 64, constraints: asked });
    const { sink } = transport.last;
    arrive({ tokens: prompt(1, 32), constraints: asked });
    const other = transport.last.sink;
    expect(blocks()).toBe(10);
    sink.tokens(1);
    // 2 shared + (8 + 1 of output) × 63/64 = 10.86
    expect(blocks()).toBe(11);
    sink.tokens(31);
    // one more item, though two blocks were begun: 2 + (8 + 2) × 1/2
    expect(blocks()).toBe(7);
    sink.tokens(16);
    // 2 + (8 + 3) × 1/4 = 4.75
    expect(blocks()).toBe(5);
    sink.tokens(200);
    expect(blocks()).toBe(2);
    other.finished(REPORT);
    // What nobody shares any more keeps its weight until the next block of output.
    expect(blocks()).toBe(2);
    sink.tokens(16);
    expect(blocks()).toBe(0);
    sink.finished(REPORT);
    expectIdle();
  });

  it('count for nothing unless they are tracked', async () => {
    const { arrive, transport, scheduler, expectIdle } = await testRoad();
    arrive({ tokens: prompt(1, 64), expectedOutputTokens: 64 });
    transport.last.sink.tokens(1);
    transport.last.sink.tokens(63);
    expect(scheduler.loads.activeDecodeBlocks[0]).toBe(4);
    transport.last.sink.finished(REPORT);
    expectIdle();
  });
});
