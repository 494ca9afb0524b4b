// The slots of a llama.cpp server: each holds the tokens of its last request, and a new one computes only what it has not in common with
// them. Behaviour after tools/server of llama.cpp: a request that names a slot waits for this one, any other takes the idle slot that
// resembles it most, else the one used least recently.
import type { Clock } from '../../../plugin/index.ts';

/** Part of a prompt that a slot must have for its likeness to count (`--slot-prompt-similarity`). */
const LEAST_LIKENESS = 0.1;

/** A request for a slot. */
export interface SlotRequest {
  readonly tokens: readonly number[];
  readonly outputTokens: number;
  /** −1 = any. */
  readonly idSlot: number;
  readonly usesCache: boolean;
  /** It runs: so many tokens were in the slot. */
  started(slot: number, cachedTokens: number): void;
  token(index: number): void;
  finished(): void;
}

interface Slot {
  readonly id: number;
  tokens: number[];
  lastUsed: number;
  task: SlotRequest | null;
  decoded: number;
}

/** What `GET /slots` says of one. */
export interface SlotState {
  readonly id: number;
  readonly isProcessing: boolean;
  readonly decoded: number;
  readonly tokens: number;
}

/** The slots of one server. */
export class Slots {
  readonly #clock: Clock;
  readonly #tokenMs: number;
  readonly #slots: Slot[];
  #deferred: SlotRequest[] = [];
  #uses = 0;

  /** @param tokenMs time of one output token. */
  constructor(count: number, clock: Clock, tokenMs: number) {
    this.#clock = clock;
    this.#tokenMs = tokenMs;
    this.#slots = Array.from({ length: count }, (_, id) => ({
      ...{ id, tokens: [], lastUsed: 0, task: null, decoded: 0 },
    }));
  }

  /** Requests that wait for a slot. */
  get deferred(): number {
    return this.#deferred.length;
  }

  /** Requests that run. */
  get processing(): number {
    return this.#slots.filter(({ task }) => task !== null).length;
  }

  states(): SlotState[] {
    return this.#slots.map(({ decoded, id, task, tokens }) => ({
      ...{ id, isProcessing: task !== null, decoded, tokens: tokens.length },
    }));
  }

  /** Takes a request. @returns ends it: what was computed stays in its slot. */
  submit(request: SlotRequest): () => void {
    this.#deferred.push(request);
    this.#assign();
    return () => {
      this.#deferred = this.#deferred.filter((waiting) => waiting !== request);
      for (const slot of this.#slots) if (slot.task === request) this.#free(slot);
    };
  }

  #assign(): void {
    const waiting = this.#deferred;
    this.#deferred = [];
    // One that waits for its slot does not hold up those behind it.
    for (const request of waiting) {
      const slot = this.#slotFor(request);
      if (slot === null) this.#deferred.push(request);
      else this.#start(slot, request);
    }
  }

  #slotFor({ idSlot, tokens }: SlotRequest): Slot | null {
    if (idSlot !== -1) {
      const named = this.#slots[idSlot];
      // There may be no such slot: the server waits for it all the same.
      return named !== undefined && named.task === null ? named : null;
    }
    let best: Slot | null = null;
    let likeness = LEAST_LIKENESS;
    for (const slot of this.#slots) {
      const like = commonTokens(slot.tokens, tokens) / tokens.length;
      if (slot.task !== null || like <= likeness) continue;
      best = slot;
      likeness = like;
    }
    if (best !== null) return best;
    return this.#slots
      .filter(({ task }) => task === null)
      .reduce<Slot | null>(
        (least, slot) => (least === null || slot.lastUsed < least.lastUsed ? slot : least),
        null,
      );
  }

  #start(slot: Slot, request: SlotRequest): void {
    const common = request.usesCache ? commonTokens(slot.tokens, request.tokens) : 0;
    // The last token of a prompt is always computed.
    const cached = Math.min(common, request.tokens.length - 1);
    this.#uses += 1;
    slot.lastUsed = this.#uses;
    slot.task = request;
    slot.decoded = 0;
    slot.tokens = [...request.tokens];
    request.started(slot.id, cached);
    const next = (): void => {
      if (slot.task !== request) return;
      if (slot.decoded === request.outputTokens) {
        this.#free(slot);
        request.finished();
        return;
      }
      slot.decoded += 1;
      // The last token that is drawn is not computed.
      if (slot.decoded > 1) slot.tokens.push(outputToken(slot.decoded - 2));
      request.token(slot.decoded - 1);
      this.#clock.schedule(this.#tokenMs, next);
    };
    this.#clock.schedule(this.#tokenMs, next);
  }

  #free(slot: Slot): void {
    slot.task = null;
    this.#assign();
  }
}

/** Token at a place of any answer. */
export function outputToken(index: number): number {
  return 20 + (index % 40);
}

function commonTokens(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length);
  let common = 0;
  while (common < end && a[common] === b[common]) common += 1;
  return common;
}
