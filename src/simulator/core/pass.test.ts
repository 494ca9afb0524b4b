// The pass algorithm, seen from outside: what a shell hears and when.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SimulatorLog } from '../../../tests/support/simulator-log.ts';
import { createBlockHasher } from '../../kv/index.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { createSimulatedEngine, DEFAULT_ENGINE_SETTINGS } from './create-engine.ts';
import { decodeMs, prefillMs } from './timing.ts';

const hasher = createBlockHasher();

function engineOf(settings: Partial<SimulatedEngineSettings>) {
  return createSimulatedEngine(
    { ...DEFAULT_ENGINE_SETTINGS, blockSize: 4, kvBlocks: 100, maxNumBatchedTokens: 16, ...settings },
    { hasher },
  );
}

/** A prompt of `length` tokens that differs from those of other families in every block. */
function prompt(family: number, length: number): Uint32Array {
  return Uint32Array.from({ length }, (_, index) => family * 1000 + index);
}

function request(id: string, tokens: Uint32Array, outputTokens: number) {
  return { id, tokens, outputTokens, sessionId: null, hint: null };
}

const alone = (tokens: number): number => prefillMs({ requests: 1, totalIsl: tokens, totalPrefix: 0 });

describe('a pass', () => {
  it('takes prefill and decode time one after the other and emits one token per request', () => {
    const engine = engineOf({});
    const log = new SimulatorLog();
    engine.submit(request('a', prompt(1, 8), 2), 10);
    expect(engine.nextEventAt()).toBe(10);
    engine.advance(10, log);
    expect(log.take()).toEqual(['stored 2', 'admitted a 0 @10']);
    const first = 10 + alone(8) + decodeMs(2, 100);
    expect(engine.nextEventAt()).toBe(first);
    engine.advance(first, log);
    // The next pass starts in the same call; its third block is the output's.
    expect(log.take()).toEqual([`chunk a @${first}`]);
    const second = first + decodeMs(3, 100);
    engine.advance(second, log);
    expect(log.take()).toEqual([`chunk a @${second}`, `finished a 0/2 @${second}`]);
    expect(engine.nextEventAt()).toBeNull();
  });

  it('splits a long prompt over passes under the token budget and lets the next in the queue use the rest', () => {
    const engine = engineOf({ timing: 'none' });
    const passes = engineOf({});
    const log = new SimulatorLog();
    passes.submit(request('long', prompt(1, 24), 1), 0);
    passes.submit(request('short', prompt(2, 4), 1), 0);
    passes.submit(request('late', prompt(3, 8), 1), 0);
    passes.advance(0, log);
    // 16 of 24 tokens: the budget is used up, and the queue waits.
    expect(log.take()).toEqual(['stored 4', 'admitted long 0 @0']);
    const second = alone(16);
    passes.advance(second, log);
    // The last 8, the short one whole, 4 of the late one.
    expect(log.take()).toEqual([
      'stored 2',
      'stored 1',
      'stored 1',
      `admitted short 0 @${second}`,
      `admitted late 0 @${second}`,
    ]);
    engine.submit(request('long', prompt(1, 24), 1), 0);
    engine.advance(0, log);
    expect(log.take().at(-1)).toBe('finished long 0/1 @0');
  });

  it('reuses full blocks but always computes the last token', () => {
    const engine = engineOf({ timing: 'none' });
    const log = new SimulatorLog();
    const cached: string[] = [];
    for (const [id, length] of [
      ['first', 8],
      ['whole', 8],
      ['longer', 9],
      ['part', 6],
    ] as const) {
      engine.submit(request(id, prompt(1, length), 1), 0);
      engine.advance(0, log);
      cached.push(log.take().find((line) => line.startsWith('finished'))!);
    }
    expect(cached).toEqual([
      'finished first 0/1 @0',
      'finished whole 4/1 @0',
      'finished longer 8/1 @0',
      'finished part 4/1 @0',
    ]);
  });

  it('caches output as blocks fill, but not the block of a last token that was never computed', () => {
    const engine = engineOf({ timing: 'none' });
    const log = new SimulatorLog();
    engine.submit(request('a', prompt(1, 4), 8), 0);
    engine.advance(0, log);
    expect(log.take().filter((line) => line.startsWith('stored'))).toEqual(['stored 1', 'stored 1']);
    const output = log.tokens.get('a')!;
    engine.submit(request('b', Uint32Array.of(...prompt(1, 4), ...output, 1), 1), 0);
    engine.advance(0, log);
    expect(log.take().at(-1)).toBe('finished b 8/1 @0');
  });

  it('pre-empts the newest request when the pool runs short, and recomputes what it had said', () => {
    const engine = engineOf({ kvBlocks: 4, timing: 'none' });
    const log = new SimulatorLog();
    engine.submit(request('old', prompt(1, 7), 6), 0);
    engine.submit(request('new', prompt(2, 7), 6), 0);
    engine.advance(0, log);
    const lines = log.take();
    expect(engine.stats().preemptions).toBe(1);
    expect(lines.filter((line) => line.startsWith('admitted'))).toEqual([
      'admitted old 0 @0',
      'admitted new 0 @0',
    ]);
    const ends = lines.filter((line) => line.startsWith('finished'));
    expect(ends).toEqual(['finished old 0/6 @0', 'finished new 0/6 @0']);
    expect(log.tokens.get('new')).toHaveLength(6);
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, activeBlocks: 0 });
  });

  it('keeps the queue in order: a request that does not fit holds those behind it back', () => {
    const engine = engineOf({ kvBlocks: 4 });
    const log = new SimulatorLog();
    engine.submit(request('a', prompt(1, 12), 1), 0);
    engine.submit(request('big', prompt(2, 8), 1), 0);
    engine.submit(request('small', prompt(3, 3), 1), 0);
    engine.advance(0, log);
    expect(log.take().filter((line) => line.startsWith('admitted'))).toEqual(['admitted a 0 @0']);
    expect(engine.stats()).toMatchObject({ running: 1, waiting: 2 });
  });

  it('rejects what could never fit, at once, and leaves the rest alone', () => {
    const engine = engineOf({ kvBlocks: 4 });
    const log = new SimulatorLog();
    engine.submit(request('huge', prompt(1, 16), 1), 5);
    engine.submit(request('fits', prompt(2, 12), 4), 5);
    engine.advance(5, log);
    expect(log.take()).toEqual(['rejected huge @5', 'stored 3', 'admitted fits 0 @5']);
  });

  it('admits no more than max_num_seqs at a time', () => {
    const engine = engineOf({ maxNumSeqs: 2 });
    const log = new SimulatorLog();
    for (const id of ['a', 'b', 'c']) engine.submit(request(id, prompt(id.charCodeAt(0), 2), 1), 0);
    engine.advance(0, log);
    expect(engine.stats()).toMatchObject({ running: 2, waiting: 1 });
  });

  it('gives the same output for the same request id and seed, and another for another seed', () => {
    const outputs = [1, 1, 2].map((seed) => {
      const engine = engineOf({ seed, timing: 'none' });
      const log = new SimulatorLog();
      engine.submit(request('a', prompt(1, 5), 20), 0);
      engine.advance(0, log);
      return log.tokens.get('a');
    });
    expect(outputs[0]).toEqual(outputs[1]);
    expect(outputs[0]).not.toEqual(outputs[2]);
  });

  it('divides every modelled time by the speedup', () => {
    const ends = [1, 4].map((speedup) => {
      const engine = engineOf({ speedup });
      engine.submit(request('a', prompt(1, 8), 3), 0);
      const log = new SimulatorLog();
      engine.advance(1e6, log);
      return Number(log.take().at(-1)!.split('@')[1]);
    });
    expect(ends[0]! / ends[1]!).toBeCloseTo(4, 9);
  });
});

