// Selections and reservations, from bodies to answers.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Fleet } from '../../fleet/index.ts';
import type { Partition } from '../../plugin/index.ts';
import type { Scheduler } from '../../scheduling/index.ts';
import { badField, decimalOf, flagOf, given, nameOf, objectOf, u64Of } from './fields.ts';
import { readPrompt, signedHashes, type UnhashedPrompt } from './prompt-fields.ts';
import {
  placeOf,
  readConstraints,
  readExpectedOutput,
  readOverrides,
  readPolicyClass,
  readSession,
} from './request-fields.ts';
import type { Asked } from './road-requests.ts';
import { type Booked, notReady, type SelectionDesk } from './selection-desk.ts';
import { OK, unknownWorker, type WireAnswer } from './wire-answer.ts';
import { readPartition, u32Of } from './worker-fields.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Tokens of a pass where a worker does not say. */
const UNKNOWN_CAPACITY = 10_000_000;

/** What the routes work with. */
export interface SelectionRoutesOptions {
  readonly desk: SelectionDesk;
  readonly fleet: Fleet;
  readonly scheduler: Pick<Scheduler, 'loads' | 'busy'>;
}

/** One call: its body, and what ends with its client. */
export interface RoutedCall {
  readonly request: Pick<IncomingMessage, 'headers' | 'headersDistinct'>;
  readonly body: unknown;
  readonly signal: AbortSignal;
}

/** The routes. */
export class SelectionRoutes {
  readonly #options: SelectionRoutesOptions;

  constructor(options: SelectionRoutesOptions) {
    this.#options = options;
  }

  /** `POST /select` */
  select(call: RoutedCall): Promise<WireAnswer> {
    const fields = objectOf(call.body, 'the body');
    const id = given(fields.selection_id, 'selection_id', nameOf);
    const advisory = given(fields.advisory, 'advisory', flagOf) ?? false;
    const asked = this.#asked(fields, call.request, id ?? randomUUID());
    return this.#select(asked, id, advisory, call.signal);
  }

  /** `POST /select_and_reserve` */
  selectAndReserve(call: RoutedCall): Promise<WireAnswer> {
    const fields = objectOf(call.body, 'the body');
    if (given(fields.advisory, 'advisory', flagOf) === true)
      throw badField('advisory', 'absent or false: a reservation is no advice');
    const id = given(fields.selection_id, 'selection_id', nameOf) ?? randomUUID();
    return this.#selectAndReserve(this.#asked(fields, call.request, id), call.signal);
  }

  /** `POST /reservations` */
  async reserve({ body, request, signal }: RoutedCall): Promise<WireAnswer> {
    const fields = objectOf(body, 'the body');
    const { desk } = this.#options;
    const partition = readPartition(fields);
    const id = nameOf(fields.selection_id, 'selection_id');
    const workerId = given(fields.worker_id, 'worker_id', u64Of);
    if (workerId === null) {
      const booked = await desk.replay(partition, id, signal);
      return reserved(id, partition, booked);
    }
    const rank = given(fields.dp_rank, 'dp_rank', u32Of) ?? 0;
    const prefillTokens = given(fields.effective_prefill_tokens, 'effective_prefill_tokens', u32Of);
    const tracks = given(fields.track_prefill_tokens, 'track_prefill_tokens', flagOf);
    const read = readAsked(fields, request, id, false);
    this.#checkReady(partition);
    this.#checkPlace(partition, workerId, rank);
    const prompt = read.prompt(desk.shapeOf(partition));
    if (prefillTokens !== null && prefillTokens > prompt.promptTokens)
      throw badField('effective_prefill_tokens', `at most the ${prompt.promptTokens} tokens of the prompt`);
    const overrides = { ...read.overrides, tracksPrefill: tracks ?? read.overrides.tracksPrefill };
    const asked = { ...read, overrides, prompt, workerId, rank, prefillTokens };
    return reserved(id, partition, await desk.reserveAt(asked, signal));
  }

  /** `POST /reservations/{id}/prefill_complete` */
  prefillComplete(id: string): WireAnswer {
    this.#options.desk.reservation(id).prefillCompleted();
    return OK;
  }

  /** `POST /reservations/{id}/output_block` */
  outputBlock(id: string, body: unknown): WireAnswer {
    const fields = objectOf(body, 'the body');
    const weight = given(fields.decay_fraction, 'decay_fraction', (value, name) =>
      decimalOf(value, name, 0, 1),
    );
    this.#options.desk.reservation(id).outputBlock(weight);
    return OK;
  }

