// An engine in this process: requests wait for a sequence, run in it, and leave their KV there for the next that begins alike.
import type { EngineExchange, EngineRequest, EngineSink, ReportedLoad } from '../engines/index.ts';
import { type BlockHasher, blockHashSeed, createBlockHasher } from '../kv/index.ts';
import { type Clock, errorText, PointsmanError, type Rng } from '../plugin/index.ts';
import { ExternalHasher, planHints } from '../simulator/index.ts';
import { LocalAnswer } from './answer.ts';
import { HintWork, LOCAL_ACTIONS } from './hint-work.ts';
import { type LocalRequest, readLocalRequest } from './local-request.ts';
import { LocalRun } from './local-run.ts';
import { OutputText } from './output-text.ts';
import { type Placement, placeRequest } from './place-request.ts';
import { type NamedPrompt, SequenceSlot } from './sequence-slot.ts';
import type { KvContext, LocalEngineSettings, PublishEvents } from './types.ts';

/** Its blocks have other names than the router's and the simulated engine's. */
const HASH_SEED = 20_231_205;
/** As an advertisement names it. */
export const LOCAL_HASH_SCHEME = `llamacpp-node-xxh3/seed=${HASH_SEED}`;

/** What an engine is built with. */
export interface LocalEngineParts {
  readonly settings: LocalEngineSettings;
  readonly context: KvContext;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly publish: PublishEvents;
  readonly hasher?: BlockHasher;
}

/** One rank. */
export class LocalEngine {
  readonly #parts: LocalEngineParts;
  readonly #hasher: ExternalHasher;
  readonly #hints: HintWork;
  readonly #slots: SequenceSlot[] = [];
  /** Tokens of one sequence: whole blocks. */
  readonly #room: number;
  readonly #waiting: LocalRun[] = [];
  readonly #running = new Set<LocalRun>();
  readonly #served = new Set<Promise<void>>();
  #uses = 0;
  #closed = false;

