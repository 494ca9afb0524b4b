import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Metrics } from '../observe/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { ManualClock, PointsmanError } from '../plugin/index.ts';
import { EngineSource } from './engine-source.ts';
import type { EngineAnswer, EngineQuestion, TokenizingEngine } from './engine-tokenizer.ts';
import { createTokenSource } from './token-source.ts';

const IDS = Uint32Array.of(3, 1, 4, 1, 5);
const ask = (text: string): EngineQuestion => ({
  kind: 'prompt',
  text,
  addSpecialTokens: true,
  truncation: null,
});

/** An engine that answers as it is told, and remembers what it was asked. */
class ToldEngine implements TokenizingEngine {
  readonly id: string;
  readonly asked: EngineQuestion[] = [];
  readonly signals: AbortSignal[] = [];
  #answer: (question: EngineQuestion) => Promise<EngineAnswer>;

  constructor(id: string, answer: (question: EngineQuestion) => Promise<EngineAnswer>) {
    this.id = id;
    this.#answer = answer;
  }

  tokenize(question: EngineQuestion, signal: AbortSignal): Promise<EngineAnswer> {
    this.asked.push(question);
    this.signals.push(signal);
    return this.#answer(question);
  }
}

const answers = (id: string, answer: EngineAnswer = IDS): ToldEngine =>
  new ToldEngine(id, () => Promise.resolve(answer));
const fails = (id: string): ToldEngine =>
  new ToldEngine(id, () => Promise.reject(new PointsmanError('PM_ENGINE_UNREACHABLE', 'no')));
const hangs = (id: string): ToldEngine => new ToldEngine(id, () => new Promise(() => {}));

interface Bench {
  readonly source: EngineSource;
  readonly clock: ManualClock;
  readonly outcomes: string[];
}

function bench(
  engines: readonly TokenizingEngine[],
  over: { concurrency?: number; cacheBytes?: number } = {},
): Bench {
  const outcomes: string[] = [];
  const metrics: Metrics = {
    ...NO_METRICS,
    count: (name, labels = {}) => {
      if (name === 'pointsman_engine_tokenize_total') outcomes.push(String(labels.outcome));
    },
  };
  const clock = new ManualClock();
  const source = new EngineSource({
    model: 'm',
    engines: { engines: () => engines },
    timeoutMs: 1000,
    concurrency: over.concurrency ?? 4,
    cacheBytes: over.cacheBytes ?? 0,
    metrics,
    clock,
  });
  return { source, clock, outcomes };
}

