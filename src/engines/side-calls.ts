// Calls to engines beside a request: nobody waits for them, and each is made once. An engine that is dead keeps every one of them for
// seconds, and all its clients leave at the same time, so that their number is bounded.
import type { Pool } from 'undici';
import type { Metrics } from '../observe/index.ts';
import { errorText, type Logger } from '../plugin/index.ts';
import type { SideCall } from './dialect.ts';
import type { EngineRequest } from './types.ts';

/** Nobody waits for the answer; after this time a call counts as failed, in ms. */
const TIMEOUT_MS = 5_000;
/** Calls to one engine at a time; further ones are not made. */
export const MAX_SIDE_CALLS = 64;

/** What they are made with. */
export interface SideCallsDeps {
  /** Connections to an origin, and what to do with them once the call is over. */
  readonly pool: (origin: string) => { readonly pool: Pool; readonly done: () => void };
  readonly metrics: Metrics;
  /** Told of the first of several failures in a row; absent = nobody. */
  readonly log?: Logger;
}

/** Makes calls, none of which is heard of again. */
export class SideCalls {
  readonly #deps: SideCallsDeps;
  /** By origin; those without calls have no entry. */
  readonly #underWay = new Map<string, number>();
  /** Origins of which the latest call failed, as far as they have others under way. */
  readonly #failing = new Set<string>();
  #closed = false;

  constructor(deps: SideCallsDeps) {
    this.#deps = deps;
  }

  /** Makes a call to the worker of a request. */
  make(request: EngineRequest, call: SideCall): void {
    if (this.#closed) return;
    const { origin, pathname } = new URL(request.worker.spec.url);
    const calls = this.#underWay.get(origin) ?? 0;
    if (calls >= MAX_SIDE_CALLS) {
      this.#over(request, call, origin, 'too many such calls wait for its answer');
      return;
    }
    this.#underWay.set(origin, calls + 1);
    const { done, pool } = this.#deps.pool(origin);
    pool
      .request({
        method: 'POST',
        path: pathname.replace(/\/$/, '') + call.path,
        headers: call.headers,
        body: call.body,
        headersTimeout: TIMEOUT_MS,
        bodyTimeout: TIMEOUT_MS,
      })
      .then(async ({ body, statusCode }) => {
        await body.dump();
        return statusCode < 300 ? null : `status ${statusCode}`;
      })
      .catch((thrown: unknown) => errorText(thrown))
      .then((why) => {
        this.#over(request, call, origin, why);
        const left = (this.#underWay.get(origin) ?? 1) - 1;
        if (left > 0) this.#underWay.set(origin, left);
        else {
          this.#underWay.delete(origin);
          this.#failing.delete(origin);
        }
        done();
      })
      // Whoever counts and logs may throw; nobody is there to hear of it.
      .catch(() => {});
  }

  /** What is under way is not heard of any more. */
  close(): void {
    this.#closed = true;
  }

  /** @param why it failed; null = it did not. */
  #over(request: EngineRequest, call: SideCall, origin: string, why: string | null): void {
    if (this.#closed) return;
    const { log, metrics } = this.#deps;
    const worker = String(request.worker.spec.id);
    const result = why === null ? 'ok' : 'failed';
    metrics.count('pointsman_engine_side_calls_total', { worker, call: call.name, result });
    if (why === null) this.#failing.delete(origin);
    else if (!this.#failing.has(origin)) {
      this.#failing.add(origin);
      log?.warn(`worker ${worker} did not take ${call.path}: ${why}`, { worker, request: request.requestId });
    }
  }
}
