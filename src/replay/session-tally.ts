// Figures of a session trace: resumed turns, blocks that left a device although their session comes back to them, blocks released.
import type { EngineReport } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import { BlockEnds } from '../simulator/index.ts';
import { Distribution, rate } from './distribution.ts';
import { FIRST_PROMPT_TOKEN, type SessionPlan } from './session-plan.ts';
import type { SessionReport } from './types.ts';

/** Blocks for which room is made before they are there. */
const MAX_EXPECTED = 2 ** 22;

/** Collects them. */
export class SessionTally {
  readonly #plan: SessionPlan;
  readonly #ttft = new Distribution();
  /** By token of an id: turns to come that have it. */
  readonly #uses: Uint32Array;
  readonly #ends: BlockEnds;
  #resumed = 0;
  #inputTokens = 0;
  #cachedTokens = 0;
  #evicted = 0;
  #liveEvictions = 0;

  /** @param blockSize tokens per block of the engines. */
  constructor(plan: SessionPlan, blockSize: number) {
    this.#plan = plan;
    const ids = plan.endOfIds - FIRST_PROMPT_TOKEN;
    // As many device blocks as there are ids, or fewer larger ones; smaller blocks let the table grow.
    this.#ends = new BlockEnds(Math.min(ids, Math.ceil((ids * plan.blockSize) / blockSize), MAX_EXPECTED));
    this.#uses = new Uint32Array(plan.endOfIds - FIRST_PROMPT_TOKEN);
    for (const { firstToken, turns } of plan.sessions) {
      const first = firstToken - FIRST_PROMPT_TOKEN;
      for (const { ids } of turns) for (const id of ids) this.#uses[first + id]! += 1;
    }
  }

  /** A turn is being sent. */
  sent(session: number, turn: number): void {
    const { firstToken, turns } = this.#plan.sessions[session]!;
    const first = firstToken - FIRST_PROMPT_TOKEN;
    for (const id of turns[turn]!.ids) this.#uses[first + id]! -= 1;
  }

  /** A turn is answered. @param ttftMs −1 = it has no output, or does not count. */
  completed(session: number, turn: number, ttftMs: number, { cachedTokens }: EngineReport): void {
    if (turn === 0) return;
    this.#resumed += 1;
    this.#inputTokens += this.#plan.sessions[session]!.turns[turn]!.inputTokens;
    this.#cachedTokens += cachedTokens ?? 0;
    if (ttftMs >= 0) this.#ttft.add(ttftMs);
  }

  /** KV events of an engine. */
  events(events: readonly KvEvent[]): void {
    this.#ends.follow(events, this.#left);
  }

  /** Ids stand for what comes before them too, so the last token of a block says whether its session comes back to it. */
  readonly #left = (token: number): void => {
    this.#evicted += 1;
    // Neither an answer's token nor one of what is left over behind a prompt's blocks.
    if (token < FIRST_PROMPT_TOKEN || token >= this.#plan.endOfIds) return;
    if (this.#uses[token - FIRST_PROMPT_TOKEN]! > 0) this.#liveEvictions += 1;
  };

  report(releasedBlocks: number): SessionReport {
    return {
      sessions: this.#plan.sessions.length,
      resumed_turns: this.#resumed,
      resumed_ttft_ms: this.#ttft.summary(),
      resumed_hit_rate_tokens: rate(this.#cachedTokens, this.#inputTokens),
      evicted_blocks: this.#evicted,
      live_evictions: this.#liveEvictions,
      released_blocks: releasedBlocks,
    };
  }
}
