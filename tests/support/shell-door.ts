// A door onto the road that notes what becomes of each request, with the clock's time of everything it hears.
import type { EngineReport } from '../../src/engines/index.ts';
import type { DecisionReader, DecisionRecord } from '../../src/observe/index.ts';
import type { Clock, PointsmanError } from '../../src/plugin/index.ts';
import type { Road } from '../../src/road/index.ts';
import { givenRequest } from './road-request.ts';
import type { ShellRequest } from './shell-workload.ts';

/** Model name of both shells. */
export const SHELL_MODEL = 'tiny-sim';

/** What was heard of one request. */
export interface HeardRequest {
  worker: bigint | null;
  /** Times of head, each token and end; ms. */
  readonly times: number[];
  tokens: number;
  report: EngineReport | null;
  error: PointsmanError | null;
  decision: DecisionRecord | null;
}

/** Sends requests and listens. */
export class ShellDoor {
  readonly heard: HeardRequest[] = [];
  heads = 0;
  tokens = 0;
  ended = 0;
  readonly #road: Road;
  readonly #decisions: DecisionReader;
  readonly #clock: Clock;
  readonly #ids: string[] = [];

  constructor(road: Road, decisions: DecisionReader, clock: Clock) {
    this.#road = road;
    this.#decisions = decisions;
    this.#clock = clock;
  }

  /** What was heard, with decisions as they stand now: hints are reported on after the end of their request as well. */
  settled(): readonly HeardRequest[] {
    for (const [index, heard] of this.heard.entries())
      heard.decision = this.#decisions.get(this.#ids[index] ?? '');
    return this.heard;
  }

  arrive(index: number, request: ShellRequest): void {
    const heard: HeardRequest = {
      worker: null,
      times: [],
      tokens: 0,
      report: null,
      error: null,
      decision: null,
    };
    this.heard[index] = heard;
    const note = (): unknown => heard.times.push(this.#clock.now());
    const end = (): void => {
      note();
      this.ended += 1;
    };
    this.#road.arrive(roadRequest(`r${index}`, request), {
      booked: ({ workerId }, id) => {
        heard.worker = workerId;
        this.#ids[index] = id;
      },
      head: () => {
        this.heads += 1;
        note();
      },
      data: () => undefined,
      tokens: (count) => {
        heard.tokens += count;
        this.tokens += count;
        note();
      },
      finished: (report) => {
        heard.report = report;
        end();
      },
      failed: (error) => {
        heard.error = error;
        end();
      },
    });
  }
}

function roadRequest(requestId: string, request: ShellRequest): Parameters<Road['arrive']>[0] {
  return givenRequest(requestId, request.tokens, {
    partition: { model: SHELL_MODEL, routingGroup: 'default' },
    servedAs: SHELL_MODEL,
    body: {},
    maxOutputTokens: request.outputTokens,
    session: {
      sessionId: request.sessionId,
      agentHeaders: {},
      ...(request.final && { sessionFinal: true }),
    },
  });
}
