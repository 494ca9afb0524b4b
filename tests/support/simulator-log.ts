// A sink for simulated engines that writes down what it hears as short lines, and keeps account of the hashes that KV events
// say are resident.
import type { KvEvent, KvHintOutcomeEvent } from '../../src/events/index.ts';
import type { HashPairs } from '../../src/kv/index.ts';
import type { SimulatedHintOutcome, SimulatedResult, SimulatorSink } from '../../src/simulator/index.ts';

/** Records calls in order. */
export class SimulatorLog implements SimulatorSink {
  /** Output tokens by request. */
  readonly tokens = new Map<string, number[]>();
  readonly finishedIds = new Set<string>();
  readonly rejectedIds = new Set<string>();
  readonly outcomes = new Map<string, readonly SimulatedHintOutcome[]>();
  /** Hashes that events say are resident now, and all that ever were, as decimal strings. */
  readonly resident = new Set<string>();
  readonly everStored = new Set<string>();
  /** Outcomes of hints that came as events. */
  readonly late: KvHintOutcomeEvent[] = [];
  /** Events that cannot be true after those before them. */
  readonly contradictions: string[] = [];
  #lines: string[] = [];

  /** Lines since the last call. */
  take(): string[] {
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }

  admitted(id: string, cachedTokens: number, outcomes: readonly SimulatedHintOutcome[], at: number): void {
    this.#lines.push(`admitted ${id} ${cachedTokens} @${at}`);
    this.outcomes.set(id, outcomes);
  }

  chunk(id: string, tokenId: number, at: number): void {
    this.#lines.push(`chunk ${id} @${at}`);
    const tokens = this.tokens.get(id) ?? [];
    tokens.push(tokenId);
    this.tokens.set(id, tokens);
  }

  finished(id: string, result: SimulatedResult, at: number): void {
    this.finishedIds.add(id);
    if (result.rejected) {
      this.rejectedIds.add(id);
      this.#lines.push(`rejected ${id} @${at}`);
    } else if (result.failure !== undefined) {
      this.#lines.push(`failed ${id} ${result.failure} @${at}`);
    } else {
      this.#lines.push(`finished ${id} ${result.cachedTokens}/${result.outputTokens} @${at}`);
    }
  }

  kvEvents(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === 'hint-outcome') this.late.push(event);
      if (event.kind !== 'stored' && event.kind !== 'removed') continue;
      this.#lines.push(`${event.kind} ${event.external.length / 2}`);
      if (event.kind === 'stored') this.#stored(event.external, event.tokenIds.length, event.blockSize);
      else this.#removed(event.external);
    }
  }

  transfer(phase: 'start' | 'end', id: string, blocks: number, at: number): void {
    this.#lines.push(`transfer ${phase} ${id} ${blocks} @${at}`);
  }

  #stored(external: HashPairs, tokens: number, blockSize: number): void {
    if (tokens !== (external.length / 2) * blockSize) this.contradictions.push('tokens do not match blocks');
    for (const hash of hashesOf(external)) {
      if (this.resident.has(hash)) this.contradictions.push(`${hash} stored twice`);
      this.resident.add(hash);
      this.everStored.add(hash);
    }
  }

  #removed(external: HashPairs): void {
    for (const hash of hashesOf(external)) {
      if (!this.resident.delete(hash)) this.contradictions.push(`${hash} removed, but not resident`);
    }
  }
}

function hashesOf(external: HashPairs): string[] {
  const hashes: string[] = [];
  for (let index = 0; index < external.length; index += 2) {
    hashes.push(String((BigInt(external[index + 1]!) << 32n) | BigInt(external[index]!)));
  }
  return hashes;
}
