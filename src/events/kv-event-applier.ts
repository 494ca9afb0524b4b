// Applies engines' events to the prefix index, in the order of each owner's stream. Never throws on what an engine sent: bad
// events are counted on the owner's feed. What a message's number says is the stream's matter, what an event says the
// application's.
import type { OwnerSlot } from '../kv/index.ts';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import { type Clock, errorText } from '../plugin/index.ts';
import { EventApplication } from './apply-event.ts';
import { decodeEventBatch } from './decode-batch.ts';
import type { EventApplicationOptions } from './event-application-options.ts';
import { type EventFeed, streamState } from './event-feed.ts';
import type { EventWatch } from './event-watch.ts';
import { OwnerStream, type OwnerStreamPort, type StreamMessage } from './owner-stream.ts';
import type { BatchOutcome, ForgetReason, ResumePoint } from './stream-port.ts';
import type { KvEvent, KvEventBatch, KvEventReplay, KvEventSink } from './types.ts';

/** What an applier works on. */
export interface KvEventApplierOptions extends EventApplicationOptions {
  /** Whether a slot is anybody's; batches for free ones are dropped. Without it all are. */
  readonly isOwner?: (owner: OwnerSlot) => boolean;
  /** Owner of another rank of the same worker, for batches that name their rank; without it the connection's owner is meant. */
  readonly ownerOfRank?: (owner: OwnerSlot, rank: number) => OwnerSlot | null;
  /** A batch of this owner's stream is about to be taken. */
  readonly onHeard?: (owner: OwnerSlot) => void;
  /** Events of this owner are lost for good: the index may be wrong about it, both ways. */
  readonly onMissed?: (owner: OwnerSlot) => void;
  /** The engine started anew; its blocks are already forgotten. */
  readonly onRestart?: (owner: OwnerSlot) => void;
  /**
   * How long a stream may be silent before its engine, where it can be asked, is asked whether its last messages were lost, in ms; asked
   * again after pauses that double up to 16 times that. 0 and absent = never. Read when a message comes.
   */
  readonly idleCheckMs?: () => number;
  /** Compares what is announced with what is sent; absent = nobody does. */
  readonly watch?: EventWatch | null;
  readonly clock: Clock;
}

/** Sink of all event sources of a router. */
export interface KvEventApplier extends KvEventSink {
  /** As `onBatch`, for a batch that is already decoded; it must not change afterwards. */
  onDecodedBatch(owner: OwnerSlot, sequence: number, batch: KvEventBatch): void;
  /** Where an owner's engine is asked for what was missed; null = nowhere, which is so from the start. */
  askAt(owner: OwnerSlot, replay: KvEventReplay | null): void;
  /** Where an owner's engine is asked; null = nowhere. */
  replayOf(owner: OwnerSlot): KvEventReplay | null;
  /** The owner's connection stands (anew), or is lost. */
  onConnection(owner: OwnerSlot, connected: boolean): void;
  /** Wants the owner's whole history once more, for whoever sees that something is missing; rate-limited. */
  requestReplay(owner: OwnerSlot): void;
  /** State of an owner's stream; null before its first batch. The object keeps changing. */
  feed(owner: OwnerSlot): EventFeed | null;
  /** Blocks of an owner that wait for their parent. */
  orphanBlocks(owner: OwnerSlot): number;
  /** ms since the owner's newest batch; null before its first. */
  ageMs(owner: OwnerSlot): number | null;
  /** The owner was cleared although its engine may live on: until the engine clears too, the index may be wrong about it. */
  cleared(owner: OwnerSlot): void;
  /** The engine of a cleared owner is well: what it holds is asked for. */
  recover(owner: OwnerSlot): void;
  /** The owner was cleared because its engine started anew; its stream is expected to begin with batch 0. */
  restarted(owner: OwnerSlot): void;
  /** The index has this owner's blocks from a snapshot or a peer: the stream goes on where those were taken. */
  resume(owner: OwnerSlot, point: ResumePoint): void;
  /** As if nothing of the owner's stream had come; where its engine is asked stays. The index is left alone. */
  startOver(owner: OwnerSlot): void;
  /** Forgets the stream of a slot that gets another owner; the index is left alone. */
  forget(owner: OwnerSlot): void;
}

