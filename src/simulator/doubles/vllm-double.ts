// A double of vLLM's OpenAI server on loopback: its endpoints, refusals, metrics and KV events around ranks of the simulator core. It has
// no hint endpoint and ignores hints, unless it is told to have a tier that reads them.
import { randomBytes } from 'node:crypto';
import { encodeVllmBatch, type VllmWire } from '../../events/index.ts';
import type { BlockHasher } from '../../kv/index.ts';
import type { Clock } from '../../plugin/index.ts';
import { loadTextTokenizer, type TextTokenizer, TINY_TOKENIZER, TINY_WORDS } from '../../tokens/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import type { SimulatedEngineSettings, SimulatedHintOutcome } from '../types.ts';
import { drain, listen } from '../wire/listening.ts';
import { type DoubleFaults, NO_DOUBLE_FAULTS } from './double-faults.ts';
import { type DoubleRank, type RankEvents, startDoubleRank } from './double-rank.ts';
import { createDoubleServer, type DoubleRequest } from './double-server.ts';
import { publisherPlace } from './event-address.ts';
import { vllmRefusalOf } from './vllm-errors.ts';
import { noCounts } from './vllm-metrics.ts';
import { vllmRoutes } from './vllm-routes.ts';
import type { VllmServe } from './vllm-serve.ts';

/** Hints that a tier of the double reads: the envelope, or the payload of a copy alone as older builds take it. */
export type DoubleHints = 'none' | 'envelope' | 'legacy';

/** What a double is started from. */
export interface VllmDoubleOptions {
  readonly serve: VllmServe;
  /** Default `none`: a stock server. */
  readonly hints?: DoubleHints;
  /** Default `map`: the newest event wire, with 4 frames in replay answers; `array` has 3. */
  readonly wire?: VllmWire;
  readonly faults?: DoubleFaults;
  /** Divides every modelled time. */
  readonly speedup?: number;
  readonly hashSeed?: number;
  readonly seed?: number;
  readonly maxBodyBytes?: number;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  readonly warn?: (problem: string) => void;
}

/** A running double. */
export interface VllmDouble {
  readonly url: string;
  /** ZeroMQ addresses of the KV events of each rank; empty = it publishes none. */
  readonly kvEvents: readonly { readonly address: string; readonly replay: string | null }[];
  /** Control channel of each rank, where peers ask for KV. */
  readonly control: readonly string[];
  /** Requests as they came, byte by byte. */
  requests(): readonly DoubleRequest[];
  /** What became of the hints that its tier read, by request. */
  hintOutcomes(): readonly (readonly SimulatedHintOutcome[])[];
  close(graceMs: number): Promise<void>;
}

const MAX_BODY_BYTES = 32 * 1024 * 1024;
const MAX_OUTCOMES = 4096;
/** A tier of KVCR acts on copies and skips everything else. */
const TIER_ACTIONS = ['kv.fetch@1.0'];

/**
 * Starts a double.
 * @throws PointsmanError PM_SIM_SETTINGS for a setting that cannot be, PM_SIM_START when a port is taken.
 */
export async function startVllmDouble(options: VllmDoubleOptions): Promise<VllmDouble> {
  const { clock, faults = NO_DOUBLE_FAULTS, hints = 'none', serve } = options;
  const own = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
  const tokenizer = faults.otherTemplate === true ? otherTemplate(own) : own;
  const words = Array.from({ length: TINY_WORDS }, (_, id) => tokenizer.decode([id]));
  const ranks: DoubleRank[] = [];
  const counts = Array.from({ length: serve.ranks }, noCounts);
  const outcomes: (readonly SimulatedHintOutcome[])[] = [];
  const engineId = randomBytes(16).toString('hex');
  const closeRanks = (): void => {
    for (const rank of ranks.splice(0)) rank.close();
  };
  const http = createDoubleServer({
    routes: vllmRoutes({
      ...{ serve, hints, faults, tokenizer, clock, engineId, ranks, counts },
      textOf: (id) => words[id] ?? '',
      onOutcomes(list) {
        outcomes.push(list);
        if (outcomes.length > MAX_OUTCOMES) outcomes.shift();
      },
    }),
    refusalOf: vllmRefusalOf,
    maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
  });
  try {
    for (let rank = 0; rank < serve.ranks; rank += 1) {
      ranks.push(
        await startDoubleRank({
          ...{ rank, engineId, faults, clock, hasher: options.hasher },
          settings: settingsOf(options),
          events: rankEvents(options, rank),
          warn: options.warn ?? (() => undefined),
        }),
      );
    }
    await listen(http.server, serve.port);
  } catch (error) {
    closeRanks();
    throw error;
  }
  const bound = http.server.address();
  // Listed by their ports: whoever counts ranks on from the first port meets another one where they are swapped.
  const publishing = faults.swappedRanks === true ? ranks.toReversed() : ranks;
  return {
    url: `http://127.0.0.1:${typeof bound === 'object' && bound !== null ? bound.port : serve.port}`,
    kvEvents: publishing.flatMap(({ events }) =>
      events === null ? [] : [{ address: events.endpoint, replay: events.replayEndpoint }],
    ),
    control: ranks.map(({ control }) => control),
    requests: http.requests,
    hintOutcomes: () => [...outcomes],
    async close(graceMs) {
      await drain(http.server, clock, graceMs);
      closeRanks();
    },
  };
}

function settingsOf({
  hashSeed = 0,
  seed = 0,
  serve,
  speedup = 1,
}: VllmDoubleOptions): SimulatedEngineSettings {
  return {
    ...DEFAULT_ENGINE_SETTINGS,
    model: serve.models[0] ?? '',
    blockSize: serve.blockSize,
    kvBlocks: serve.kvBlocks,
    maxNumSeqs: serve.maxNumSeqs,
    maxNumBatchedTokens: serve.maxNumBatchedTokens,
    actions: TIER_ACTIONS,
    hashSeed,
    seed,
    speedup,
  };
}

function rankEvents(
  { faults = NO_DOUBLE_FAULTS, serve: { kvEvents, ranks }, wire = 'map' }: VllmDoubleOptions,
  rank: number,
): RankEvents | null {
  if (kvEvents === null) return null;
  const { bufferSteps, endpoint, replayEndpoint, topic } = kvEvents;
  // A host by name in place of the wildcard: nobody listens there.
  const given = faults.literalBindAddress === true ? endpoint.replace('*', '127.0.0.1') : endpoint;
  const place = faults.swappedRanks === true ? ranks - 1 - rank : rank;
  return {
    topic,
    live: publisherPlace(given, place),
    replayAt: replayEndpoint === null ? null : publisherPlace(replayEndpoint, place).address,
    replayFrames: wire === 'map' ? 4 : 3,
    history: bufferSteps,
    encode: (batch) => encodeVllmBatch(batch, wire),
  };
}

/** A tokenizer whose chats begin otherwise than by the model's own template. */
function otherTemplate(own: TextTokenizer): TextTokenizer {
  return {
    size: own.size,
    addedTokens: own.addedTokens,
    hasTemplate: own.hasTemplate,
    encode: (text, addSpecialTokens) => own.encode(text, addSpecialTokens),
    decode: (ids) => own.decode(ids),
    renderChat: (messages, options) => `the other ${own.renderChat(messages, options)}`,
  };
}