/** Lets promises settle. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('asking engines', () => {
  it('goes round the fleet and asks another one when one fails', async () => {
    const fleet = [answers('a'), fails('b'), answers('c')];
    const { source, outcomes } = bench(fleet);
    for (let count = 0; count < 3; count += 1) expect(await source.ask(ask(`q${count}`))).toEqual(IDS);
    expect(fleet.map(({ asked }) => asked.length)).toEqual([1, 1, 2]);
    expect(outcomes).toEqual(['answered', 'answered', 'answered']);
    expect(source.trouble).toBe(null);
  });

  it('gives a silent engine half of the time, and the other half to the next', async () => {
    const silent = hangs('a');
    const { source, clock } = bench([silent, answers('b')]);
    const pending = source.ask(ask('q'));
    await settle();
    clock.advanceTo(clock.now() + 499);
    await settle();
    expect(silent.signals[0]?.aborted).toBe(false);
    clock.advanceTo(clock.now() + 1);
    expect(await pending).toEqual(IDS);
    expect(silent.signals[0]?.aborted).toBe(true);
  });

  it('ends as an estimate in time when nobody answers, and says so in words until one does', async () => {
    const mute = hangs('a');
    const engines: TokenizingEngine[] = [mute];
    const { source, clock, outcomes } = bench(engines);
    const pending = source.ask(ask('q'));
    await settle();
    clock.advanceTo(clock.now() + 1000);
    expect(await pending).toBe('engine_silent');
    expect(source.trouble).toBe(
      'got no token ids from its engines in time, so prompts are routed by an estimate and find no cached blocks; look at their logs, or use tokens: { source: local }',
    );
    engines[0] = answers('b');
    expect(await source.ask(ask('q'))).toEqual(IDS);
    expect([source.trouble, outcomes]).toEqual([null, ['engine_silent', 'answered']]);
  });

  it('asks nobody twice about a prompt that was refused, which says nothing of the engines', async () => {
    const fleet = [answers('a', 'refused'), answers('b')];
    const { source } = bench(fleet);
    expect(await source.ask(ask('q'))).toBe('engine_refused');
    expect([fleet[1]?.asked.length, source.trouble]).toEqual([0, null]);
  });

  it('passes over engines that cannot tokenize, however many, and says when none can', async () => {
    const fleet = [...'abcde'].map((id) => answers(id, 'unable'));
    expect(await bench([...fleet, answers('f')]).source.ask(ask('q'))).toEqual(IDS);
    const none = bench(fleet);
    expect(await none.source.ask(ask('q'))).toBe('no_engine');
    expect(none.source.trouble).toContain('has no ready worker that can tokenize its prompts');
    expect(await bench([]).source.ask(ask('q'))).toBe('no_engine');
  });

  it('keeps answers by all that decides them, under its cap', async () => {
    const engine = answers('a');
    const { source, outcomes } = bench([engine], { cacheBytes: 1000 });
    await source.ask(ask('q'));
    expect(await source.ask(ask('q'))).toEqual(IDS);
    await source.ask({ ...ask('q'), kind: 'prompt', addSpecialTokens: false, text: 'q', truncation: null });
    expect(outcomes).toEqual(['answered', 'cached', 'answered']);
    for (let count = 0; count < 20; count += 1) await source.ask(ask(`q${count}`));
    expect(source.cachedBytes).toBeGreaterThan(0);
    expect(source.cachedBytes).toBeLessThanOrEqual(1000);
  });

  it('shortens what an engine gave whole', async () => {
    const { source } = bench([answers('a')]);
    expect(
      await source.ask({
        kind: 'prompt',
        text: 'q',
        addSpecialTokens: true,
        truncation: { tokens: 2, side: 'left' },
      }),
    ).toEqual(Uint32Array.of(1, 5));
  });

  it('has no more questions under way than it may, in any order of arrivals and answers, and forgets none', async () => {
    const step = fc.constantFrom('ask', 'answer', 'fail', 'wait' as const);
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.integer({ min: 1, max: 3 }),
        async (steps, concurrency) => {
          const open: { resolve(answer: EngineAnswer): void; reject(error: Error): void }[] = [];
          let most = 0;
          const engine = new ToldEngine('a', () => {
            const { promise, resolve, reject } = deferred();
            open.push({ resolve, reject });
            return promise;
          });
          const { source, clock } = bench([engine], { concurrency });
          const results: Promise<unknown>[] = [];
          for (const [at, kind] of steps.entries()) {
            if (kind === 'ask') results.push(source.ask(ask(String(at))));
            if (kind === 'answer') open.shift()?.resolve(IDS);
            if (kind === 'fail') open.shift()?.reject(new Error('lost'));
            if (kind === 'wait') {
              clock.advanceTo(clock.now() + 300);
              // Those that ran out of time are no longer under way.
              open.splice(
                0,
                open.length,
                ...open.filter((_, index) => engine.signals.at(-open.length + index)?.aborted === false),
              );
            }
            await settle();
            most = Math.max(most, engine.signals.filter((signal) => !signal.aborted).length);
          }
          clock.advanceTo(clock.now() + 1000);
          await settle();
          clock.advanceTo(clock.now() + 1000);
          await settle();
          for (const result of await Promise.all(results)) {
            expect(
              result instanceof Uint32Array || result === 'engine_silent' || result === 'engine_busy',
            ).toBe(true);
          }
          expect(results.length).toBe(steps.filter((kind) => kind === 'ask').length);
          expect(most).toBeLessThanOrEqual(concurrency);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('asks no more questions at once than it may, when a new one comes just as one that waits is woken', async () => {
    let underWay = 0;
    let most = 0;
    let first: (ids: Uint32Array) => void = () => {};
    const engine = new ToldEngine('e', () => {
      underWay += 1;
      most = Math.max(most, underWay);
      if (first.length > 0) return new Promise(() => {});
      return new Promise((resolve) => {
        first = (ids) => {
          underWay -= 1;
          resolve(ids);
        };
      });
    });
    const { source } = bench([engine], { concurrency: 1 });
    const asked = source.ask(ask('first'));
    void source.ask(ask('waits'));
    first(IDS);
    // One at each turn of the promises that follow.
    for (let turn = 0; turn < 20; turn += 1) {
      await null;
      void source.ask(ask(`new ${turn}`));
    }
    expect(await asked).toEqual(IDS);
    expect(most).toBe(1);
    source.close();
  });

  it('ends everything when it closes', async () => {
    const mute = hangs('a');
    const { source } = bench([mute], { concurrency: 1 });
    const pending = [source.ask(ask('q1')), source.ask(ask('q2'))];
    await settle();
    source.close();
    expect(await Promise.all(pending)).toEqual(['engine_silent', 'engine_silent']);
    expect([mute.asked.length, mute.signals[0]?.aborted]).toEqual([1, true]);
  });
});

describe('the engine as a token source', () => {
  const tokenSource = (engine: TokenizingEngine) =>
    createTokenSource({
      model: 'm',
      setting: { source: 'engine', timeoutMs: 1000, concurrency: 2 },
      maxPromptTokens: () => 100,
      engines: { engines: () => [engine] },
      metrics: NO_METRICS,
      clock: new ManualClock(),
    });
  const chat = { tools: undefined, addGenerationPrompt: true, addSpecialTokens: false, variables: {} };

  it('gives ids, or an estimate with its reason, and never asks about images', async () => {
    const engine = answers('a');
    const source = tokenSource(engine);
    await source.start();
    expect(await source.encodePrompt('hello', true)).toEqual({ tokens: IDS, source: 'engine' });
    expect(await source.encodeChat({ ...chat, messages: [{ role: 'user', content: 'hi' }] })).toEqual({
      tokens: IDS,
      source: 'engine',
    });
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] }];
    expect(await source.encodeChat({ ...chat, messages: image })).toMatchObject({ estimated: 'content' });
    expect(engine.asked.length).toBe(2);
    const refusing = tokenSource(answers('b', 'refused'));
    expect(await refusing.encodePrompt('hello world', true)).toEqual({
      tokens: new Uint32Array(3),
      source: 'estimate',
      estimated: 'engine_refused',
    });
    expect(await refusing.encodePrompt('x'.repeat(100), true, { tokens: 4, side: 'left' })).toMatchObject({
      tokens: new Uint32Array(4),
    });
  });
});

function deferred(): {
  promise: Promise<EngineAnswer>;
  resolve(answer: EngineAnswer): void;
  reject(error: Error): void;
} {
  let resolve: (answer: EngineAnswer) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<EngineAnswer>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