  /** `DELETE /reservations/{id}` */
  release(id: string): WireAnswer {
    this.#options.desk.reservation(id).finish();
    return OK;
  }

  // What waits holds no body: a function that awaits keeps all its locals, so those that do are given what they need alone.

  async #select(
    asked: Asked,
    id: string | null,
    advisory: boolean,
    signal: AbortSignal,
  ): Promise<WireAnswer> {
    const { desk } = this.#options;
    const { answer } = advisory
      ? desk.advise(asked, id !== null)
      : await desk.select(asked, id !== null, signal);
    return {
      status: 200,
      value: {
        ...(id === null ? {} : { selection_id: id }),
        ...named(asked.partition),
        ...answer,
        ...(advisory
          ? { worker_load: this.#loadOf(answer.worker_id, answer.dp_rank, answer.block_size) }
          : {}),
      },
    };
  }

  async #selectAndReserve(asked: Asked, signal: AbortSignal): Promise<WireAnswer> {
    const booked = await this.#options.desk.selectAndReserve(asked, signal);
    const { id, partition, prompt } = asked;
    return delivered(200, booked, {
      selection_id: id,
      ...named(partition),
      ...booked.answer,
      sequence_hashes: signedHashes(prompt.hashes.sequence),
      isl_tokens: prompt.promptTokens,
      track_prefill_tokens: booked.tracksPrefill,
    });
  }

  #asked(fields: Fields, request: RoutedCall['request'], id: string): Asked {
    const read = readAsked(fields, request, id, true);
    this.#checkReady(read.partition);
    return { ...read, prompt: read.prompt(this.#options.desk.shapeOf(read.partition)) };
  }

  #checkReady(partition: Partition): void {
    if (this.#options.fleet.candidates(partition, 'aggregated', true).slots.length === 0)
      throw notReady(partition);
  }

  #checkPlace({ model, routingGroup }: Partition, workerId: bigint, rank: number): void {
    const { fleet } = this.#options;
    const worker = fleet.worker(workerId);
    const fits =
      worker !== null &&
      worker.state === 'ready' &&
      worker.spec.model === model &&
      fleet.groupOf(worker.spec) === routingGroup &&
      fleet.slotOf(workerId, rank) >= 0;
    if (!fits) throw unknownWorker(workerId, rank);
  }

  #loadOf(workerId: bigint, rank: number, blockSize: number): object {
    const { fleet, scheduler } = this.#options;
    const worker = fleet.worker(workerId);
    const { prefillTokens } = scheduler.loads.bookedOn(fleet.slotOf(workerId, rank));
    const capacity = worker?.spec.maxNumBatchedTokens ?? UNKNOWN_CAPACITY;
    const total = worker?.spec.totalKvBlocks ?? null;
    const limit = worker === null ? null : scheduler.busy.limitsOf(worker, blockSize).prefillTokens;
    return {
      active_prefill_tokens: prefillTokens,
      prefill_token_capacity: capacity,
      ...(total === null ? {} : { total_kv_blocks: total }),
      ...(limit === null || !Number.isFinite(limit) ? {} : { prefill_busy: prefillTokens > limit }),
    };
  }
}

/** All that is asked, the prompt's blocks not hashed yet. */
function readAsked(
  fields: Fields,
  request: RoutedCall['request'],
  id: string,
  needsLocal: boolean,
): Omit<Asked, 'prompt'> & { readonly prompt: UnhashedPrompt } {
  const overrides = readOverrides(fields.router_config_override);
  return {
    id,
    partition: readPartition(fields),
    prompt: readPrompt(fields, needsLocal),
    overrides,
    constraints: readConstraints(fields, overrides.temperature),
    affinityTarget: given(fields.affinity_target, 'affinity_target', placeOf),
    session: readSession(fields, request),
    policyClass: readPolicyClass(request),
    expectedOutputTokens: readExpectedOutput(fields),
  };
}

function named({ model, routingGroup }: Partition): object {
  return { model_name: model, routing_group: routingGroup };
}

function reserved(id: string, partition: Partition, booked: Booked): WireAnswer {
  const { dp_rank, endpoint, worker_id } = booked.answer;
  return delivered(201, booked, { selection_id: id, ...named(partition), worker_id, dp_rank, endpoint });
}

/** A booking's answer; a caller that does not get it would never end the booking. */
function delivered(status: number, { reservation }: Booked, value: object): WireAnswer {
  const { hint } = reservation;
  return {
    status,
    value: { ...value, ...(hint === null ? {} : { kv_hint: hint }) },
    undelivered: () => reservation.giveUp(),
  };
}
