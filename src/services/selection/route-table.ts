// Which path and method is which route.
import { PointsmanError } from '../../plugin/index.ts';
import { badField, objectOf } from './fields.ts';
import type { RoutedCall, SelectionRoutes } from './selection-routes.ts';
import type { StateRoutes } from './state-routes.ts';
import type { WireAnswer } from './wire-answer.ts';

interface Doors {
  readonly selection: SelectionRoutes;
  readonly state: StateRoutes;
}

/** What a route does. */
export type Route =
  | { readonly kind: 'text' }
  | { readonly kind: 'metrics' }
  | { readonly kind: 'dump' }
  | { readonly kind: 'read'; run(state: StateRoutes, query: URLSearchParams): WireAnswer }
  | {
      readonly kind: 'write';
      readonly hasBody: boolean;
      /** @param parameter what stands in the path for `{id}`. */
      run(doors: Doors, parameter: string, call: RoutedCall): WireAnswer | Promise<WireAnswer>;
    };

/** What a path is. */
export interface FoundRoute {
  /** Path with `{id}` for ids, for metrics. */
  readonly endpoint: string;
  /** Null = the path takes other methods. */
  readonly route: Route | null;
  readonly methods: readonly string[];
  readonly parameter: string;
}

type Run = Extract<Route, { kind: 'write' }>['run'];

const read = (run: Extract<Route, { kind: 'read' }>['run']): Route => ({ kind: 'read', run });
const write = (run: Run): Route => ({ kind: 'write', hasBody: true, run });

const NOT_BUILT = write(() => {
  throw new PointsmanError(
    'PM_SELECTOR_NOT_BUILT',
    'this service does not replicate its state to others; run one, or give each its own workers',
  );
});

const ROUTES: Readonly<Record<string, Readonly<Record<string, Route>>>> = {
  '/health': { GET: { kind: 'text' } },
  '/metrics': { GET: { kind: 'metrics' } },
  '/dump': { GET: { kind: 'dump' } },
  '/ready': { GET: read((state) => state.ready()) },
  '/loads': { GET: read((state, query) => state.loads(query)) },
  '/workers': {
    GET: read((state, query) => state.workers(query)),
    POST: write(({ state }, _, { body }) => state.register(body)),
  },
  '/workers/{id}': {
    PATCH: write(({ state }, id, { body }) => state.patch(workerIdOf(id), body)),
    DELETE: { kind: 'write', hasBody: false, run: ({ state }, id) => state.remove(workerIdOf(id)) },
  },
  '/select': { POST: write(({ selection }, _, call) => selection.select(call)) },
  '/select_and_reserve': { POST: write(({ selection }, _, call) => selection.selectAndReserve(call)) },
  '/reservations': { POST: write(({ selection }, _, call) => selection.reserve(call)) },
  '/reservations/{id}': {
    DELETE: { kind: 'write', hasBody: false, run: ({ selection }, id) => selection.release(id) },
  },
  '/reservations/{id}/prefill_complete': {
    POST: write(({ selection }, id, { body }) => {
      objectOf(body, 'the body');
      return selection.prefillComplete(id);
    }),
  },
  '/reservations/{id}/output_block': {
    POST: write(({ selection }, id, { body }) => selection.outputBlock(id, body)),
  },
  '/potential_loads': { POST: write(({ state }, _, { body }) => state.potentialLoads(body)) },
  '/overlap_scores': { POST: write(({ state }, _, { body }) => state.overlapScores(body)) },
  '/replica_sync/register_peer': { POST: NOT_BUILT },
  '/replica_sync/deregister_peer': { POST: NOT_BUILT },
  '/replica_sync/peers': { GET: read(() => ({ status: 200, value: [] })) },
};

/** The route of a request; null = there is no such path. */
export function findRoute(method: string, path: string): FoundRoute | null {
  const [, first = '', second, ...rest] = path.split('/');
  const endpoint =
    (first === 'workers' || first === 'reservations') && second !== undefined && second !== ''
      ? `/${[first, '{id}', ...rest].join('/')}`
      : path;
  const methods = Object.hasOwn(ROUTES, endpoint) ? ROUTES[endpoint] : undefined;
  if (methods === undefined) return null;
  return {
    endpoint,
    route: (Object.hasOwn(methods, method) ? methods[method] : undefined) ?? null,
    methods: Object.keys(methods),
    parameter: endpoint === path ? '' : decoded(second ?? ''),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // What is no encoding stands for itself.
    return text;
  }
}

function workerIdOf(text: string): bigint {
  const id = /^\d{1,20}$/.test(text) ? BigInt(text) : null;
  if (id === null || id > 0xffffffffffffffffn)
    throw badField('the worker id in the path', 'an integer from 0 to 2^64 - 1');
  return id;
}