/** Creates the applier. */
export function createKvEventApplier(options: KvEventApplierOptions): KvEventApplier {
  return new Applier(options);
}

class Applier implements KvEventApplier {
  readonly #options: KvEventApplierOptions;
  readonly #application: EventApplication;
  readonly #streams = new Map<OwnerSlot, OwnerStream>();
  readonly #port: OwnerStreamPort;
  /** Whose batch is being applied. */
  #applying: OwnerStream | null = null;

  constructor(options: KvEventApplierOptions) {
    const { metrics, clock } = options;
    this.#options = options;
    this.#application = new EventApplication({
      ...options,
      requestReplay: (owner) => {
        options.requestReplay?.(owner);
        this.#applying?.sequenced.requestReplay();
      },
    });
    this.#port = {
      metrics,
      clock,
      idleCheckMs: options.idleCheckMs ?? (() => 0),
      heard: (stream) => options.onHeard?.(stream.owner),
      ...(options.watch == null ? {} : { watch: options.watch }),
      apply: (stream, message) => this.#apply(stream, message),
      missed: (stream) => this.#missed(stream),
      forget: (stream, reason) => this.#forget(stream, reason),
    };
    showStreams(metrics, this.#streams);
  }

  onBatch(owner: OwnerSlot, sequence: number, payload: Uint8Array): void {
    if (this.#options.isGivenUp?.(owner) !== true) this.#streamOf(owner)?.arrived(sequence, payload);
  }

  onDecodedBatch(owner: OwnerSlot, sequence: number, batch: KvEventBatch): void {
    if (this.#options.isGivenUp?.(owner) !== true) this.#streamOf(owner)?.arrived(sequence, batch);
  }

  askAt(owner: OwnerSlot, replay: KvEventReplay | null): void {
    const stream = replay === null ? this.#streams.get(owner) : this.#streamOf(owner);
    stream?.askAt(replay);
  }

  replayOf(owner: OwnerSlot): KvEventReplay | null {
    return this.#streams.get(owner)?.replay ?? null;
  }

  onConnection(owner: OwnerSlot, connected: boolean): void {
    const stream = this.#streams.get(owner);
    if (connected) stream?.connected();
    else stream?.disconnected();
  }

  requestReplay(owner: OwnerSlot): void {
    this.#streams.get(owner)?.sequenced.requestReplay();
  }

  feed(owner: OwnerSlot): EventFeed | null {
    const stream = this.#streams.get(owner);
    if (stream === undefined) return null;
    // One that goes on from a snapshot has a position before it has batches.
    const isHeard =
      stream.batches + stream.replayedBatches > 0 || stream.lastSequence >= 0 || stream.restored;
    return isHeard ? stream : null;
  }

  orphanBlocks(owner: OwnerSlot): number {
    return this.#application.orphanBlocks(owner);
  }

  ageMs(owner: OwnerSlot): number | null {
    const stream = this.#streams.get(owner);
    if (stream === undefined || stream.batches === 0) return null;
    return Math.max(0, this.#options.clock.now() - stream.lastBatchAt);
  }

  cleared(owner: OwnerSlot): void {
    this.#application.cleared(owner);
    const stream = this.#streams.get(owner);
    if (stream !== undefined && stream.lastSequence >= 0) stream.sequenced.forgotten();
  }

  recover(owner: OwnerSlot): void {
    this.#streams.get(owner)?.sequenced.recover();
  }

  restarted(owner: OwnerSlot): void {
    this.#application.forget(owner);
    const stream = this.#streams.get(owner);
    if (stream === undefined) return;
    stream.otherOwners.clear();
    stream.mismatchedBlockSize = null;
    stream.sequenced.restarted();
  }

  resume(owner: OwnerSlot, point: ResumePoint): void {
    const stream = this.#streamOf(owner);
    if (stream === null) return;
    this.#options.onHeard?.(owner);
    stream.sequenced.resume(point);
  }

  startOver(owner: OwnerSlot): void {
    const replay = this.#streams.get(owner)?.replay ?? null;
    this.forget(owner);
    this.askAt(owner, replay);
  }

  forget(owner: OwnerSlot): void {
    this.#application.forget(owner);
    this.#streams.get(owner)?.close();
    this.#streams.delete(owner);
  }

  /** The owner's stream; null when the slot is nobody's. */
  #streamOf(owner: OwnerSlot): OwnerStream | null {
    if (this.#options.isOwner?.(owner) === false) return null;
    let stream = this.#streams.get(owner);
    if (stream === undefined) {
      stream = new OwnerStream(owner, this.#port);
      this.#streams.set(owner, stream);
    }
    return stream;
  }

  #apply(stream: OwnerStream, message: StreamMessage): BatchOutcome {
    let batch: KvEventBatch;
    try {
      batch = message instanceof Uint8Array ? decodeEventBatch(message) : message;
    } catch (thrown) {
      stream.lastError = errorText(thrown);
      this.#application.rejections.count(stream, 'undecodable', 0);
      this.#missed(stream);
      return 'undecodable';
    }
    this.#applying = stream;
    const isCleared = this.#applyBatch(stream, batch);
    this.#applying = null;
    return isCleared ? 'cleared' : 'applied';
  }

  /** Applies the events of a batch; whether the engine cleared all it had. */
  #applyBatch(stream: OwnerStream, batch: KvEventBatch): boolean {
    const { ownerOfRank, metrics } = this.#options;
    const owner =
      batch.rank === null || ownerOfRank === undefined ? stream.owner : ownerOfRank(stream.owner, batch.rank);
    if (owner !== null && owner !== stream.owner) stream.otherOwners.add(owner);
    this.#options.watch?.applied(owner ?? stream.owner, stream.owner, batch);
    let isCleared = false;
    for (const event of batch.events) {
      metrics.count('pointsman_kv_events_total', labelsOf(event.kind));
      if (owner === null) {
        this.#application.rejections.count(stream, 'unknown_rank', storedBlocks(event));
        continue;
      }
      try {
        this.#application.apply(owner, stream, event);
        isCleared ||= event.kind === 'cleared' && event.tier === undefined;
      } catch (thrown) {
        stream.lastError = errorText(thrown);
        this.#application.rejections.count(stream, 'failed', storedBlocks(event));
      }
    }
    return isCleared;
  }

  #missed(stream: OwnerStream): void {
    for (const owner of [stream.owner, ...stream.otherOwners]) this.#options.onMissed?.(owner);
  }

  /** One connection may carry several ranks; they have one history. */
  #forget(stream: OwnerStream, reason: ForgetReason): void {
    for (const owner of [stream.owner, ...stream.otherOwners]) {
      this.#options.index.clear(owner, 'all');
      this.#application.forget(owner);
      this.#options.watch?.[reason === 'restart' ? 'restarted' : 'forgotten'](owner);
    }
    if (reason !== 'restart') return;
    // The new process may have other settings.
    stream.mismatchedBlockSize = null;
    this.#options.onRestart?.(stream.owner);
  }
}

