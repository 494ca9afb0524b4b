// What a road is made of.
import type { QueueSettings } from '../config/index.ts';
import type { EngineTransport } from '../engines/index.ts';
import type { Worker, WorkerHealth } from '../fleet/index.ts';
import type { ClassifierSource } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { DecisionRing, Metrics } from '../observe/index.ts';
import type { Clock, Logger } from '../plugin/index.ts';
import type { Scheduler, SessionAffinity } from '../scheduling/index.ts';
import type { EventStreams } from './decision-writer.ts';
import type { HoldLimits } from './first-worker-hold.ts';
import type { KeylessNames } from './keyless.ts';
import type { LookupDeps } from './prompt-lookup.ts';
import type { RetryLimits } from './retry.ts';
import type { SessionPorts } from './session-ports.ts';
import type { AnsweredRequest, Beliefs } from './types.ts';

/** The road's parts. */
export interface RoadDeps extends LookupDeps {
  readonly scheduler: Scheduler;
  readonly transportFor: (worker: Worker) => EngineTransport;
  /** Null = worker health is nobody's business. */
  readonly health: WorkerHealth | null;
  readonly decisions: DecisionRing | null;
  /** Router mode, for the record; read at each decision, as `concurrentRequests` is at each arrival. */
  readonly mode: string;
  /** Who classifies requests; absent = nobody. */
  readonly classifiers?: ClassifierSource;
  /** Keeps sessions on their workers; null or absent = nobody does. */
  readonly affinity?: SessionAffinity | null;
  /** Most requests under way at once, booked or waiting for their classification. */
  readonly concurrentRequests: number;
  /** How requests wait for a first worker; read at each of them; absent = none does. */
  readonly firstWorkerHold?: HoldLimits;
  /** Queue profiles at the start; absent = nobody queues. */
  readonly queues?: QueueSettings;
  /** How requests are tried again; read at each; absent = none is. */
  readonly retries?: RetryLimits;
  /** How often bookings are looked at that do not get on, ms, > 0; absent = never. */
  readonly bookingExpiryMs?: number;
  /** Who tells conversations apart that have no id; read at each request; null or absent = nobody. */
  readonly keyless?: KeylessNames | null;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Where hint actions are named that engines reject; absent = nowhere. */
  readonly log?: Logger;
  /** Event streams, for the record; absent = none are heard. */
  readonly events?: EventStreams;
  /** What ranks without KV events are believed to hold; absent = nothing. */
  readonly beliefs?: Beliefs | null;
  /** What is kept of sessions, and who holds blocks; null or absent = nothing, nobody knows. */
  readonly sessions?: SessionPorts | null;
  /** Told of each finished request how many whole blocks of its prompt the worker did not find cached, by its own report. */
  readonly computedBlocks?: (workerId: bigint, blocks: number) => void;
  /** Told of each finished request what was predicted and what the engine reported; absent or null = nobody compares. */
  readonly answered?: ((request: AnsweredRequest) => void) | null;
  /** Whether the engine of a rank is to be asked for the ids that it sees of the next prompt; absent or null = never. */
  readonly asksIds?: ((slot: OwnerSlot) => boolean) | null;
}
