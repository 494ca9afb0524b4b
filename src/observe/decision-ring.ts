// The last decisions, within a number of bytes. Candidate rows lie in segments of doubles that are used again once their
// decisions are the oldest; texts and facts are objects, counted at a flat rate.

import { rowStride } from './candidate-rows.ts';
import type { DecisionInput } from './decision-input.ts';
import type {
  BookingReader,
  DecisionBooking,
  DecisionFilter,
  DecisionReader,
  DecisionRecord,
} from './decision-record.ts';
import { RowChooser } from './decision-rows.ts';
import type { Metrics } from './metrics-port.ts';
import { type DecisionEnd, StoredDecision } from './stored-decision.ts';

/** Options of {@link DecisionRing}. */
export interface DecisionRingOptions {
  /** Memory for decisions; below 64 KiB counts as 64 KiB. */
  readonly bytes: number;
  /** Candidates kept per decision, ≥ 1. */
  readonly candidates: number;
  /** Turns a session id into what may be shown of it: 8 hex digits of a hash with a key of this process. */
  readonly hashId: (text: string) => string;
  /** Clock time at start, in ms: ids go on from it, so that they differ from those before a restart. */
  readonly startMs: number;
  readonly metrics: Metrics;
}

/** Hears of decisions as they happen. */
export type DecisionListener = (phase: 'booked' | 'completed', record: DecisionRecord) => void;

interface Segment {
  readonly columns: Float64Array;
  /** Doubles in use. */
  used: number;
  /** Number of the first decision in it. */
  readonly first: number;
  readonly decisions: StoredDecision[];
  /** Sum of `bytes` of its decisions. */
  objectBytes: number;
}

const LEAST_BYTES = 64 * 1024;
const MOST_SEGMENT_BYTES = 256 * 1024;
/** At least this many segments share the budget, so that little is lost when the oldest goes. */
const SEGMENTS = 16;
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const ID_DIGITS = 10;

/** Keeps decisions, oldest out. */
export class DecisionRing implements DecisionReader, BookingReader {
  readonly #limit: number;
  #rowLimit: number;
  readonly #segmentDoubles: number;
  readonly #hashId: (text: string) => string;
  readonly #firstNumber: number;
  readonly #segments: Segment[] = [];
  readonly #chooser = new RowChooser();
  readonly #listeners = new Set<DecisionListener>();
  /** An array of an emptied segment, to be used again. */
  #spare: Float64Array | null = null;
  #next: number;
  /** All of an id but its last two digits, which change every time. */
  #head = -1;
  #headText = '';
  /** Sum over all segments. */
  #objectBytes = 0;

