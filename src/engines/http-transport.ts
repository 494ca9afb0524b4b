// Carries requests to engines over HTTP: one connection pool per worker, bytes relayed as they come. What an engine's words
// mean is the dialect's business; whether a worker is suspect is the fleet's.
import { Pool } from 'undici';
import type { Worker } from '../fleet/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Logger, PointsmanError } from '../plugin/index.ts';
import type { EngineDialect, SideCall } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { HttpExchange } from './http-exchange.ts';
import { SideCalls } from './side-calls.ts';
import type { EngineExchange, EngineRequest, EngineSink, EngineTransport } from './types.ts';

/** `refused`: no connection could be made. `reset`: a connection broke before the answer was complete. */
export type ConnectionFault = 'refused' | 'reset';

/** What the HTTP transport needs. */
export interface HttpTransportDeps {
  /** By name, as workers carry it in their spec. */
  readonly dialects: ReadonlyMap<string, EngineDialect>;
  readonly metrics: Metrics;
  /** Told of calls beside a request that failed; absent = nobody. */
  readonly log?: Logger;
}

/** An engine transport over HTTP. */
export interface HttpTransport extends EngineTransport {
  /** Closes the connections to a url that no worker has any more; running exchanges finish. */
  forget(url: string): void;
}

/** Time to make one TCP connection, in ms. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Idle connections are dropped before engines drop theirs (5 s is common), so that no request meets a closing socket. */
const KEEP_ALIVE_MS = 4_000;

/** Creates the transport. Answers have no time limit: a long prompt may be silent for minutes. */
export function createHttpTransport(deps: HttpTransportDeps): HttpTransport {
  const pools = new Map<string, Pool>();
  /** Those of calls to engines whose workers have left. */
  const passing = new Set<Pool>();
  let closed = false;

  const poolOf = (origin: string): Pool => {
    let pool = pools.get(origin);
    if (pool === undefined) {
      pool = newPool(origin);
      pools.set(origin, pool);
    }
    return pool;
  };
  const fault = (worker: Worker, kind: ConnectionFault): void => {
    deps.metrics.count('pointsman_engine_connection_faults_total', { worker: String(worker.spec.id), kind });
  };
  const sideCalls = new SideCalls({
    // One that is made after its worker left opens no connections that stay.
    pool(origin) {
      const known = pools.get(origin);
      if (known !== undefined) return { pool: known, done: () => {} };
      const pool = newPool(origin);
      passing.add(pool);
      return {
        pool,
        done() {
          passing.delete(pool);
          closeQuietly(pool);
        },
      };
    },
    metrics: deps.metrics,
    ...(deps.log === undefined ? {} : { log: deps.log }),
  });
  const aside = (request: EngineRequest, call: SideCall): void => sideCalls.make(request, call);

  return {
    dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
      const exchange = new HttpExchange(request, sink, fault, aside);
      try {
        if (closed) throw new PointsmanError('PM_ENGINE_UNREACHABLE', 'the router is stopping');
        const dialect = dialectOf(request.worker, deps.dialects);
        const { origin, pathname } = new URL(request.worker.spec.url);
        const call = dialect.call(request);
        exchange.readWith(dialect);
        poolOf(origin).dispatch(
          {
            method: 'POST',
            path: pathname.replace(/\/$/, '') + call.path,
            headers: call.headers,
            body: call.body,
            headersTimeout: 0,
            bodyTimeout: 0,
          },
          exchange,
        );
      } catch (thrown) {
        exchange.failedToStart(thrown);
      }
      exchange.opened();
      return exchange;
    },
    forget(url) {
      const origin = new URL(url).origin;
      const pool = pools.get(origin);
      pools.delete(origin);
      if (pool !== undefined) closeQuietly(pool);
    },
    close() {
      closed = true;
      sideCalls.close();
      for (const pool of [...pools.values(), ...passing]) {
        pool.destroy(new PointsmanError('PM_ENGINE_LOST', 'the router stopped')).catch(() => {});
      }
      pools.clear();
    },
  };
}

function newPool(origin: string): Pool {
  return new Pool(origin, {
    connections: null,
    pipelining: 1,
    connect: { timeout: CONNECT_TIMEOUT_MS },
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function closeQuietly(pool: Pool): void {
  // A pool that fails to close has nothing left to close.
  pool.close().catch(() => {});
}
