// What one engine dialect must know: how a request is written for the engine and how its answer is read. Sockets, flow
// control and failures belong to the transport.
import type { Worker } from '../fleet/index.ts';
import type { AskEngine, EngineDescription } from './engine-description.ts';
import type { EngineReport, EngineRequest, ReportedHintOutcome } from './types.ts';

/** A request in an engine's own words. */
export interface EngineCall {
  /** Path below the worker's url, for example `/v1/completions`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Receives what an answer reader found, in order. */
export interface AnswerSink {
  /** Bytes for the client. */
  relay(bytes: Uint8Array): void;
  /** `count` ≥ 1 more output tokens are out at this moment; never called for an answer that comes as a whole. */
  tokens(count: number): void;
}

/** Reads the body of one answer (status below 300) and says what the client gets to see of it. */
export interface AnswerReader {
  data(bytes: Uint8Array): void;
  /** The body is complete: hands over what is held and says what the engine reported. */
  end(): EngineReport;
  /** The body was cut short: closes what would otherwise stay half open for the client; held bytes are dropped. */
  lost(): void;
}

/** One engine family. */
export interface EngineDialect {
  readonly name: string;
  /** Whether an engine that advertises this hash scheme speaks the dialect: how a worker of dialect `auto` is told. */
  speaks(hashScheme: string): boolean;
  /** Throws PointsmanError PM_ENGINE_REQUEST when the request cannot be written. */
  call(request: EngineRequest): EngineCall;
  read(request: EngineRequest, sink: AnswerSink): AnswerReader;
  /**
   * Outcomes of hints that are known with the response head: those in its headers, by lower-case name, and those that the dialect
   * itself decided, as an engine has no words for every action.
   */
  outcomes(headers: Readonly<Record<string, string>>, request: EngineRequest): readonly ReportedHintOutcome[];
  /** Whether the answer is written anew for the client, so that the length it announces is not the client's. Absent = no. */
  rewrites?(request: EngineRequest): boolean;
  /** What to say behind the engine's message when it refuses a request (4xx); null = it speaks for itself. Absent = always. */
  explain?(message: string, request: EngineRequest): string | null;
  /** Response headers that only the router may see, lower case. */
  readonly privateHeaders: ReadonlySet<string>;
  /** What an engine of this dialect says of itself; null = the engine that answers is not one. Absent = it is not asked. */
  describe?(ask: AskEngine): Promise<EngineDescription | null>;
  /** A call to make once the answer is complete, such as closing a session; null = none. Absent = never. */
  afterAnswer?(request: EngineRequest): EngineCall | null;
}

/** Whether the worker has more than one rank, so that the engine must be told which one is meant. */
export function mustNameRank(worker: Worker): boolean {
  return worker.spec.ranks.count > 1 || worker.spec.ranks.first > 0;
}
