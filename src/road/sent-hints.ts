// What became of the hint actions that went out: with the response head, later by event, or never.
import type { ReportedHintOutcome } from '../engines/index.ts';
import type { HintStageResult } from '../host/index.ts';
import { type Metrics, recordedReason, type SentHintRecord, type StoredDecision } from '../observe/index.ts';
import type { KvHint, KvHintAction, Logger, WorkerRank } from '../plugin/index.ts';
import type { Scheduler } from '../scheduling/index.ts';
import { HintRejections } from './hint-rejections.ts';
import { jsonBytes } from './hint-size.ts';
import type { LateHintOutcome } from './types.ts';

/** A trusted caller's envelope, in records and log lines. */
const INCOMING = 'incoming';

/** Where the outcomes of envelopes are told. */
interface OutcomePorts {
  readonly metrics: Metrics;
  readonly rejections: HintRejections;
  readonly copies: Pick<Scheduler['copies'], 'copyFailed' | 'links'>;
}

/** Whose envelope it is. */
interface HintedBooking extends WorkerRank {
  readonly attempt: number;
  readonly decision: StoredDecision | null;
}

/** One envelope under way. */
export class SentHints {
  readonly messageId: string;
  readonly #decision: StoredDecision | null;
  readonly #ports: OutcomePorts;
  /** Who asked for each action. */
  readonly #policies: readonly string[];
  /** Ids and `type@version`s of the actions, few in an envelope; not the actions, whose payloads may be large. */
  readonly #ids: readonly string[];
  readonly #types: readonly string[];
  /** Where the source of each action that copies is asked; null = it copies nothing. */
  readonly #sources: readonly (string | null)[];
  readonly #booking: HintedBooking | null;
  /** Bit n: somebody reported on action n. An envelope has no more than a word has bits. */
  #reported = 0;
  /** Bit n: action n has blocks copied, and nothing was heard yet that says it copies none. */
  #copying = 0;

  constructor(hint: KvHint, policies: readonly string[], booking: HintedBooking | null, ports: OutcomePorts) {
    this.messageId = hint.message_id;
    this.#policies = policies;
    this.#decision = booking?.decision ?? null;
    this.#booking = booking;
    this.#ports = ports;
    this.#ids = hint.actions.map((action) => action.action_id);
    this.#types = hint.actions.map(typeOf);
    this.#sources = hint.actions.map(sourceOf);
    for (const [at, action] of hint.actions.entries())
      if (action.action_type === 'kv.fetch') this.#copying |= 1 << at;
  }

