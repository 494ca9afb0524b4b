// What a stream remembers of a question to its engine.
import type { StreamPosition } from './ordered-batches.ts';

/** A question that is under way. */
export interface AskedReplay {
  readonly ticket: number;
  /** The first batch asked for; unless it is the same in the answer, another process gives it. */
  readonly anchor: StreamPosition;
  /** The connection was lost meanwhile: only an answer that holds the anchor tells that the process is the same. */
  readonly isCut: boolean;
  /** Only asked because the stream was silent: nothing says that a batch was lost. */
  readonly isIdle: boolean;
  /** The owner is forgotten when the answer begins. */
  readonly rebuild: boolean;
  /** Watermark when the answer began. */
  before: number;
  answers: number;
}
