// One decision as the ring keeps it: facts of the booking, then what became of it, written in place.
import { readCandidates, rowReading, rowStride, writeCandidates, writeExcluded } from './candidate-rows.ts';
import type { DecisionInput } from './decision-input.ts';
import type {
  CandidateRecord,
  DecisionBooking,
  DecisionRecord,
  ReleaseReason,
  SentHintRecord,
} from './decision-record.ts';
import type { RowChooser } from './decision-rows.ts';
import { classificationRecord, queueRecord } from './recorded-waits.ts';
import { copyLinkRecord, timingRecord } from './timing-record.ts';

type Hints = NonNullable<DecisionRecord['hints']>;
type MutableSentHint = { -readonly [K in keyof SentHintRecord]: SentHintRecord[K] };

/** What the end of a request adds to its record. */
export interface DecisionEnd {
  readonly status: number;
  /** Tries of the request before; absent = none. */
  readonly retries?: number;
  readonly finish: string | null;
  readonly endMs: number;
  readonly report: DecisionRecord['report'];
}

const NOTHING = new Float64Array(0);
/** Bytes that a decision takes besides its rows and texts, as measured on Node 20 with a margin. */
const BASE_BYTES = 1024;
const BYTES_PER_ACTION = 256;
const BYTES_PER_POLICY = 160;
const BYTES_PER_CLASSIFICATION = 320;
const BYTES_PER_AFFINITY = 160;
const BYTES_PER_HINTS = 96;
const BYTES_PER_TIMINGS = 224;
const BYTES_PER_LINK = 96;
/** What an engine says of an action is recorded when it is a word: a record holds no free text from outside. */
const REASON = /^[\w.:-]{1,64}$/;

/** An engine's reason as it is recorded; null = it gave none that is a word. */
export function recordedReason(reason: string | null): string | null {
  return reason !== null && REASON.test(reason) ? reason : null;
}

/** A decision under way or complete. Every method may be called at any time; after the end, late hint outcomes still count. */
export class StoredDecision {
  readonly id: string;
  readonly requestId: string;
  /** What this decision counts for in the ring's budget. */
  bytes: number;

  readonly #input: DecisionInput;
  readonly #session: DecisionRecord['session'];
  /** Chosen worker id in two halves: a bigint is made only when somebody asks. */
  readonly #workerLow: number;
  readonly #workerHigh: number;
  readonly #rank: number;
  readonly #candidatesTotal: number;
  #leastActivePrefill = 0;
  /** Rows of the ring's array that are this decision's. */
  #columns: Float64Array;
  readonly #start: number;
  #rows = 0;
  #dropped = false;
  #filters: (string | null)[] | null = null;

  #released: ReleaseReason | null = null;
  #heldMs: number | null = null;
  #ttftMs: number | null = null;
  #hints: (Omit<Hints, 'sent'> & { readonly sent: MutableSentHint[] }) | null = null;
  #withHintsTokens: number | null = null;
  #hintMicros = 0;
  #report: DecisionRecord['report'] = null;
  #outcome: DecisionRecord['outcome'] = null;

  /** @param columns the ring's array, with room for `limit` rows from `start`. */
  constructor(
    id: string,
    input: DecisionInput,
    hashId: (text: string) => string,
    columns: Float64Array,
    start: number,
    limit: number,
    chooser: RowChooser,
  ) {
    this.id = id;
    this.requestId = input.requestId;
    this.#columns = columns;
    this.#start = start;
    this.#copyRows(input, limit, chooser);
    const { columns: candidates, row } = input;
    this.#input = input;
    this.#session = sessionRecord(input.session, hashId);
    this.#workerLow = candidates.idWords[2 * row] ?? 0;
    this.#workerHigh = candidates.idWords[2 * row + 1] ?? 0;
    this.#rank = candidates.ranks[row] ?? 0;
    this.#candidatesTotal = candidates.count + input.excluded.count;
    const classified = input.classification == null ? 0 : BYTES_PER_CLASSIFICATION;
    const bound = input.affinity == null ? 0 : BYTES_PER_AFFINITY;
    const said = (input.agentHints == null ? 0 : BYTES_PER_HINTS) + 48 * (input.stripped?.length ?? 0);
    // An observation changes one kind; the others are shared with older decisions.
    const timed = input.timings == null ? 0 : BYTES_PER_TIMINGS + 8 * input.timings.length;
    this.bytes =
      BASE_BYTES +
      classified +
      bound +
      said +
      timed +
      (input.copyLink == null ? 0 : BYTES_PER_LINK) +
      2 * (input.requestId.length + input.eventAges.length * 32);
  }

