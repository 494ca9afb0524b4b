// Fleets of prefill and decode workers in virtual time: the trace is served, and whoever dies or leaves at whatever stage leaves nothing
// behind, neither bookings nor blocks nor somebody who waits.
import { describe, expect, it } from 'vitest';
import { readTrace } from '../src/replay/index.ts';
import type { HandoffKind } from '../src/simulator/index.ts';
import { type DividedFleet, dividedFleet, type HeardLegs } from './support/divided-fleet.ts';
import { replayInProcess } from './support/replay-in-process.ts';
import { countedTokens } from './support/road-request.ts';

const KINDS: readonly HandoffKind[] = ['nixl', 'nixl_push', 'mooncake', 'bootstrap'];
const PREFILL = 1n;
const DECODE = 2n;
/** 125 blocks of 2 MiB: 21 ms on the link. */
const PROMPT = countedTokens(2000);
const NOTHING = { bookings: 0, blocks: 0, requests: 0 };

/** Times of a request that nobody disturbs. */
async function stages(handoff: HandoffKind): Promise<Record<string, number>> {
  const world = await dividedFleet({ prefill: 1, decode: 1, handoff });
  const heard = world.send('r', PROMPT, { maxOutputTokens: 8 });
  world.until(() => heard.ends > 0);
  expect(heard.report).toMatchObject({ outputTokens: 8, cachedTokens: 0 });
  expect(world.held()).toEqual(NOTHING);
  const head = heard.headAt ?? 0;
  await world.router.close();
  return {
    'right after it was sent': 0.01,
    'while the prompt is computed': head / 2,
    'while the blocks come': head - 5,
    'right before decode begins': head - 0.01,
    'while it decodes': (head + (heard.endedAt ?? 0)) / 2,
  };
}

const STAGES = [
  'right after it was sent',
  'while the prompt is computed',
  'while the blocks come',
  'right before decode begins',
  'while it decodes',
];

/** Lets everything come to rest: timeouts too. */
function rest({ time }: DividedFleet): void {
  time.runUntil(time.now() + 200_000);
}

describe.each(KINDS)('a request of two workers (%s)', (handoff) => {
  it.each(STAGES)('fails once and leaves nothing when either engine dies %s', async (stage) => {
    const at = (await stages(handoff))[stage] ?? 0;
    for (const victim of [PREFILL, DECODE]) {
      const world = await dividedFleet({ prefill: 1, decode: 1, handoff });
      const heard = world.send('r', PROMPT, { maxOutputTokens: 8 });
      world.time.runUntil(at);
      world.fleet.engine(victim).restart();
      rest(world);
      expect(heard.ends).toBe(1);
      // The prefill worker is needed no more once its blocks are taken, and the decode worker not before its leg is there.
      const needed =
        victim === PREFILL
          ? stage !== 'while it decodes'
          : handoff !== 'nixl' ||
            !['right after it was sent', 'while the prompt is computed'].includes(stage);
      expect(heard.error === null).toBe(!needed);
      // Nobody waited for a timeout to find out.
      expect(heard.endedAt ?? 0).toBeLessThan(at + 1000);
      expect(world.held()).toEqual(NOTHING);
      // The fleet goes on.
      const next = world.send('next', countedTokens(500, 5000));
      rest(world);
      expect(next.report).toMatchObject({ outputTokens: 4 });
      expect(world.held()).toEqual(NOTHING);
      await world.router.close();
    }
  });

  it.each(STAGES)('leaves nothing when its client leaves %s', async (stage) => {
    const at = (await stages(handoff))[stage] ?? 0;
    const world = await dividedFleet({ prefill: 1, decode: 1, handoff });
    const heard = world.send('r', PROMPT, { maxOutputTokens: 8 });
    world.time.runUntil(at);
    const before = [heard.headAt, heard.tokensAt.length];
    heard.ticket?.abort();
    heard.ticket?.abort();
    // Blocks that wait to be taken are taken first, which takes as long as it takes.
    world.time.runUntil(at + 200);
    expect(world.held()).toEqual(NOTHING);
    rest(world);
    expect([heard.headAt, heard.tokensAt.length]).toEqual(before);
    expect(heard.ends).toBe(0);
    await world.router.close();
  });

  it.each(STAGES)('fails when either worker is taken out %s', async (stage) => {
    const at = (await stages(handoff))[stage] ?? 0;
    for (const victim of [PREFILL, DECODE]) {
      const world = await dividedFleet({ prefill: 1, decode: 1, handoff });
      const heard = world.send('r', PROMPT, { maxOutputTokens: 8 });
      world.time.runUntil(at);
      world.core.fleet.setState(victim, 'gone');
      rest(world);
      expect(heard.ends).toBe(1);
      expect(world.held()).toEqual(NOTHING);
      await world.router.close();
    }
  });
});