  constructor(options: DecisionRingOptions) {
    this.#limit = Math.max(LEAST_BYTES, options.bytes);
    const segmentBytes = Math.min(MOST_SEGMENT_BYTES, this.#limit / SEGMENTS);
    this.#segmentDoubles = Math.floor(segmentBytes / 8);
    this.#rowLimit = options.candidates;
    this.#hashId = options.hashId;
    // 256 ids per ms of uptime that the last process may have used and this one must not repeat.
    this.#firstNumber = Math.max(0, Math.floor(options.startMs)) * 256;
    this.#next = this.#firstNumber;
    options.metrics.gauge('pointsman_decision_ring_bytes', () => this.bytes);
    options.metrics.gauge('pointsman_decisions_held', () => this.size);
  }

  /** Keeps at most this many candidates of each further decision. */
  setCandidates(most: number): void {
    this.#rowLimit = most;
  }

  /** Bytes in use, by the flat rates. */
  get bytes(): number {
    return this.#segments.length * this.#segmentDoubles * 8 + this.#objectBytes;
  }

  /** Decisions held. */
  get size(): number {
    const first = this.#segments[0];
    return first === undefined ? 0 : this.#next - first.first;
  }

  /** Takes a decision down at the moment of booking; what is returned takes the rest. */
  open(input: DecisionInput): StoredDecision {
    const stride = rowStride(input);
    const limit = Math.max(1, Math.min(this.#rowLimit, Math.floor(this.#segmentDoubles / stride)));
    const wanted = Math.min(limit, input.columns.count + input.excluded.count) * stride;
    const segment = this.#segmentFor(wanted);
    const decision = new StoredDecision(
      this.#idOf(this.#next++),
      input,
      this.#hashId,
      segment.columns,
      segment.used,
      limit,
      this.#chooser,
    );
    segment.used += decision.rowCount * stride;
    segment.decisions.push(decision);
    this.#addBytes(segment, decision.bytes);
    this.#shrink();
    this.#tell('booked', decision);
    return decision;
  }

  /** The hint stage ran for a decision. */
  hinted(decision: StoredDecision, ...facts: Parameters<StoredDecision['hinted']>): void {
    const before = decision.bytes;
    decision.hinted(...facts);
    if (decision.bytes === before) return;
    // A decision that fell out of the ring meanwhile counts no more.
    const segment = this.#segmentOf(decision.id);
    if (segment !== null) this.#addBytes(segment, decision.bytes - before);
  }

  /** A decision's request ended. */
  complete(decision: StoredDecision, end: DecisionEnd): void {
    decision.complete(end);
    if (!decision.dropped) this.#tell('completed', decision);
  }

  /** Adds a listener; the function returned takes it away. A listener that throws is not heard of. */
  onDecision(listener: DecisionListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  list(limit: number, filter: DecisionFilter): readonly DecisionRecord[] {
    const hash = filter.sessionId === undefined ? null : this.#hashId(filter.sessionId);
    const found: DecisionRecord[] = [];
    for (let index = this.#segments.length - 1; index >= 0; index -= 1) {
      const decisions = this.#segments[index]?.decisions ?? [];
      for (let at = decisions.length - 1; at >= 0; at -= 1) {
        if (found.length >= limit) return found;
        const decision = decisions[at];
        if (decision === undefined) continue;
        if (filter.sessionIdHash !== undefined && decision.sessionIdHash !== filter.sessionIdHash) continue;
        if (hash !== null && decision.sessionIdHash !== hash) continue;
        if (filter.workerId !== undefined && decision.workerId !== filter.workerId) continue;
        found.push(decision.record());
      }
    }
    return found;
  }

  get(id: string): DecisionRecord | null {
    return this.#stored(id)?.record() ?? null;
  }

  ofRequest(requestId: string): readonly DecisionRecord[] {
    return this.#storedOf(requestId).map((decision) => decision.record());
  }

  booking(id: string): DecisionBooking | null {
    return this.#stored(id)?.booking() ?? null;
  }

  bookingsOf(requestId: string): readonly DecisionBooking[] {
    return this.#storedOf(requestId).map((decision) => decision.booking());
  }

  #storedOf(requestId: string): readonly StoredDecision[] {
    return this.#segments.flatMap(({ decisions }) =>
      decisions.filter((decision) => decision.requestId === requestId),
    );
  }

  #idOf(number: number): string {
    const end = number % PAIRS.length;
    const head = (number - end) / PAIRS.length;
    if (head !== this.#head) {
      this.#head = head;
      this.#headText = `d-${digitsOf(head, ID_DIGITS - 2)}`;
    }
    return this.#headText + PAIRS[end]!;
  }

  #stored(id: string): StoredDecision | null {
    const segment = this.#segmentOf(id);
    return segment?.decisions[(numberOf(id) ?? 0) - segment.first] ?? null;
  }

  #segmentOf(id: string): Segment | null {
    const number = numberOf(id);
    if (number === null || number >= this.#next) return null;
    return this.#segments.findLast((segment) => number >= segment.first) ?? null;
  }

  #segmentFor(doubles: number): Segment {
    const last = this.#segments.at(-1);
    // Decisions with few rows fill their share of the budget with objects before the doubles are used up.
    const share = this.#limit / SEGMENTS;
    if (last !== undefined && last.used + doubles <= last.columns.length && last.objectBytes < share)
      return last;
    const columns = this.#spare ?? new Float64Array(this.#segmentDoubles);
    this.#spare = null;
    const segment = { columns, used: 0, first: this.#next, decisions: [], objectBytes: 0 };
    this.#segments.push(segment);
    return segment;
  }

  #shrink(): void {
    while (this.bytes > this.#limit && this.#segments.length > 1) {
      const oldest = this.#segments.shift();
      if (oldest === undefined) return;
      this.#objectBytes -= oldest.objectBytes;
      for (const decision of oldest.decisions) decision.drop();
      this.#spare = oldest.columns;
    }
  }

  #addBytes(segment: Segment, bytes: number): void {
    segment.objectBytes += bytes;
    this.#objectBytes += bytes;
  }

  #tell(phase: 'booked' | 'completed', decision: StoredDecision): void {
    if (this.#listeners.size === 0) return;
    const record = decision.record();
    for (const listener of [...this.#listeners]) {
      try {
        listener(phase, record);
      } catch {
        // Watching must not disturb what is watched.
      }
    }
  }
}

/** Every pair of digits: the end of an id, so that a decision makes one text and not one per digit. */
const PAIRS: readonly string[] = Array.from({ length: 1024 }, (_, number) => digitsOf(number, 2));

function digitsOf(number: number, count: number): string {
  let text = '';
  for (let left = number, digit = 0; digit < count; digit += 1) {
    text = ALPHABET.charAt(left % 32) + text;
    left = Math.floor(left / 32);
  }
  return text;
}

function numberOf(id: string): number | null {
  if (id.length !== ID_DIGITS + 2 || !id.startsWith('d-')) return null;
  let number = 0;
  for (const character of id.slice(2)) {
    const digit = ALPHABET.indexOf(character);
    if (digit < 0) return null;
    number = number * 32 + digit;
  }
  return number;
}
