// What a stream's state machine works on, and its bounds.

/** What became of a batch: `cleared` = applied, and it cleared everything the engine had. */
export type BatchOutcome = 'applied' | 'cleared' | 'undecodable';

/** Why the owner is forgotten: a new process, a history that no longer reaches back, or a rebuild from the whole history. */
export type ForgetReason = 'restart' | 'too_old' | 'rebuild';

/** Why a replay gave nothing more: no word in time, or an answer beyond every measure. */
export type ReplayFailure = 'timed_out' | 'failed';

/** What happens on a stream, to be counted. */
export type StreamIncident =
  | 'restart'
  | 'gap'
  /** A message heard before, or of an older process. */
  | 'duplicate'
  /** Found no room among those that wait. */
  | 'overflow'
  | 'asked'
  | 'answered'
  | 'too_old'
  | ReplayFailure;

/** What the machine works on. `M` is a message as its source hands it over. */
export interface StreamPort<M> {
  /** Applies the batch that is next. */
  apply(sequence: number, message: M): BatchOutcome;
  /** Forgets everything of the owner. */
  forget(reason: ForgetReason): void;
  /** Seconds by the engine's clock; null = none that can be used. */
  timestamp(message: M): number | null;
  bytes(message: M): number;
  /** A copy that outlives the call. */
  keep(message: M): M;
  /** Whether the engine can be asked at all. */
  canAsk(): boolean;
  /**
   * Asks the engine for every batch from a number on. Answers come later, never within the call, through `replayed`, then
   * `replayEnded` or `replayFailed`, with this ticket; those of an older ticket are ignored, and need not come.
   */
  ask(ticket: number, from: number): void;
  /** Batches that are lost for good. */
  missed(batches: number): void;
  happened(incident: StreamIncident): void;
}

/** Where a stream stands whose blocks are known from elsewhere. */
export interface ResumePoint {
  /** Number of the last batch that the blocks have for certain; null = not known. */
  readonly sequence: number | null;
  /** Its time stamp, seconds by the engine's clock; null = not known: then an engine that started anew may be taken for the old one. */
  readonly time: number | null;
  /** Marks of the stream that the blocks were taken from. */
  readonly stale: boolean;
  readonly partial: boolean;
}

/** Bounds and pauses. */
export interface StreamLimits {
  /** Batches, and their bytes, that wait for those before them. */
  readonly pendingBatches: number;
  readonly pendingBytes: number;
  /** Answers without anything new before a hole is given up. */
  readonly attempts: number;
  /** Pause before a hole is asked for again, doubled each time, ms. */
  readonly pauseMs: number;
  /** Least time between two rebuilds from the whole history, doubled each time, ms. */
  readonly rebuildPauseMs: number;
}

/** The usual limits. */
export const STREAM_LIMITS: StreamLimits = {
  pendingBatches: 1024,
  pendingBytes: 16 * 1024 * 1024,
  attempts: 3,
  pauseMs: 100,
  rebuildPauseMs: 30_000,
};