describe('divided fleets under the trace', () => {
  const trace = readTrace('tests/fixtures/mooncake_conversation_sample.jsonl', 60);

  it.each(KINDS)('serve all of it, and nothing is left (%s)', async (handoff) => {
    const { runs } = await replayInProcess(await trace, {
      workers: 4,
      prefill_workers: 2,
      decode_workers: 2,
      handoff,
      compare: 'kv,round-robin',
    });
    for (const run of runs) {
      expect(run).toMatchObject({ completed: 60, failed: 0, rejected: 0 });
      expect(run.disaggregation).toEqual({ remote_prefills: 60, bypassed: 0, fallbacks: 0 });
      // Both kinds of workers worked, and the hits are those of the prefill workers.
      for (const worker of run.workers) expect(worker.requests).toBeGreaterThan(0);
    }
  });

  it.each(KINDS)('end every request while engines die again and again (%s)', async (handoff) => {
    const world = await dividedFleet({ prefill: 2, decode: 2, handoff, engine: { kvBlocks: 2048 } });
    const heard: HeardLegs[] = [];
    for (let index = 0; index < 60; index += 1) {
      world.time.plan(index * 130, 'arrival', () => {
        heard.push(
          world.send(`r${index}`, countedTokens(300 + 37 * index, 97 * index), { maxOutputTokens: 20 }),
        );
      });
      if (index % 7 === 3) {
        world.time.plan(index * 130 + 40, 'timer', () => {
          world.fleet.engine(BigInt(1 + (index % 4))).restart();
        });
      }
      if (index % 5 === 2) world.time.plan(index * 130 + 60, 'timer', () => heard[index]?.ticket?.abort());
    }
    rest(world);
    const ended = heard.map(({ ends }, index) => (index % 5 === 2 ? ends <= 1 : ends === 1));
    expect(ended).toEqual(heard.map(() => true));
    expect(heard.filter(({ report }) => report !== null).length).toBeGreaterThan(9);
    expect(heard.filter(({ error }) => error !== null).length).toBeGreaterThan(5);
    expect(world.held()).toEqual(NOTHING);
    await world.router.close();
  });

  it('leave no decode worker idle when prompts are alike and their load is all there is to choose by (#7836)', async () => {
    const world = await dividedFleet({ prefill: 1, decode: 5, engine: { kvBlocks: 4096 } });
    const prompt = countedTokens(512);
    for (let index = 0; index < 200; index += 1) {
      world.time.plan(index * 30, 'arrival', () => world.send(`r${index}`, prompt, { maxOutputTokens: 10 }));
    }
    rest(world);
    const chosen = world.decisions.filter(({ role }) => role === 'decode');
    expect(chosen).toHaveLength(200);
    const counts = [2n, 3n, 4n, 5n, 6n].map(
      (id) => chosen.filter(({ pick }) => pick.worker_id === id).length,
    );
    // 40 each on average.
    for (const count of counts) expect(count).toBeGreaterThan(20);
    await world.router.close();
  });
});
