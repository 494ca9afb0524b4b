import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCandidateTable } from '../host/index.ts';
import { type BookedPhase, RequestPhases } from './request-phases.ts';

const SLOTS = 3;
const request = (promptTokens: number) => ({
  partition: { model: 'm', routingGroup: 'default' },
  promptTokens,
  learns: { outputLength: false, timing: true, prefill: true },
});

function read(phases: RequestPhases, now: number) {
  const table = createCandidateTable(SLOTS);
  phases.ensureCapacity(SLOTS);
  phases.fill(table, Int32Array.of(0, 1, 2), SLOTS, now);
  expect(Math.max(...table.bookedPromptTokens)).toBeLessThanOrEqual(table.mostBookedPromptTokens);
  return Array.from({ length: SLOTS }, (_, row) => ({
    prefillRequests: table.prefillRequests[row],
    prefillBehind: table.prefillBehind[row],
    prefillTokens: table.prefillTokens[row],
    prefillAttention: table.prefillAttention[row],
    prefillFrontMs: table.prefillFrontMs[row],
    decodeRequests: table.decodeRequests[row],
    promptTokens: table.bookedPromptTokens[row],
  }));
}
const NOTHING = {
  prefillRequests: 0,
  prefillBehind: 0,
  prefillTokens: 0,
  prefillAttention: 0,
  prefillFrontMs: 0,
  decodeRequests: 0,
  promptTokens: 0,
};

