// The road as its doors see it: a request goes in, a ticket comes out, and the answer comes through a sink.
import type { QueueSettings } from '../config/index.ts';
import type { EngineReport, RequestApi } from '../engines/index.ts';
import type { ApproximateResidency, OwnerSlot } from '../kv/index.ts';
import type { AgentHintsRecord, HintOutcome } from '../observe/index.ts';
import type {
  KvHint,
  Partition,
  PointsmanError,
  Role,
  SessionContext,
  WorkerId,
  WorkerRank,
} from '../plugin/index.ts';
import type { PlacementConstraints } from '../scheduling/index.ts';
import type { CallerPart, Choice, Projection, Waits } from './caller-part.ts';
import type { DividedWay, RequestGate } from './gates.ts';
import type { RequestLeg } from './request-leg.ts';

/** Where the prompt's token ids come from. */
export type TokensSource = 'local' | 'engine' | 'estimate' | 'given';

/** What the caller may ask of routing; a door fills it only for callers that are trusted for it. */
export type RoutingConstraints = PlacementConstraints;

/** A request that asks nothing of routing. */
export const NO_CONSTRAINTS: RoutingConstraints = {
  pinnedWorker: null,
  allowedWorkers: null,
  requiredTaints: [],
  preferredTaints: new Map(),
  temperature: null,
  priority: 0,
  strictPriority: 0,
};

/** A request as it enters the road, after ingress, identify and tokenize. */
export interface RoadRequest {
  readonly requestId: string;
  /** `speculative` = the router itself, ahead of the next turn of a conversation: it gives way to every other request. */
  readonly door: 'gateway' | 'replay' | 'selection' | 'picker' | 'speculative';
  readonly partition: Partition;
  readonly role: Role;
  readonly servedAs: string;
  readonly api: RequestApi;
  readonly body: Readonly<Record<string, unknown>> | null;
  readonly stream: boolean;
  /** Exact token ids, or a stand-in of the estimated length when `tokensSource` is `estimate`. */
  readonly tokens: Uint32Array;
  readonly tokensSource: TokensSource;
  /** Why `tokensSource` is `estimate`, in one word; absent = it is not, or nobody says. */
  readonly estimated?: string;
  readonly maxOutputTokens: number;
  readonly expectedOutputTokens: number | null;
  /** What the engine is told of its importance, higher is more; null or absent = nothing. */
  readonly enginePriority?: number | null;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  readonly session: SessionContext | null;
  /** What caused it, for the session that its prompt may give it; absent = nobody said. `session` has its own. */
  readonly inputTrigger?: string;
  /** Whose request it is: sessions of different tenants never meet. Null or absent = nobody said. */
  readonly tenant?: string | null;
  readonly constraints: RoutingConstraints;
  /** Policy class a trusted caller asked for; null or absent = none. */
  readonly policyClass?: string | null;
  /**
   * Whether it may wait for its turn; absent = `wait`. `bypass` = it is placed at once whoever waits, for requests whose place is chosen or for
   * hops of a request that had its turn; `refuse` = where it would have to wait it fails with PM_QUEUE_WOULD_WAIT.
   */
  readonly queueing?: 'wait' | 'bypass' | 'refuse';
  /** A hint envelope from a trusted caller. */
  readonly incomingHint: KvHint | null;
  /** What its agent said of it and counts, for the record; null or absent = nothing. */
  readonly agentHints?: AgentHintsRecord | null;
  /** Fields that the door removed, for the record; absent = none. */
  readonly stripped?: readonly string[];
  /** Microseconds spent on tokenizing, for the record. */
  readonly tokenizeMicros: number;
  /** Its caller carries it to the worker; null or absent = the road dispatches it. */
  readonly caller?: CallerPart | null;
  /** Its part in a request that two workers serve; absent = it is no part of one. */
  readonly leg?: RequestLeg;
  /** Holds it between its classification and its queue; absent = nothing does. */
  readonly gate?: RequestGate;
  /** Where it goes if two kinds of workers come while it waits for the first one; absent = nowhere else. */
  readonly divided?: DividedWay;
}

/**
 * What a door gets to hear. Calls in order: booked, again for each try; head, data and tokens (none for an answer that is no stream) of
 * the last try; then exactly one of finished and failed.
 */
