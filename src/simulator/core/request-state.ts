// One request inside the engine: its tokens, its place in the pass algorithm, its block table. Plain numbers and typed arrays;
// nothing per token or block.
import { blockHashSeed, type HashPairs, type U64 } from '../../kv/index.ts';
import type { SimulatedHandoff, SimulatedHintOutcome, SimulatedRequest, SimulatedResult } from '../types.ts';
import type { ExternalHasher } from './external-chain.ts';
import type { FetchPlan, HintPlan } from './hint-plan.ts';

const NO_BLOCKS = new Int32Array(0);
const NO_HASHES = new Uint32Array(0);

/** Where a request stands: waiting in the queue, parked until KV arrives or is taken, running, or out of the engine. */
export type RequestStatus = 'waiting' | 'parked' | 'running' | 'gone';

/** What the machine knows of one request. Arrays are empty until `prepare`. */
export class RequestState {
  readonly id: string;
  readonly sessionId: string | null;
  readonly cacheSalt: string | null;
  /** Of its local block hashes. */
  readonly blockSeed: U64;
  readonly outputTarget: number;
  readonly outputSeed: number;
  readonly hints: HintPlan;
  readonly handoff: SimulatedHandoff | null;
  /** The KV of its whole prompt came from the engine that computed it, and is held. */
  handedOver = false;
  /** Whether that is still to be asked for, once. */
  mayTake: boolean;
  /** Earliest time it may be scheduled, ms: its submission, or the end of its fetch. */
  readyAt: number;
  status: RequestStatus = 'waiting';
  /** Prompt and generated tokens; [0, length) are valid. */
  tokens: Uint32Array;
  length: number;
  /** Tokens that count as prompt: grows when a pre-empted request has to recompute its output. */
  promptLength: number;
  /** Tokens whose KV exists at the end of the pass under way. */
  computed = 0;
  generated = 0;
  /** Block table: copies in [0, blocks) are held. */
  table: Int32Array = NO_BLOCKS;
  blocks = 0;
  /** Leading blocks that are cached under their hash; the rest is private. */
  cachedBlocks = 0;
  /** External hashes; [0, hashedBlocks) are valid. */
  external: HashPairs = NO_HASHES;
  hashedBlocks = 0;
  /** Sequence hash of the last hashed block. */
  lastSequence: U64 | null = null;
  /** Prompt tokens found cached at the first admission, fetched ones included; −1 before it. */
  reused = -1;
  /** The same as the engine that computed the prompt told; null = it told nothing. */
  cachedElsewhere: number | null = null;
  /** Fetch to try at admission; null once tried, or without a hint. */
  fetch: FetchPlan | null;
  /** Whether host memory is still to be asked for more of the prefix, once per admission. */
  mayOnboard = true;
  readonly outcomes: SimulatedHintOutcome[];
  /** The request ended, and its evictions wait until no engine takes its blocks: per action the own blocks it names; null = none wait. */
  awaitedEvictions: readonly (Int32Array | null)[] | null = null;
  #prepared = false;

  constructor(request: SimulatedRequest, outputSeed: number, hints: HintPlan, now: number) {
    this.id = request.id;
    this.sessionId = request.sessionId;
    this.cacheSalt = request.cacheSalt ?? null;
    this.blockSeed = blockHashSeed({ cacheSalt: this.cacheSalt });
    this.outputTarget = request.outputTokens;
    this.outputSeed = outputSeed;
    this.hints = hints;
    this.handoff = request.handoff ?? null;
    this.mayTake = this.handoff?.leg === 'decode';
    this.fetch = hints.fetch;
    this.outcomes = [...hints.outcomes];
    this.readyAt = now;
    this.tokens = request.tokens;
    this.length = request.tokens.length;
    this.promptLength = this.length;
  }

  /** Cached tokens as they are reported. */
  get cachedTokens(): number {
    return this.cachedElsewhere ?? Math.max(0, this.reused);
  }

  /** Hashes the prompt and makes room for the output; done when the request first comes to the head of the queue. */
  prepare(hasher: ExternalHasher, blockSize: number): void {
    if (this.#prepared) return;
    this.#prepared = true;
    const prompt = this.tokens;
    const { external, sequence } = hasher.prompt(prompt, this.blockSeed);
    const total = prompt.length + this.outputTarget;
    const blocks = Math.ceil(total / blockSize);
    this.tokens = new Uint32Array(total);
    this.tokens.set(prompt);
    this.table = new Int32Array(blocks);
    this.external = new Uint32Array(2 * blocks);
    this.external.set(external);
    this.hashedBlocks = external.length / 2;
    if (this.hashedBlocks > 0) {
      this.lastSequence = { lo: sequence.at(-2)!, hi: sequence.at(-1)! };
    }
  }
}

/** How a request stands, as its end. */
export function resultOf(request: RequestState): SimulatedResult {
  return { cachedTokens: request.cachedTokens, outputTokens: request.generated, rejected: false };
}