  constructor(parts: LocalEngineParts) {
    const { context, settings } = parts;
    const { blockSize, contextTokens, sequences } = settings;
    this.#parts = parts;
    this.#hasher = new ExternalHasher(parts.hasher ?? createBlockHasher(), blockSize, HASH_SEED);
    this.#room = Math.floor(contextTokens / sequences / blockSize) * blockSize;
    this.#hints = new HintWork(this.totalBlocks, this.#slots, blockSize);
    const slotParts = { blocks: this.#hints.blocks, hasher: this.#hasher, blockSize, capacity: this.#room };
    for (const kv of context.sequences) this.#slots.push(new SequenceSlot(kv, slotParts));
  }

  /** Blocks of all sequences together. */
  get totalBlocks(): number {
    return (this.#room / this.#parts.settings.blockSize) * this.#parts.settings.sequences;
  }

  /** What it has to do now. */
  load(): ReportedLoad {
    const used = this.#slots.reduce((sum, { length, busy }) => sum + (busy ? length : 0), 0);
    return {
      running: this.#running.size,
      waiting: this.#waiting.length,
      kvUsage: used / (this.#room * this.#slots.length),
    };
  }

  /** Names of the resident blocks, in no order: what a listener that missed nothing knows of it. */
  residentBlocks(): Uint32Array {
    return this.#hints.blocks.names();
  }

  /** As `EngineTransport.dispatch`. */
  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    const run = new LocalRun(sink);
    queueMicrotask(() => {
      if (run.isOver) return;
      try {
        this.#take(run, request);
      } catch (thrown) {
        run.fail(asEngineError(thrown));
      }
    });
    return {
      abort: () => {
        run.abort();
        const at = this.#waiting.indexOf(run);
        if (at >= 0) this.#waiting.splice(at, 1);
      },
      pause: () => run.pause(),
      resume: () => run.resume(),
    };
  }

  /** Ends what runs and waits, and frees the memory. */
  async close(): Promise<void> {
    this.#closed = true;
    const lost = (): PointsmanError =>
      new PointsmanError('PM_ENGINE_LOST', 'the engine in this process stopped');
    for (const run of [...this.#waiting.splice(0), ...this.#running]) run.fail(lost());
    await Promise.all(this.#served);
    await this.#parts.context.close();
  }

  #take(run: LocalRun, request: EngineRequest): void {
    const { clock, context, rng, settings } = this.#parts;
    if (this.#closed)
      throw new PointsmanError('PM_ENGINE_UNREACHABLE', 'the engine in this process has stopped');
    const asked = readLocalRequest(request, this.#room, Math.floor(rng.next() * 2 ** 32));
    const stranger = asked.tokens.find((token) => !context.knows(token));
    if (stranger !== undefined) {
      throw new PointsmanError('PM_ENGINE_REFUSED', `token id ${stranger} is not in the model's vocabulary`, {
        details: { engine_status: 400 },
      });
    }
    if (this.#waiting.length >= settings.maxWaiting && this.#slots.every(({ busy }) => busy)) {
      const sentence = `the engine in this process has ${this.#waiting.length} requests waiting (max_waiting)`;
      throw new PointsmanError('PM_ENGINE_FAILED', sentence, {
        details: { engine_status: 503, retry_after: '1' },
      });
    }
    run.accept(request, asked, this.#named(asked), planHints(request.hint, LOCAL_ACTIONS));
    run.answer = new LocalAnswer(request, run.guarded(), clock.now());
    this.#waiting.push(run);
    this.#admit();
  }

  #named({ cacheSalt, tokens }: LocalRequest): NamedPrompt {
    const seed = blockHashSeed({ cacheSalt });
    return { tokens, cacheSalt, seed, ...this.#hasher.prompt(tokens, seed) };
  }

  /** Starts what can be started, in order of arrival. */
  #admit(): void {
    const now = this.#parts.clock.now();
    this.#hints.expire(now);
    for (let run = this.#waiting[0]; run !== undefined; run = this.#waiting[0]) {
      const { blockSize } = this.#parts.settings;
      // The last token of a prompt is always computed: the next one is drawn from what comes out.
      const most = Math.floor((run.asked.tokens.length - 1) / blockSize);
      const priorityOf = (slot: SequenceSlot, keep: number): number => this.#hints.priorityOf(slot, keep);
      const placement = placeRequest(this.#slots, run.prompt, most, priorityOf);
      if (placement === null) break;
      this.#waiting.shift();
      this.#start(run, placement);
    }
    this.#publish();
  }

  #start(run: LocalRun, placement: Placement): void {
    const { blocks, from, slot } = placement;
    slot.running = true;
    this.#uses += 1;
    slot.lastUsed = this.#uses;
    slot.trim(from === null ? blocks : 0, true);
    if (from !== null) {
      slot.settled = false;
      slot.adopt(run.prompt, blocks);
      from.lent += 1;
    }
    this.#running.add(run);
    const served = this.#serve(run, placement).finally(() => this.#served.delete(served));
    this.#served.add(served);
  }

  /** Never rejects. */
  async #serve(run: LocalRun, { blocks, from, slot }: Placement): Promise<void> {
    const { clock } = this.#parts;
    let finish: (() => void) | null = null;
    try {
      const cachedTokens =
        from === null ? await this.#kept(slot) : await this.#copied(run, slot, from, blocks);
      if (!run.isOver) {
        run.answer?.begin(this.#hints.admitted(run.hinted, clock.now()));
        this.#publish();
        finish = await this.#generate(run, slot, cachedTokens);
      }
    } catch (thrown) {
      run.fail(asEngineError(thrown));
      // What it holds is no longer certain.
      slot.trim(0, false);
      await slot.kv.keep(0).catch(() => {});
    }
    slot.running = false;
    slot.settled = true;
    this.#running.delete(run);
    this.#hints.ended(run.hinted, slot, clock.now());
    // Before the client hears of the end: its next turn rests on what is announced here.
    this.#publish();
    finish?.();
    if (!this.#closed) this.#admit();
  }

  /** Gives up what the book no longer has. @returns tokens that need not be computed. */
  async #kept(slot: SequenceSlot): Promise<number> {
    await slot.kv.keep(slot.length);
    return slot.length;
  }

  async #copied(run: LocalRun, slot: SequenceSlot, from: SequenceSlot, blocks: number): Promise<number> {
    try {
      await slot.kv.copyFrom(from.kv);
      // A sequence whose request failed meanwhile has lost what was to be copied.
      if (from.commonBlocks(run.prompt, blocks) < blocks) slot.trim(0, true);
    } catch {
      slot.trim(0, true);
    } finally {
      from.lent -= 1;
    }
    await slot.kv.keep(slot.length);
    slot.settled = true;
    if (!this.#closed) this.#admit();
    return slot.length;
  }

  /** @returns what tells the client of the end; null when it does not care any more. */
  async #generate(run: LocalRun, slot: SequenceSlot, cachedTokens: number): Promise<(() => void) | null> {
    const { asked, prompt } = run;
    const { tokens } = asked;
    const session = run.hinted.sessionId;
    const last = tokens.length - 1;
    while (slot.length < last) {
      const chunk = tokens.subarray(
        slot.length,
        Math.min(last, slot.length + this.#parts.settings.batchTokens),
      );
      await slot.kv.extend(chunk);
      this.#enter(slot, chunk, prompt, session);
      await run.resumed();
      if (run.isOver) return null;
    }
    const text = new OutputText(
      (some, before) => this.#parts.context.textOf(some, before),
      asked.stops,
      tokens,
    );
    let outputTokens = 0;
    let finishReason: 'stop' | 'length' = 'length';
    let computed = tokens[last] ?? 0;
    for await (const token of slot.kv.generate(computed, asked.sampling)) {
      this.#enter(slot, Uint32Array.of(computed), prompt, session);
      computed = token;
      if (run.isOver) return null;
      outputTokens += 1;
      const ends = !asked.ignoresEnd && this.#parts.context.endsText(token);
      run.answer?.token(ends ? '' : text.push(token));
      if (ends || text.stopped) finishReason = 'stop';
      if (ends || text.stopped || outputTokens >= asked.maxOutputTokens) break;
      await run.resumed();
      if (run.isOver) return null;
    }
    run.answer?.text(text.end());
    return () =>
      run.end(() =>
        run.answer?.finish(finishReason, { promptTokens: tokens.length, cachedTokens, outputTokens }),
      );
  }

  /** Books what was computed, which must be what the sequence has. */
  #enter(slot: SequenceSlot, tokens: Uint32Array, prompt: NamedPrompt, session: string | null): void {
    slot.append(tokens, prompt, session);
    if (slot.length !== slot.kv.length) {
      const sentence = `a sequence holds ${slot.kv.length} tokens where ${slot.length} were computed`;
      throw new PointsmanError('PM_ENGINE_FAILED', sentence, { details: { engine_status: 500 } });
    }
    this.#publish();
  }

  #publish(): void {
    const events = this.#hints.blocks.takeEvents();
    if (events.length > 0) this.#parts.publish(events);
  }
}

function asEngineError(thrown: unknown): PointsmanError {
  if (thrown instanceof PointsmanError) return thrown;
  return new PointsmanError('PM_ENGINE_FAILED', `the engine in this process failed: ${errorText(thrown)}`, {
    cause: thrown,
    details: { engine_status: 500 },
  });
}