const step = fc.record({
  kind: fc.constantFrom('submit', 'submit', 'submit', 'abort', 'advance', 'advance'),
  family: fc.integer({ min: 0, max: 3 }),
  length: fc.integer({ min: 1, max: 30 }),
  output: fc.integer({ min: 1, max: 12 }),
  wait: fc.integer({ min: 0, max: 60 }),
});

describe('a machine under random requests, aborts and waits', () => {
  it('gives every request its tokens or none, frees everything, and its events replayed are what it holds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 3, max: 14 }),
        fc.constantFrom('default', 'none'),
        fc.array(step, { maxLength: 40 }),
        (kvBlocks, timing, steps) => {
          const engine = engineOf({ kvBlocks, timing, maxNumSeqs: 4 });
          const log = new SimulatorLog();
          const aborted = new Set<string>();
          const asked = new Map<string, number>();
          let now = 0;
          for (const { kind, family, length, output, wait } of steps) {
            if (kind === 'submit') {
              const id = `r${asked.size}`;
              asked.set(id, output);
              engine.submit(request(id, prompt(family, length), output), now);
            } else if (kind === 'abort') {
              const id = `r${wait % Math.max(1, asked.size)}`;
              if (asked.has(id) && !log.finishedIds.has(id)) aborted.add(id);
              engine.abort(id, now);
            } else {
              now += wait;
              engine.advance(now, log);
            }
            const { activeBlocks, inactiveBlocks } = engine.stats();
            expect(activeBlocks + inactiveBlocks).toBeLessThanOrEqual(kvBlocks);
          }
          for (let next = engine.nextEventAt(); next !== null; next = engine.nextEventAt()) {
            now = Math.max(now, next);
            engine.advance(now, log);
          }
          for (const [id, output] of asked) {
            expect(log.finishedIds.has(id)).toBe(!aborted.has(id));
            if (aborted.has(id) || log.rejectedIds.has(id)) continue;
            expect(log.tokens.get(id)).toHaveLength(output);
          }
          expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, activeBlocks: 0 });
          expect(log.contradictions).toEqual([]);
          for (const hash of log.everStored) {
            const answer = engine.grantFetch(
              { key: hash, from: 0, blockHashes: BigUint64Array.of(BigInt(hash)), deadlineMs: 1 },
              now,
            );
            expect('held' in answer).toBe(log.resident.has(hash));
            engine.releaseFetch(hash, now);
          }
          expect(engine.stats().inactiveBlocks).toBeGreaterThanOrEqual(log.resident.size);
        },
      ),
      { numRuns: 200 },
    );
  });
});
