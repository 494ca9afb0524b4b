// One request served by two workers. Its decode leg is the request itself: it is classified, counted, followed and answered there. At its
// gate the prompt is computed by a prefill leg with a booking and hints of its own. Whichever leg fails first ends the other at once.
//
// A client that leaves after the prefill has ended and before the decode engine has begun would leave blocks behind that nobody takes:
// then the decode leg goes on for nobody until its first output has come, as the blocks are taken by then, and is aborted.
import type { EngineHandoff, EngineReport } from '../../engines/index.ts';
import type { Fleet, Worker } from '../../fleet/index.ts';
import type { Classification } from '../../host/index.ts';
import type { Metrics } from '../../observe/index.ts';
import type { PointsmanError, Rng, WorkerRank } from '../../plugin/index.ts';
import type { GatedRequest } from '../gates.ts';
import { asPointsmanError } from '../road-errors.ts';
import type { ResponseSink, Road, RoadRequest, RoadTicket, RoutingConstraints } from '../types.ts';
import { type HandoffPlan, planHandoff } from './handoff-plan.ts';
import { decodeOverrides, decodeRequest, type MutableHandoffRecord, prefillRequest } from './legs.ts';
import { PrefillAnswer } from './prefill-answer.ts';
import { constrainedTo } from './transfer-topology.ts';

/** What a split request works with. */
export interface SplitPorts {
  readonly road: Pick<Road, 'arrive'>;
  readonly fleet: Fleet;
  readonly rng: Rng;
  readonly metrics: Metrics;
  /** Whether bypasses are possible, so that cached blocks of decode workers count. */
  readonly conditional: boolean;
}

/** Both legs of a request. */
export class SplitRequest {
  readonly #ports: SplitPorts;
  readonly #request: RoadRequest;
  readonly #held: GatedRequest;
  readonly #prefillRecord: MutableHandoffRecord = { leg: 'prefill', kind: null, local: null, other: null };
  readonly #decodeRecord: MutableHandoffRecord = { leg: 'decode', kind: null, local: null, other: null };
  readonly #answer = new PrefillAnswer();
  #plan: HandoffPlan | null = null;
  #constraints: RoutingConstraints;
  #prefill: RoadTicket | null = null;
  /** The prefill leg has ended well; its blocks may wait for the other. */
  #computed = false;
  #cachedTokens: number | null = null;
  #opened = false;
  /** The decode leg has the blocks: whatever becomes of the prefill leg now, the answer is not wrong for it. */
  #taken = false;
  #over = false;

  constructor(ports: SplitPorts, request: RoadRequest, held: GatedRequest) {
    this.#ports = ports;
    this.#request = request;
    this.#held = held;
    this.#constraints = request.constraints;
  }

  /** Whether the prefill has ended, so that its blocks wait to be taken. */
  get computed(): boolean {
    return this.#computed;
  }

  /** Sends the prefill leg. */
  start(classification: Classification | null): void {
    let leg: RoadRequest;
    try {
      leg = prefillRequest(this.#request, classification, this.#prefillRecord, (worker, rank) =>
        this.#route(worker, rank),
      );
    } catch (thrown) {
      this.#fail(asPointsmanError(thrown));
      return;
    }
    const ticket = this.#ports.road.arrive(leg, this.#prefillSink());
    if (this.#over) ticket.abort();
    else this.#prefill = ticket;
  }

  /** The decode leg is booked. */
  decodeBooked(chosen: WorkerRank, decisionId: string): void {
    this.#prefillRecord.other = linkTo(chosen, decisionId);
  }

  /** The decode leg has output. */
  decodeBegun(): void {
    this.#taken = true;
  }

  /** The request ended, or its client left: a prefill leg under way is of no use. `well` = it has all its output. */
  ended(well: boolean): void {
    if (this.#over) return;
    this.#over = true;
    if (!well) this.#countFailure('decode');
    // What hands over while the other decodes ends by itself; an abort might break off what is being handed over.
    if (!well) this.#prefill?.abort();
  }

  /** The client left: both legs go. */
  abandoned(): void {
    this.#over = true;
    this.#prefill?.abort();
  }

  /** The prefill leg is booked and goes out next: what both engines are told is fixed here, before anything is computed. */
  #route(worker: Worker, rank: number): EngineHandoff {
    const { fleet, rng } = this.#ports;
    this.#constraints = constrainedTo(worker, this.#request, fleet);
    this.#plan = planHandoff(worker, rank, this.#request.requestId, rng);
    this.#prefillRecord.kind = this.#plan.kind;
    this.#decodeRecord.kind = this.#plan.kind;
    return this.#plan.prefill;
  }

  #prefillSink(): ResponseSink {
    return {
      booked: (chosen, decisionId) => {
        this.#decodeRecord.other = linkTo(chosen, decisionId);
      },
      // Only now is it known where the prompt is computed; where the engines meet by themselves, decode need not wait longer.
      dispatched: () => {
        const decode = this.#plan?.decode ?? null;
        if (decode !== null) this.#open(decode);
      },
      head: (status, headers) => this.#answer.head(status, headers),
      data: (bytes) => this.#answer.data(bytes),
      tokens: () => undefined,
      finished: (report) => this.#prefilled(report),
      failed: (error) => {
        if (this.#taken) return;
        this.#countFailure('prefill');
        this.#fail(error);
      },
      waits: () => !this.#over,
    };
  }

  #prefilled(report: EngineReport): void {
    this.#cachedTokens = report.cachedTokens;
    this.#computed = true;
    if (this.#over || this.#opened) return;
    const { handoff = null } = report;
    if (handoff !== null) {
      this.#open({ shape: 'vllm', params: handoff });
      return;
    }
    const workerId = this.#decodeRecord.other?.worker_id ?? 0n;
    if (this.#answer.isWhole(report)) {
      if (this.#answer.isKept) {
        this.#over = true;
        this.#count('terminal');
        this.#answer.passOn(this.#held.answer, this.#request, report);
        return;
      }
      this.#countFailure('prefill');
      this.#fail(this.#answer.tooLong(workerId));
      return;
    }
    this.#countFailure('prefill');
    this.#fail(this.#answer.missingHandoff(workerId));
  }

  #open(handoff: EngineHandoff): void {
    if (this.#over || this.#opened) return;
    this.#opened = true;
    this.#count('remote');
    this.#held.open(
      decodeRequest(this.#request, this.#constraints, {
        overrides: decodeOverrides(this.#ports.conditional),
        handoff: () => handoff,
        prefilledCachedTokens: () => this.#cachedTokens,
        record: this.#decodeRecord,
      }),
    );
  }

  #fail(error: PointsmanError): void {
    if (this.#over) return;
    this.#over = true;
    this.#held.fail(error);
  }

  #count(path: string): void {
    this.#ports.metrics.count('pointsman_disaggregated_requests_total', {
      model: this.#request.partition.model,
      path,
    });
  }

  #countFailure(leg: 'prefill' | 'decode'): void {
    if (this.#over && leg === 'prefill') return;
    this.#ports.metrics.count('pointsman_handoff_failures_total', {
      model: this.#request.partition.model,
      leg,
      kind: this.#plan?.kind ?? 'none',
    });
  }
}

function linkTo({ rank, workerId }: WorkerRank, decisionId: string): MutableHandoffRecord['other'] {
  return { decision_id: decisionId, worker_id: workerId, dp_rank: rank };
}
