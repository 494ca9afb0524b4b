// Hint policies: what the booked worker's engine should do with its KV cache.
import {
  type AnyCreateContext,
  type Branded,
  type Commitment,
  type CommitmentOptions,
  type CommonOptions,
  type CreateContext,
  type Isolation,
  PLUGIN_API_VERSION,
  type Scope,
} from './define.ts';
import type { Partition, Role, WorkerRank } from './ids.ts';
import type { CacheColumns, Granted, LoadColumns, Merge, Row } from './inputs.ts';
import type { CommittedKvCopy, KvCopyLocations } from './kv-copy.ts';
import type { HintAction } from './kv-hint.ts';
import type { NoParameters, ParameterSchema, Parameters } from './schema.ts';
import type { SessionContext } from './session.ts';
import type { BlockResidency, SessionLineage } from './session-lineage.ts';
import type { WorkerTiming } from './worker-timing.ts';

/** What each input of a hint policy adds to its context. */
export interface HintInputs {
  /** What the booked rank held of this prompt at selection. */
  readonly cache: { readonly cache: Row<CacheColumns> };
  /** The booked rank's load at selection. */
  readonly load: { readonly load: Row<LoadColumns> };
  /** How long workers of the booked one's kind take, as learnt from their answers; null = nobody knows. */
  readonly timing: { readonly timing: WorkerTiming | null };
  /** Who else holds the prompt's blocks. */
  readonly 'kv-copy-locations': { readonly copyLocations: KvCopyLocations };
  /** Which blocks sessions have where; null = switched off. */
  readonly 'session-lineage': { readonly lineage: SessionLineage | null };
  /** Which tier holds a block on a worker; null = switched off. */
  readonly residency: { readonly residency: BlockResidency | null };
}

/** Names a hint policy may list under `inputs`. */
export type HintInput = keyof HintInputs;

/** Every hint input, in the order error messages list them. */
export const HINT_INPUTS: readonly HintInput[] = Object.freeze([
  'cache',
  'load',
  'timing',
  'kv-copy-locations',
  'session-lineage',
  'residency',
]);

/** What every hint policy knows of a booking. */
export interface HintContextBase {
  readonly requestId: string;
  /** The booked rank. */
  readonly worker: WorkerRank;
  readonly role: Role;
  readonly partition: Partition;
  readonly promptTokens: number;
  /** Tokens per block. */
  readonly blockSize: number;
  readonly session: SessionContext | null;
  /** `type@version`s the rank accepts; null = it did not say, and skips what it does not know. */
  readonly capabilities: ReadonlySet<string> | null;
}

/** What the commitment `kv-copy` adds to the context. */
export interface CommittedHintContext {
  /** The copy that selection committed for this booking and this policy must send; null when there is none. */
  readonly committedKvCopy: CommittedKvCopy | null;
}

/** The context with what `inputs` and `commitments` declare. */
export type HintContext<I extends HintInput = never, C extends Commitment = never> = HintContextBase &
  ([I] extends [never] ? unknown : Merge<HintInputs[I]>) &
  ([C] extends [never] ? unknown : CommittedHintContext);

/** The context for a list of inputs; a choice between lists gives a choice of shapes (`'cache' in context`). */
export type HintContextFor<
  L extends readonly HintInput[],
  C extends Commitment = never,
> = L extends readonly HintInput[] ? HintContext<Granted<L>, C> : never;

/** Under which worker-selection policies a hint policy runs where a role lists no hints. */
export type DefaultHost = 'any-worker-selection' | { readonly workerSelection: string };

/** What `create` returns. */
export interface HintPolicy<L extends readonly HintInput[] = [], C extends Commitment = never> {
  /** Called once per booking, synchronously; the host numbers the actions. Throwing loses only this policy's actions. */
  buildHints(context: HintContextFor<L, C>): readonly HintAction[];
  dispose?(): void | Promise<void>;
}

/** Options of {@link defineHintPolicy}. */
export interface HintPolicyOptions<
  S extends ParameterSchema,
  I extends readonly HintInput[],
  X extends Scope,
  C extends Commitment = never,
> extends CommonOptions<S, X>,
    CommitmentOptions<C, S> {
  /** What the policy reads: a literal list. */
  readonly inputs?: I;
  /** Those of `inputs` that an instance with these parameters reads, so that the others are not prepared for it; absent = all. */
  readonly inputsWhen?: (parameters: Parameters<S>) => readonly HintInput[];
  /** `type@version`s it may return; absent = any. */
  readonly actions?: readonly string[];
  /** Where it runs without being listed; absent or empty = nowhere. */
  readonly defaultHosts?: readonly DefaultHost[];
  /** Where it runs unless the configuration says otherwise; default `in-process`. */
  readonly isolation?: Isolation;
  readonly create: (context: CreateContext<S, X>) => HintPolicy<I, NoInfer<C>>;
}

/** A created hint policy with its input types erased; the host alone calls it. */
export interface AnyHintPolicy {
  buildHints(context: never): readonly HintAction[];
  dispose?(): void | Promise<void>;
}

/** A hint policy as the host sees it: frozen, its type parameters erased. */
export interface HintPolicyDefinition extends Branded<'hint-policy'> {
  readonly type: string;
  readonly parameters?: ParameterSchema;
  readonly scope: Scope;
  readonly inputs: readonly HintInput[];
  readonly actions?: readonly string[];
  readonly defaultHosts: readonly DefaultHost[];
  readonly commitments?: readonly Commitment[];
  readonly isolation?: Isolation;
  commitsWhen?(parameters: unknown): boolean;
  inputsWhen?(parameters: unknown): readonly HintInput[];
  create(context: AnyCreateContext): AnyHintPolicy;
}

/**
 * Defines a hint policy; export the result from a module listed under `plugins`.
 *
 * @example
 * export default defineHintPolicy({
 *   type: 'mark',
 *   actions: ['acme.mark@1.0'],
 *   create: () => ({
 *     buildHints: ({ promptTokens }) => [{ type: 'acme.mark', version: '1.0', payload: { tokens: promptTokens } }],
 *   }),
 * });
 */
export function defineHintPolicy<
  S extends ParameterSchema = ParameterSchema<unknown, NoParameters>,
  const I extends readonly HintInput[] = [],
  const X extends Scope = 'partition',
  const C extends Commitment = never,
>(options: HintPolicyOptions<S, I, X, C>): HintPolicyDefinition {
  return Object.freeze({
    inputs: [] as readonly HintInput[],
    defaultHosts: [] as readonly DefaultHost[],
    scope: 'partition' as Scope,
    ...options,
    '~pointsman': Object.freeze({ kind: 'hint-policy', apiVersion: PLUGIN_API_VERSION }),
  });
}
