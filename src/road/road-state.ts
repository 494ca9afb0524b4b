// What all exchanges of a road share.
import type { WorkerHealth } from '../fleet/index.ts';
import type { DecisionRing, Metrics, ReleasePace } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { Scheduler } from '../scheduling/index.ts';
import type { Exchange } from './exchange.ts';
import type { RoadLabels } from './road-labels.ts';
import type { HintOutcomes } from './sent-hints.ts';
import type { SessionPorts } from './session-ports.ts';
import type { AnsweredRequest, Beliefs } from './types.ts';

/** Shared parts and the exchanges under way. */
export interface RoadState {
  readonly clock: Clock;
  readonly scheduler: Scheduler;
  /** Null = nobody keeps record. */
  readonly decisions: DecisionRing | null;
  /** Null = nobody watches the workers, as in virtual time. */
  readonly health: WorkerHealth | null;
  readonly metrics: Metrics;
  /** Booked and not ended. */
  readonly exchanges: Set<Exchange>;
  /** Requests that arrived and have not ended; legs that help another one do not count. */
  underWay: number;
  /** Of the exchanges that end. */
  readonly pace: ReleasePace;
  readonly hintOutcomes: HintOutcomes;
  /** A worker has fewer prompt tokens to compute than before. */
  readonly loadFell: (workerId: bigint) => void;
  /** Null = none are kept. */
  readonly beliefs: Beliefs | null;
  /** Null = nothing is kept of sessions. */
  readonly sessions: SessionPorts | null;
  /** Null = nobody asks. */
  readonly computedBlocks: ((workerId: bigint, blocks: number) => void) | null;
  /** Null = nobody compares. */
  readonly answered: ((request: AnsweredRequest) => void) | null;
  /** Metric labels of a model. */
  labelsOf(model: string): RoadLabels;
}
