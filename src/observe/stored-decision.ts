// One decision as the ring keeps it: facts of the booking, then what became of it, written in place.
import { ROW_STRIDE, readCandidates, writeCandidate, writeExcluded } from './candidate-rows.ts';
import type { DecisionInput } from './decision-input.ts';
import type { DecisionRecord, ReleaseReason, SentHintRecord } from './decision-record.ts';
import type { RowChooser } from './decision-rows.ts';

type Hints = NonNullable<DecisionRecord['hints']>;
type MutableSentHint = { -readonly [K in keyof SentHintRecord]: SentHintRecord[K] };

/** What the end of a request adds to its record. */
export interface DecisionEnd {
  readonly status: number;
  readonly finish: string | null;
  readonly endMs: number;
  readonly report: DecisionRecord['report'];
}

const NOTHING = new Float64Array(0);
/** Bytes that a decision takes besides its rows and texts, as measured on Node 20 with a margin. */
const BASE_BYTES = 1024;
const BYTES_PER_ACTION = 192;
const BYTES_PER_POLICY = 160;

/** A decision under way or complete. Every method may be called at any time; after the end, late hint outcomes still count. */
export class StoredDecision {
  readonly id: string;
  readonly requestId: string;
  readonly sessionIdHash: string | null;
  readonly workerId: bigint;
  /** What this decision counts for in the ring's budget. */
  bytes: number;