  /**
   * Takes a report; one on an action that was not sent is ignored. A later report replaces an earlier one, except that what was
   * deferred may be told of before the deferral itself arrives.
   */
  report(
    actionId: string,
    outcome: NonNullable<SentHintRecord['outcome']>,
    blocksDone: number | null,
    reason: string | null,
  ): void {
    const at = this.#ids.indexOf(actionId);
    const type = this.#types[at];
    if (type === undefined || (outcome === 'deferred' && (this.#reported & (1 << at)) !== 0)) return;
    this.#reported |= 1 << at;
    this.#decision?.hintOutcome(actionId, outcome, blocksDone, reason);
    this.#ports.metrics.count('pointsman_hint_outcomes_total', { type, outcome });
    if (outcome === 'rejected' || outcome === 'missing') this.#copyFailed(at);
    if (outcome === 'rejected')
      this.#ports.rejections.rejected(this.#policies[at] ?? INCOMING, type, recordedReason(reason));
  }

  /** Outcomes that came with the head of the answer. */
  reportAll(outcomes: readonly ReportedHintOutcome[]): void {
    for (const reported of outcomes) {
      const { actionId, outcome, blocksDone, reason } = reported;
      this.report(actionId, outcome, blocksDone, reason);
      this.#measure(reported);
    }
  }

  #copyFailed(at: number): void {
    if ((this.#copying & (1 << at)) === 0) return;
    this.#copying &= ~(1 << at);
    if (this.#copying === 0 && this.#booking !== null) this.#ports.copies.copyFailed(this.#booking.attempt);
  }

  #measure({ actionId, blocksDone, bytes, ms = null }: ReportedHintOutcome): void {
    const controlEndpoint = this.#sources[this.#ids.indexOf(actionId)] ?? null;
    if (controlEndpoint === null || this.#booking === null || blocksDone === null) return;
    if (bytes === null || ms === null) return;
    const { rank, workerId } = this.#booking;
    this.#ports.copies.links.observe({
      target: { workerId, rank },
      controlEndpoint,
      blocks: blocksDone,
      bytes,
      ms,
    });
  }

  /** The request ended: what was not reported on counts as unreported until something is heard. */
  ended(): void {
    for (let at = 0; at < this.#ids.length; at += 1) {
      if ((this.#reported & (1 << at)) === 0) this.report(this.#ids[at]!, 'unreported', null, null);
    }
  }
}

/** Envelopes by message id, those of ended requests among them for a while, because engines report late. */
export class HintOutcomes {
  readonly #byMessage = new Map<string, SentHints>();
  /** The envelopes that ended last, in a ring: a set would look through the places of all it let go of for its oldest. */
  readonly #ended: (SentHints | undefined)[] = [];
  readonly #endedLimit: number;
  readonly #ports: OutcomePorts;
  #next = 0;

  /**
   * @param copies hear of those that failed, and how long the others take.
   * @param endedLimit how many envelopes of ended requests can still be reported on.
   */
  constructor(metrics: Metrics, log: Logger, copies: OutcomePorts['copies'], endedLimit = 1024) {
    this.#ports = { metrics, rejections: new HintRejections(log), copies };
    this.#endedLimit = endedLimit;
  }

  /** Envelopes that a report would reach. */
  get size(): number {
    return this.#byMessage.size;
  }

  /**
   * An envelope goes out. Of two with the same message id the newer gets the reports.
   * @param policies who asked for each of its actions.
   */
  sent(hint: KvHint, policies: readonly string[], booking: HintedBooking | null): SentHints {
    const hints = new SentHints(hint, policies, booking, this.#ports);
    this.#byMessage.set(hints.messageId, hints);
    return hints;
  }

  /** The request of an envelope ended. */
  ended(hints: SentHints): void {
    hints.ended();
    if (this.#byMessage.get(hints.messageId) !== hints) return;
    const oldest = this.#ended[this.#next];
    if (oldest !== undefined && this.#byMessage.get(oldest.messageId) === oldest)
      this.#byMessage.delete(oldest.messageId);
    this.#ended[this.#next] = hints;
    this.#next = (this.#next + 1) % this.#endedLimit;
  }

  /** Takes a late report. */
  report({ messageId, actionId, outcome, reason, blocks }: LateHintOutcome): void {
    this.#byMessage.get(messageId)?.report(actionId, outcome, blocks, reason);
  }
}

/** Actions of an envelope as the decision record lists them. */
export function sentHintRecords(result: HintStageResult): SentHintRecord[] {
  const actions = result.hint?.actions ?? [];
  return actions.map((action, index) => ({
    action_id: action.action_id,
    type: typeOf(action),
    policy: result.actionPolicies[index] ?? INCOMING,
    bytes: jsonBytes(action.payload),
    outcome: null,
    reason: null,
    blocks_done: null,
  }));
}

/** Longer endpoints are nobody's. */
const MOST_ENDPOINT = 512;

function sourceOf({ action_type: type, payload }: KvHintAction): string | null {
  const endpoint = type === 'kv.fetch' ? payload.source_control_endpoint : null;
  return typeof endpoint === 'string' && endpoint.length <= MOST_ENDPOINT ? endpoint : null;
}

function typeOf({ action_type, action_version }: KvHintAction): string {
  return `${action_type}@${action_version}`;
}
