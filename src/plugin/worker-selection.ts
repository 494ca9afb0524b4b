// Worker-selection policies: which worker and rank gets the request.
import {
  type AnyCreateContext,
  type Branded,
  type Commitment,
  type CommitmentOptions,
  type CommonOptions,
  type CreateContext,
  PLUGIN_API_VERSION,
  type Scope,
} from './define.ts';
import type { LinearCost } from './linear-cost.ts';
import type { NoParameters, ParameterSchema } from './schema.ts';
import type { TimeCost } from './time-cost.ts';
import type { WorkerFilter, WorkerPicker, WorkerScorer } from './worker-components.ts';

/** What `create` returns: filters, scorers and one picker, or filters and a declared cost, which brings its own picker. */
export type WorkerSelectionPolicy<C extends Commitment = never> =
  | {
      readonly filters?: readonly WorkerFilter[];
      readonly scorers?: readonly WorkerScorer[];
      readonly picker: WorkerPicker<C>;
      readonly cost?: never;
      dispose?(): void | Promise<void>;
    }
  | {
      readonly filters?: readonly WorkerFilter[];
      readonly cost: LinearCost<C> | TimeCost;
      readonly scorers?: never;
      readonly picker?: never;
      dispose?(): void | Promise<void>;
    };

/** Options of {@link defineWorkerSelectionPolicy}. */
export interface WorkerSelectionOptions<
  S extends ParameterSchema,
  X extends Scope,
  C extends Commitment = never,
> extends CommonOptions<S, X>,
    CommitmentOptions<C, S> {
  /** Narrow to an eligible affinity target before anything else; default false. */
  readonly exclusiveAffinity?: boolean;
  readonly create: (context: CreateContext<S, X>) => WorkerSelectionPolicy<NoInfer<C>>;
}

/** A worker-selection policy as the host sees it: frozen, its type parameters erased. */
export interface WorkerSelectionPolicyDefinition extends Branded<'worker-selection'> {
  readonly type: string;
  readonly parameters?: ParameterSchema;
  readonly scope: Scope;
  readonly exclusiveAffinity: boolean;
  readonly commitments?: readonly Commitment[];
  commitsWhen?(parameters: unknown): boolean;
  create(context: AnyCreateContext): WorkerSelectionPolicy<Commitment>;
}

/**
 * Defines a worker-selection policy; export the result from a module listed under `plugins`.
 *
 * @example
 * export default defineWorkerSelectionPolicy({
 *   type: 'fewest_requests',
 *   create: ({ rng }) => ({
 *     scorers: [scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests })],
 *     picker: pickLowestCost(rng),
 *   }),
 * });
 */
export function defineWorkerSelectionPolicy<
  S extends ParameterSchema = ParameterSchema<unknown, NoParameters>,
  const X extends Scope = 'partition',
  const C extends Commitment = never,
>(options: WorkerSelectionOptions<S, X, C>): WorkerSelectionPolicyDefinition {
  return Object.freeze({
    exclusiveAffinity: false,
    scope: 'partition' as Scope,
    ...options,
    '~pointsman': Object.freeze({ kind: 'worker-selection', apiVersion: PLUGIN_API_VERSION }),
  });
}