  /** The record less candidates and less what comes later. */
  readonly #fixed: Omit<
    DecisionRecord,
    'candidates' | 'booking' | 'hints' | 'prediction' | 'report' | 'outcome' | 'wall'
  >;
  readonly #booking: {
    readonly attempt_id: number;
    readonly prefill_tokens: number;
    readonly decode_blocks: number;
  };
  readonly #wall: Omit<DecisionRecord['wall'], 'hint_us'>;
  readonly #weights: Readonly<Record<string, number>> | null;
  readonly #tracksPrefillTokens: boolean;
  #leastActivePrefill = 0;
  readonly #predictedTokens: number | null;
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
    const session = sessionRecord(input.session, hashId);
    this.sessionIdHash = session?.id_hash ?? null;
    this.workerId = idOf(input.columns.idWords, input.row);
    this.#fixed = fixedPart(id, input, session, this.workerId);
    this.#booking = {
      attempt_id: input.attemptId,
      prefill_tokens: input.prefillTokens,
      decode_blocks: input.decodeBlocks,
    };
    this.#wall = {
      tokenize_us: input.tokenizeMicros,
      hash_us: input.hashMicros,
      lookup_us: input.lookupMicros,
      select_us: input.selectMicros,
    };
    this.#weights = input.costWeights;
    this.#tracksPrefillTokens = input.tracksPrefillTokens;
    this.#predictedTokens = input.predictedTokens;
    this.bytes = BASE_BYTES + 2 * (input.requestId.length + input.eventAges.length * 32);
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
    this.#hints = { ...hints, sent: hints.sent.map((action) => ({ ...action })) };
    this.#withHintsTokens = withHintsTokens;
    this.#hintMicros = micros;
    this.bytes += hints.sent.length * BYTES_PER_ACTION + hints.policies.length * BYTES_PER_POLICY;
  }

  /** An engine reported what became of an action; false when this decision sent no such action. */
  hintOutcome(
    actionId: string,
    outcome: NonNullable<SentHintRecord['outcome']>,
    blocksDone: number | null,
  ): boolean {
    const action = this.#hints?.sent.find((sent) => sent.action_id === actionId);
    if (action === undefined) return false;
    action.outcome = outcome;
    if (blocksDone !== null) action.blocks_done = blocksDone;
    return true;
  }

  /** The first output token was relayed. */
  firstToken(atMs: number): void {
    this.#ttftMs ??= atMs - this.#fixed.at_ms;
  }

  /** The booking ended. */
  released(reason: ReleaseReason, atMs: number): void {
    this.#released = reason;
    this.#heldMs = atMs - this.#fixed.at_ms;
  }

  /** The request ended; actions nobody reported on become `unreported`. */
  complete(end: DecisionEnd): void {
    for (const action of this.#hints?.sent ?? []) action.outcome ??= 'unreported';
    this.#report = end.report;
    this.#outcome = {
      status: end.status,
      finish: end.finish,
      ttft_ms: this.#ttftMs,
      e2e_ms: end.endMs - this.#fixed.at_ms,
      retries: 0,
    };
  }

  /** The record as it stands now. */
  record(): DecisionRecord {
    const predicted = this.#predictedTokens;
    return {
      ...this.#fixed,
      candidates: readCandidates(this.#columns, this.#start, this.#rows, {
        weights: this.#weights,
        facts: {
          promptTokens: this.#fixed.prompt.tokens,
          blockSize: this.#fixed.prompt.block_size,
          requestBlocks: Math.ceil(this.#fixed.prompt.tokens / this.#fixed.prompt.block_size),
          role: this.#fixed.role,
          tracksPrefillTokens: this.#tracksPrefillTokens,
          leastActivePrefill: this.#leastActivePrefill,
        },
        filters: this.#filters,
      }),
      booking: { ...this.#booking, released: this.#released, held_ms: this.#heldMs },
      hints:
        this.#hints === null
          ? null
          : { ...this.#hints, sent: this.#hints.sent.map((action) => ({ ...action })) },
      prediction:
        predicted === null
          ? null
          : { cached_tokens: predicted, with_hints_tokens: this.#withHintsTokens ?? predicted },
      report: this.#report,
      outcome: this.#outcome,
      wall: { ...this.#wall, hint_us: this.#hintMicros },
    };
  }

  #copyRows(input: DecisionInput, limit: number, chooser: RowChooser): void {
    const { columns, droppedBy, excluded } = input;
    const chosen = chooser.choose(columns.count, input.costs, input.row, limit);
    if (droppedBy !== null) this.#filters = [];
    for (let index = 0; index < chosen; index += 1) {
      const row = chooser.rows[index] ?? 0;
      writeCandidate(this.#columns, this.#start + index * ROW_STRIDE, input, row);
      this.#filters?.push(droppedBy?.[row] ?? null);
    }
    const others = Math.min(excluded.count, limit - chosen);
    for (let index = 0; index < others; index += 1) {
      writeExcluded(this.#columns, this.#start + (chosen + index) * ROW_STRIDE, input, index);
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

function fixedPart(id: string, input: DecisionInput, session: DecisionRecord['session'], workerId: bigint) {
  const { columns, row } = input;
  return {
    schema: 1 as const,
    id,
    request_id: input.requestId,
    attempt: input.attempt,
    at_ms: input.atMs,
    door: input.door,
    model: input.model,
    partition: { model: input.model, routing_group: input.routingGroup },
    role: input.role,
    mode: input.mode,
    policy: input.policy,
    session,
    prompt: {
      tokens: input.promptTokens,
      blocks: input.blocks,
      block_size: input.blockSize,
      tokens_source: input.tokensSource,
      head_hash: input.sequence === null || input.sequence.length === 0 ? null : idOf(input.sequence, 0),
    },
    queue: { class: input.policyClass, waited_ms: 0, outcome: 'direct' as const },
    index: {
      kind: input.indexVersion === null ? ('none' as const) : ('events' as const),
      version: input.indexVersion ?? 0,
      per_worker_age_ms: Object.fromEntries(input.eventAges.map((age) => [String(age.workerId), age.ageMs])),
      stale_workers: [],
    },
    candidates_total: columns.count + input.excluded.count,
    pick: {
      worker_id: workerId,
      dp_rank: columns.ranks[row] ?? 0,
      by: input.by,
      ties: input.ties,
      random_draw: input.randomDraw,
      temperature: input.temperature,
    },
  };
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

function idOf(words: Uint32Array, index: number): bigint {
  return (BigInt(words[2 * index + 1] ?? 0) << 32n) | BigInt(words[2 * index] ?? 0);
}