export interface ResponseSink {
  booked(chosen: WorkerRank, decisionId: string): void;
  /** The engine has it; called between `booked` and `head`. */
  dispatched?(): void;
  head(status: number, headers: Readonly<Record<string, string>>): void;
  data(bytes: Uint8Array): void;
  tokens(count: number): void;
  finished(report: EngineReport): void;
  /** Refused before booking, or failed after; `afterHead` says whether the head was passed on. */
  failed(error: PointsmanError, afterHead: boolean): void;
  /**
   * Asked before `failed` of a request that was booked: whether it goes on elsewhere, so that its classifier hears of no end. Absent =
   * it does not.
   */
  retries?(error: PointsmanError): boolean;
  /**
   * Whether somebody still waits for the answer; asked when nothing has come from the engine for long, and then the request goes on.
   * Absent = the door does not know: such a request is given up.
   */
  waits?(): boolean;
}

/** A request under way. */
export interface RoadTicket {
  readonly requestId: string;
  /** The client is gone: ends the exchange and frees the booking. Idempotent; no sink call follows. */
  abort(): void;
  pause(): void;
  resume(): void;
}

/** What an engine tells of a hint action after the response head (events carry it). */
export interface LateHintOutcome {
  /** `message_id` of the envelope. */
  readonly messageId: string;
  readonly actionId: string;
  readonly outcome: HintOutcome;
  /** Why, in the engine's words; null = not said. */
  readonly reason: string | null;
  /** Blocks done; null = not said. */
  readonly blocks: number | null;
}

/** The one way through the router. */
export interface Road {
  /**
   * Walks classify → queue → select → book → hint → dispatch, synchronously unless a request classifier takes its time; refusals come
   * through `sink.failed`, at once or later.
   */
  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket;
  /** The worker is lost: its exchanges fail, its bookings are released. */
  workerGone(workerId: bigint): void;
  /** An engine reported on a hint action by event; unknown messages are ignored. */
  hintOutcome(event: LateHintOutcome): void;
  /** Whether a plugin waits for something that only a promise can bring: virtual time lets promises run before it goes on. */
  unsettled(): boolean;
  /**
   * Ends bookings whose owner is gone, if it is time to look for them. Arrivals do so too; a road that may get none is told now and
   * then. Returns ms until the next time.
   */
  expireBookings(): number;
  /** Takes other queue profiles, from the next request on; nobody that waits is lost. */
  setQueues(settings: QueueSettings): void;
  /** Answers everybody that waits in a queue (PM_SHUTTING_DOWN); nobody does from here on. */
  close(): void;
  /** Bookings held now; 0 when idle. */
  activeBookings(): number;
}

/** A road that also answers without booking. */
export interface ChoosingRoad extends Road {
  /**
   * Chooses as for an arrival and books nothing: no classifier is asked, nothing is recorded, nobody hears of it.
   * @throws PointsmanError as an arrival would be refused.
   */
  choose(request: RoadRequest): Choice;
  /** What each candidate holds of a prompt and has to do; nothing is chosen. @throws PointsmanError when the role cannot be served. */
  project(request: RoadRequest): Projection;
  /** What of a partition waits for its turn. */
  waitingOf(partition: Partition): Waits;
}

/** A finished request as it is compared with what its engine announces. */
export interface AnsweredRequest {
  readonly worker: WorkerId;
  /** Of its rank, while the worker is there: afterwards it may be another's. */
  readonly slot: OwnerSlot;
  /** Prompt tokens as the router has them. */
  readonly tokens: Uint32Array;
  /** Whether they are those that the engine is to see. */
  readonly isExact: boolean;
  readonly blockSize: number;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  /** Expected cached tokens without hints; null = no prediction. */
  readonly predictedTokens: number | null;
  /** By the engine's account; null = it does not say. */
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  /** When it was booked, ms. */
  readonly sentAt: number;
  /** Its ids as the engine saw them; null = it was not asked, or did not say. */
  readonly engineIds: Uint32Array | null;
}

/** What ranks without KV events are believed to hold, told of every prompt by its booking's number. */
export type Beliefs = Pick<ApproximateResidency, 'expire' | 'sent' | 'computed' | 'generated' | 'ended'>;
