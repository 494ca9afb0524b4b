// A real engine on a model that the test writes, asked without a router.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { engineRequestFixture } from '../../tests/gateway-fixtures.ts';
import { writeTinyGguf } from '../../tests/support/tiny-gguf.ts';
import type { EngineReport, EngineRequest, ReportedHintOutcome } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import { type Clock, type PointsmanError, seededRng } from '../plugin/index.ts';
import { loadNodeLlama } from '../tokens/index.ts';
import { openLlamaContext } from './llama-context.ts';
import { LocalEngine } from './local-engine.ts';
import type { LocalEngineSettings } from './types.ts';

/** What came of one request. */
export interface Heard {
  readonly report: EngineReport | null;
  readonly error: PointsmanError | null;
  readonly body: string;
  readonly outcomes: readonly ReportedHintOutcome[];
  readonly tokens: number;
}

/** A running engine with everything it announced. */
export interface TestEngine {
  readonly engine: LocalEngine;
  readonly events: KvEvent[];
  /** Names of blocks by what was announced. */
  announced(): Set<bigint>;
  /** Names of blocks by the engine's own account. */
  resident(): Set<bigint>;
  /** Sends a completion of token ids and waits for its end. */
  ask(
    tokens: readonly number[],
    over?: Partial<EngineRequest>,
    body?: Readonly<Record<string, unknown>>,
  ): Promise<Heard>;
  close(): Promise<void>;
}

const CLOCK: Clock = {
  now: () => performance.now(),
  schedule(delayMs, work) {
    const timer = setTimeout(work, delayMs);
    return () => clearTimeout(timer);
  },
};

const SETTINGS: LocalEngineSettings = {
  model: 'tiny',
  blockSize: 16,
  sequences: 2,
  contextTokens: 1024,
  maxWaiting: 8,
  batchTokens: 64,
};

/** Starts an engine. */
export async function testEngine(over: Partial<LocalEngineSettings> = {}): Promise<TestEngine> {
  const settings = { ...SETTINGS, ...over };
  const folder = mkdtempSync(join(tmpdir(), 'pointsman-gguf-'));
  const gguf = join(folder, 'tiny.gguf');
  writeTinyGguf(gguf);
  const llama = await loadNodeLlama();
  const context = await openLlamaContext(llama, gguf, settings);
  const events: KvEvent[] = [];
  const held = new Set<bigint>();
  const engine = new LocalEngine({
    settings,
    context,
    clock: CLOCK,
    rng: seededRng(7),
    publish(batch) {
      events.push(...batch);
      for (const event of batch) follow(held, event);
    },
  });
  return {
    engine,
    events,
    announced: () => new Set(held),
    resident: () => new Set(names(engine.residentBlocks())),
    ask: (tokens, request = {}, body = {}) => ask(engine, tokens, request, body),
    async close() {
      await engine.close();
      await llama.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Token ids of the model, the same for the same seed. */
export function ids(count: number, seed: number): number[] {
  const rng = seededRng(seed);
  return Array.from({ length: count }, () => 262 + rng.integer(60));
}

/** Blocks as 64-bit names. */
export function names(pairs: Uint32Array): bigint[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) => {
    const [lo = 0, hi = 0] = pairs.subarray(2 * at, 2 * at + 2);
    return (BigInt(hi) << 32n) | BigInt(lo);
  });
}

/** As a listener that counts nothing: one announcement of a block, one of its end. */
function follow(held: Set<bigint>, event: KvEvent): void {
  if (event.kind === 'stored') {
    for (const name of names(event.external)) {
      if (held.has(name)) throw new Error(`block ${name} was announced twice`);
      held.add(name);
    }
  } else if (event.kind === 'removed') {
    for (const name of names(event.external)) {
      if (!held.delete(name)) throw new Error(`block ${name} was never announced`);
    }
  }
}

function ask(
  engine: LocalEngine,
  tokens: readonly number[],
  over: Partial<EngineRequest>,
  body: Readonly<Record<string, unknown>>,
): Promise<Heard> {
  return new Promise((resolve) => {
    const parts: Uint8Array[] = [];
    let outcomes: readonly ReportedHintOutcome[] = [];
    let counted = 0;
    const end = (report: EngineReport | null, error: PointsmanError | null): void =>
      resolve({ report, error, body: Buffer.concat(parts).toString(), outcomes, tokens: counted });
    engine.dispatch(
      engineRequestFixture({
        tokens: Uint32Array.from(tokens),
        body: { temperature: 0, max_tokens: 4, ignore_eos: true, ...body },
        ...over,
      }),
      {
        head(_status, _headers, told) {
          outcomes = told;
        },
        data: (bytes) => void parts.push(bytes),
        tokens(count) {
          counted += count;
        },
        finished: (report) => end(report, null),
        failed: (error) => end(null, error),
      },
    );
  });
}