function showStreams(metrics: Metrics, streams: ReadonlyMap<OwnerSlot, OwnerStream>): void {
  metrics.gauge('pointsman_kv_event_streams', () => {
    const counts = { exact: 0, partial: 0, recovering: 0, stale: 0 };
    for (const stream of streams.values()) counts[streamState(stream)] += 1;
    return Object.entries(counts).map(([state, value]) => ({ labels: { state }, value }));
  });
  metrics.gauge('pointsman_kv_event_batches_pending', () => {
    let batches = 0;
    for (const stream of streams.values()) batches += stream.pendingBatches;
    return batches;
  });
  metrics.gauge('pointsman_kv_event_pending_bytes', () => {
    let bytes = 0;
    for (const stream of streams.values()) bytes += stream.pendingBytes;
    return bytes;
  });
}

/** Blocks that a store announces; 0 for other events. */
function storedBlocks(event: KvEvent): number {
  return event.kind === 'stored' ? event.external.length / 2 : 0;
}

/** Label objects by value, so that counting allocates nothing; values come from fixed lists. */
const LABELS = new Map<string, MetricLabels>();

function labelsOf(kind: KvEvent['kind']): MetricLabels {
  let labels = LABELS.get(kind);
  if (labels === undefined) {
    labels = { kind };
    LABELS.set(kind, labels);
  }
  return labels;
}