describe('the phases of bookings', () => {
  it('sum up tokens and attention until the first token, and time since the front got there', () => {
    const phases = new RequestPhases();
    const first = phases.begin(1, request(1000), 600, 10);
    phases.begin(1, request(50), 50, 15);
    expect(read(phases, 30)[1]).toEqual({
      prefillRequests: 2,
      prefillBehind: 0.5,
      prefillTokens: 650,
      prefillAttention: 600 * (400 + 300) + 50 * 25,
      prefillFrontMs: 20,
      decodeRequests: 0,
      promptTokens: 1050,
    });
    phases.firstToken(first, 40);
    phases.firstToken(first, 41);
    expect(read(phases, 43)[1]).toMatchObject({ prefillRequests: 1, prefillTokens: 50, prefillFrontMs: 3 });
    expect(read(phases, 43)[1]).toMatchObject({ decodeRequests: 1, promptTokens: 1050 });
    expect(read(phases, 43)[0]).toEqual(NOTHING);
  });

  it('leave out what a worker copies from a peer, and nobody learns from a time that holds a copy', () => {
    const phases = new RequestPhases();
    const first = phases.begin(1, request(1000), 600, 10);
    phases.copies(first, 300);
    expect(read(phases, 30)[1]).toMatchObject({ prefillTokens: 600, prefillAttention: 600 * 700 });
    phases.copies(first, 900);
    expect(read(phases, 30)[1]).toMatchObject({ prefillTokens: 100, prefillAttention: 100 * 950 });
    expect(phases.firstToken(first, 40)).toBeNull();
    phases.copies(first, 1000);
    phases.end(first);
    expect(read(phases, 50)[1]).toEqual(NOTHING);
    const second = phases.begin(1, request(50), 50, 60);
    expect(phases.firstToken(second, 70)).toMatchObject({ ms: 10, prompts: 1, tokens: 50 });
  });

  it.each(['copies', 'is not computed alone'])(
    'teach nobody while a prompt waits that %s, however many others pass it and look at the slot',
    (how) => {
      const phases = new RequestPhases();
      const learns = { ...request(1).learns, prefill: how === 'copies' };
      const slow = phases.begin(1, { ...request(1000), learns }, 600, 0);
      if (how === 'copies') phases.copies(slow, 900);
      let now = 0;
      const pass = () => {
        const passing = phases.begin(1, request(50), 50, now);
        now += 10;
        return phases.firstToken(passing, now);
      };
      for (let passed = 0; passed < 40; passed += 1) expect(pass()).toBeNull();
      expect(phases.firstToken(slow, 5000)).toBeNull();
      now = 6000;
      expect(pass()).toMatchObject({ ms: 10, prompts: 1, tokens: 50 });
      expect(read(phases, now)[1]).toMatchObject({ prefillRequests: 0, prefillTokens: 0 });
    },
  );

  it('tell of a busy period when its last prompt has its first token', () => {
    const phases = new RequestPhases();
    const first = phases.begin(1, request(1000), 600, 10);
    const second = phases.begin(1, request(50), 50, 15);
    expect(phases.firstToken(first, 40)).toBeNull();
    const attention = 600 * (400 + 300) + 50 * 25;
    expect(phases.firstToken(second, 45)).toEqual({ ms: 35, prompts: 2, tokens: 650, attention });
    const third = phases.begin(1, request(50), 50, 100);
    expect(phases.firstToken(third, 110)).toEqual({ ms: 10, prompts: 1, tokens: 50, attention: 1250 });
    expect(phases.firstToken(third, 111)).toBeNull();
  });

  it('tell of no period in which somebody gave up, and of the next one again', () => {
    const phases = new RequestPhases();
    const first = phases.begin(0, request(10), 10, 0);
    phases.end(phases.begin(0, request(10), 10, 1));
    expect(phases.firstToken(first, 5)).toBeNull();
    expect(phases.firstToken(phases.begin(0, request(10), 10, 6), 9)).toMatchObject({ ms: 3, prompts: 1 });
  });

  it('tell of a period that does not end after 32 prompts', () => {
    const phases = new RequestPhases();
    let last = phases.begin(0, request(10), 10, 0);
    for (let prompt = 1; prompt < 32; prompt += 1) {
      const next = phases.begin(0, request(10), 10, prompt);
      expect(phases.firstToken(last, prompt)).toBeNull();
      last = next;
    }
    phases.begin(0, request(10), 10, 40);
    expect(phases.firstToken(last, 50)).toMatchObject({ ms: 50, prompts: 32, tokens: 320 });
  });

  it('say 0 ms when the clock was set back', () => {
    const phases = new RequestPhases();
    phases.begin(0, request(10), 10, 100);
    expect(read(phases, 50)[0]?.prefillFrontMs).toBe(0);
  });

  it('are those of a plain list, and nothing when all have ended', () => {
    const step = fc.record({
      what: fc.constantFrom('begin', 'begin', 'begin', 'token', 'copies', 'copies', 'failed', 'end'),
      slot: fc.nat(SLOTS - 1),
      prompt: fc.integer({ min: 1, max: 2_000_000 }),
      cached: fc.nat(2_000_000),
      which: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const phases = new RequestPhases();
        const live: BookedPhase[] = [];
        let now = 0;
        for (const { what, slot, prompt, cached, which } of steps) {
          now += 1;
          const chosen = live[which % Math.max(1, live.length)];
          if (what === 'begin')
            live.push(phases.begin(slot, request(prompt), prompt - Math.min(prompt, cached), now));
          else if (chosen !== undefined && what === 'token') phases.firstToken(chosen, now);
          else if (chosen !== undefined && what === 'copies') phases.copies(chosen, cached);
          else if (chosen !== undefined && what === 'failed') phases.copyFailed(chosen);
          else if (chosen !== undefined) {
            live.splice(live.indexOf(chosen), 1);
            phases.end(chosen);
          }
          const rows = read(phases, now);
          for (const [at, row] of rows.entries()) {
            const here = live.filter((phase) => phase.slot === at);
            const waiting = here.filter(({ firstTokenAt }) => firstTokenAt === null);
            const sum = (of: readonly BookedPhase[], value: (phase: BookedPhase) => number) =>
              of.reduce((total, phase) => total + value(phase), 0);
            expect(row.prefillRequests).toBe(waiting.length);
            expect(row.prefillBehind).toBeCloseTo(1 - 1 / Math.max(1, waiting.length), 12);
            expect(row.prefillTokens).toBe(sum(waiting, ({ uncachedTokens }) => uncachedTokens));
            expect(row.prefillAttention).toBe(
              sum(waiting, ({ uncachedTokens: n, cachedTokens: c }) => n * (2 * c + n)) / 2,
            );
            expect(row.decodeRequests).toBe(here.length - waiting.length);
            expect(row.promptTokens).toBe(sum(here, ({ promptTokens }) => promptTokens));
          }
        }
        for (const phase of live) phases.end(phase);
        expect(read(phases, now)).toEqual([NOTHING, NOTHING, NOTHING]);
      }),
    );
  });
});
