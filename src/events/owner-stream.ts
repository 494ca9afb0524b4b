// One (worker, rank)'s stream with all that hangs on it: the state machine, the questions to the engine, the counters, and the
// owners its batches speak for.
import type { OwnerSlot } from '../kv/index.ts';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import { batchTimestamp, usableTimestamp } from './batch-timestamp.ts';
import { type EventFeed, OwnerFeed } from './event-feed.ts';
import type { EventWatch } from './event-watch.ts';
import { IdleCheck } from './idle-check.ts';
import { SequencedStream } from './sequenced-stream.ts';
import type { BatchOutcome, ForgetReason, StreamIncident, StreamPort } from './stream-port.ts';
import type { KvEventBatch, KvEventReplay } from './types.ts';

/** A message as its source hands it over. */
export type StreamMessage = Uint8Array | KvEventBatch;

/** What a stream does to the rest of the router. */
export interface OwnerStreamPort {
  /** A message came, live or as an answer. */
  heard(stream: OwnerStream): void;
  readonly watch?: EventWatch;
  apply(stream: OwnerStream, message: StreamMessage): BatchOutcome;
  /** Batches of the stream are lost for good. */
  missed(stream: OwnerStream): void;
  /** Forgets all that the owners of the stream hold. */
  forget(stream: OwnerStream, reason: ForgetReason): void;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** How long a stream may be silent before its engine is asked whether anything was lost, ms; 0 = as long as it likes. */
  idleCheckMs(): number;
}

/** One stream; its counters are those of {@link EventFeed}. */
export class OwnerStream extends OwnerFeed implements EventFeed, StreamPort<StreamMessage> {
  readonly owner: OwnerSlot;
  /** Owners of other ranks that this connection's batches named since the engine's start. */
  readonly otherOwners = new Set<OwnerSlot>();
  readonly sequenced: SequencedStream<StreamMessage>;
  readonly #port: OwnerStreamPort;
  #replay: KvEventReplay | null = null;
  #cancelReplay: (() => void) | null = null;
  readonly #idle: IdleCheck;

  constructor(owner: OwnerSlot, port: OwnerStreamPort) {
    super();
    this.owner = owner;
    this.#port = port;
    this.sequenced = new SequencedStream(this, port.clock);
    this.#idle = new IdleCheck(
      port.clock,
      () => port.idleCheckMs(),
      () => this.sequenced.checkIdle(),
    );
  }

  get lastSequence(): number {
    return this.sequenced.watermark;
  }

  get stale(): boolean {
    return this.sequenced.stale;
  }

  get partial(): boolean {
    return this.sequenced.partial;
  }

  get restored(): boolean {
    return this.sequenced.restored;
  }

  get lastTime(): number | null {
    return this.sequenced.watermarkTime;
  }

  get isRecovering(): boolean {
    return this.sequenced.isRecovering;
  }

  /** Where the engine is asked; null = nowhere. */
  get replay(): KvEventReplay | null {
    return this.#replay;
  }

  get canReplay(): boolean {
    return this.#replay !== null;
  }

  get pendingBatches(): number {
    return this.sequenced.pending.count;
  }

  get pendingBytes(): number {
    return this.sequenced.pending.bytes;
  }

  /** A live message. */
  arrived(sequence: number, message: StreamMessage): void {
    const { metrics, clock } = this.#port;
    metrics.count('pointsman_kv_event_batches_total');
    this.lastBatchAt = clock.now();
    this.batches += 1;
    this.#port.heard(this);
    this.#port.watch?.arrived(this.owner, sequence, this.timestamp(message));
    if (this.#replay !== null) this.#idle.heard();
    this.sequenced.arrived(sequence, message);
  }

  /** The connection stands anew. */
  connected(): void {
    if (this.#replay !== null) this.#idle.heard();
    this.sequenced.connected();
  }

  /** The connection is lost: what an engine says meanwhile does not tell whether the next is the same process. */
  disconnected(): void {
    this.#idle.stop();
    this.sequenced.disconnected();
  }

  /** Where the engine can be asked; null = nowhere. */
  askAt(replay: KvEventReplay | null): void {
    this.#endReplay();
    this.#replay = replay;
    if (replay === null) this.#idle.stop();
  }

  close(): void {
    this.#idle.stop();
    this.#endReplay();
    this.#replay = null;
    this.sequenced.close();
  }

  apply(_sequence: number, message: StreamMessage): BatchOutcome {
    return this.#port.apply(this, message);
  }

  forget(reason: ForgetReason): void {
    this.#port.forget(this, reason);
    this.otherOwners.clear();
  }

  timestamp(message: StreamMessage): number | null {
    return message instanceof Uint8Array ? batchTimestamp(message) : usableTimestamp(message.timestamp);
  }

  bytes(message: StreamMessage): number {
    if (message instanceof Uint8Array) return message.length;
    let bytes = 0;
    for (const event of message.events) {
      if (event.kind === 'stored') bytes += event.tokenIds.byteLength + event.external.byteLength;
      else if (event.kind === 'removed') bytes += event.external.byteLength;
    }
    return bytes;
  }

  keep(message: StreamMessage): StreamMessage {
    return message instanceof Uint8Array ? message.slice() : message;
  }

  canAsk(): boolean {
    return this.#replay !== null;
  }

  ask(ticket: number, from: number): void {
    this.#endReplay();
    const { sequenced } = this;
    this.#cancelReplay =
      this.#replay?.replay(from, {
        batch: (sequence, payload) => {
          this.replayedBatches += 1;
          this.#port.heard(this);
          this.#port.metrics.count('pointsman_kv_event_batches_replayed_total');
          sequenced.replayed(ticket, sequence, payload);
        },
        ended: () => sequenced.replayEnded(ticket),
        failed: (failure) => sequenced.replayFailed(ticket, failure),
      }) ?? null;
  }

  missed(batches: number): void {
    this.missedBatches += batches;
    this.#port.metrics.count('pointsman_kv_event_batches_missed_total', undefined, batches);
    this.#port.missed(this);
  }

  happened(incident: StreamIncident): void {
    const { metrics } = this.#port;
    switch (incident) {
      case 'gap':
        this.gaps += 1;
        metrics.count('pointsman_kv_event_gaps_total');
        return;
      case 'duplicate':
        this.duplicates += 1;
        metrics.count('pointsman_kv_event_duplicates_total');
        return;
      case 'overflow':
        this.overflows += 1;
        metrics.count('pointsman_kv_event_overflows_total');
        return;
      case 'restart':
        this.restarts += 1;
        metrics.count('pointsman_kv_event_restarts_total');
        return;
      default:
        this.replays[incident] += 1;
        metrics.count('pointsman_kv_event_replays_total', REPLAY_LABELS[incident]);
    }
  }

  #endReplay(): void {
    this.#cancelReplay?.();
    this.#cancelReplay = null;
  }
}

const REPLAY_LABELS: Readonly<Record<keyof OwnerStream['replays'], MetricLabels>> = {
  asked: { result: 'asked' },
  answered: { result: 'answered' },
  timed_out: { result: 'timed_out' },
  failed: { result: 'failed' },
  too_old: { result: 'too_old' },
};