  get sessionIdHash(): string | null {
    return this.#session?.id_hash ?? null;
  }

  /** The chosen worker. */
  get workerId(): bigint {
    return u64(this.#workerLow, this.#workerHigh);
  }

  /** Rows taken of the ring's array. */
  get rowCount(): number {
    return this.#rows;
  }

  /** Whether it fell out of the ring; its candidates are gone then. */
  get dropped(): boolean {
    return this.#dropped;
  }

  /** It falls out of the ring: lets go of the ring's array, which will hold other rows. */
  drop(): void {
    this.#dropped = true;
    this.#columns = NOTHING;
    this.#rows = 0;
  }

  /** The hint stage ran. `withHintsTokens` = cached tokens expected once what was sent has been done. */
  hinted(hints: Hints, withHintsTokens: number | null, micros: number): void {
    this.#hints = hints.sent.length === 0 ? { ...hints, sent: [] } : withOwnActions(hints);
    this.#withHintsTokens = withHintsTokens;
    this.#hintMicros = micros;
    this.bytes += hints.sent.length * BYTES_PER_ACTION + hints.policies.length * BYTES_PER_POLICY;
  }

  /** An engine reported what became of an action; false when this decision sent no such action. */
  hintOutcome(
    actionId: string,
    outcome: NonNullable<SentHintRecord['outcome']>,
    blocksDone: number | null,
    reason: string | null = null,
  ): boolean {
    const action = this.#hints?.sent.find((sent) => sent.action_id === actionId);
    if (action === undefined) return false;
    action.outcome = outcome;
    action.reason = recordedReason(reason);
    if (blocksDone !== null) action.blocks_done = blocksDone;
    return true;
  }

  /** The first output token was relayed. */
  firstToken(atMs: number): void {
    this.#ttftMs ??= atMs - this.#input.arrivedMs;
  }

  /** The booking ended. */
  released(reason: ReleaseReason, atMs: number): void {
    this.#released = reason;
    this.#heldMs = atMs - this.#input.atMs;
  }

  /** The request ended; actions nobody reported on become `unreported`. */
  complete(end: DecisionEnd): void {
    if (this.#hints !== null) for (const action of this.#hints.sent) action.outcome ??= 'unreported';
    this.#report = end.report;
    this.#outcome = {
      status: end.status,
      finish: end.finish,
      ttft_ms: this.#ttftMs,
      e2e_ms: end.endMs - this.#input.arrivedMs,
      retries: end.retries ?? 0,
    };
  }

  /** The record as it stands now. */
  record(): DecisionRecord {
    const input = this.#input;
    const { attempt, handoff, hints, prediction, request_id } = this.booking();
    return {
      schema: 1,
      id: this.id,
      request_id,
      attempt,
      at_ms: input.atMs,
      door: input.door,
      model: input.model,
      partition: { model: input.model, routing_group: input.routingGroup },
      role: input.role,
      mode: input.mode,
      policy: input.policy,
      session: this.#session,
      prompt: {
        tokens: input.promptTokens,
        blocks: input.blocks,
        block_size: input.blockSize,
        tokens_source: input.tokensSource,
        estimated: input.estimated,
        head_hash: input.headLow === null ? null : u64(input.headLow, input.headHigh),
      },
      agent_hints: input.agentHints ?? null,
      stripped: input.stripped ?? [],
      classification: classificationRecord(input.classification ?? null),
      handoff,
      affinity: input.affinity == null ? null : { ...input.affinity },
      queue: queueRecord(input),
      index: {
        kind: input.indexVersion === null ? 'none' : 'events',
        version: input.indexVersion ?? 0,
        per_worker_age_ms: Object.fromEntries(
          input.eventAges.map((age) => [String(age.workerId), age.ageMs]),
        ),
        stale_workers: [...new Set(input.eventAges.filter((age) => age.stale).map((age) => age.workerId))],
      },
      parity: input.parity == null ? null : { findings: input.parity },
      timing: this.#input.timings?.map(timingRecord) ?? null,
      ...copyLinkRecord(input),
      candidates_total: this.#candidatesTotal,
      candidates: this.#candidates(),
      pick: {
        worker_id: this.workerId,
        dp_rank: this.#rank,
        by: input.by,
        ties: input.ties,
        random_draw: input.randomDraw,
        temperature: input.temperature,
      },
      booking: {
        attempt_id: input.attemptId,
        prefill_tokens: input.prefillTokens,
        decode_blocks: input.decodeBlocks,
        released: this.#released,
        held_ms: this.#heldMs,
      },
      hints,
      prediction,
      report: this.#report,
      outcome: this.#outcome,
      wall: {
        tokenize_us: input.tokenizeMicros,
        hash_us: input.hashMicros,
        lookup_us: input.lookupMicros,
        select_us: input.selectMicros,
        hint_us: this.#hintMicros,
      },
    };
  }

  /** The part of the record that a request under way is followed by. */
  booking(): DecisionBooking {
    const { attempt, handoff = null, predictedHostTokens, predictedTokens } = this.#input;
    return {
      request_id: this.requestId,
      attempt,
      handoff: handoff && { ...handoff },
      hints: this.#hints && { ...this.#hints, sent: this.#hints.sent.map((action) => ({ ...action })) },
      prediction:
        predictedTokens === null
          ? null
          : {
              cached_tokens: predictedTokens,
              cached_by_tier: {
                device: predictedTokens - predictedHostTokens,
                host: predictedHostTokens,
              },
              with_hints_tokens: this.#withHintsTokens ?? predictedTokens,
            },
    };
  }

  #candidates(): CandidateRecord[] {
    const reading = rowReading(this.#input, this.#leastActivePrefill, this.#filters);
    return readCandidates(this.#columns, this.#start, this.#rows, reading);
  }

  #copyRows(input: DecisionInput, limit: number, chooser: RowChooser): void {
    const { columns, droppedBy, excluded } = input;
    const chosen = chooser.choose(columns.count, input.costs, input.row, limit);
    writeCandidates(this.#columns, this.#start, input, chooser.rows, chosen);
    if (droppedBy !== null) {
      this.#filters = [];
      for (let index = 0; index < chosen; index += 1) {
        this.#filters.push(droppedBy[chooser.rows[index] ?? 0] ?? null);
      }
    }
    const others = Math.min(excluded.count, limit - chosen);
    const stride = rowStride(input);
    for (let index = 0; index < others; index += 1) {
      writeExcluded(this.#columns, this.#start + (chosen + index) * stride, input, index);
    }
    this.#rows = chosen + others;
    if ((input.costWeights?.overlap_score_credit_decay ?? 0) > 0) {
      let least = Number.POSITIVE_INFINITY;
      for (let row = 0; row < columns.count; row += 1) {
        least = Math.min(least, columns.activePrefillTokens[row] ?? 0);
      }
      this.#leastActivePrefill = least;
    }
  }
}

function withOwnActions(hints: Hints): Omit<Hints, 'sent'> & { readonly sent: MutableSentHint[] } {
  return { ...hints, sent: hints.sent.map((action) => ({ ...action })) };
}

function sessionRecord(
  session: DecisionInput['session'],
  hashId: (text: string) => string,
): DecisionRecord['session'] {
  if (session === null) return null;
  return {
    id_hash: hashId(session.sessionId),
    parent_hash: session.parentSessionId === undefined ? null : hashId(session.parentSessionId),
    final: session.sessionFinal ?? false,
    trigger: session.inputTrigger ?? null,
  };
}

function u64(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
