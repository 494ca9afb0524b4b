// What all kinds of definitions share: the brand, the scope, and what `create` is given.
import type { Clock } from './clock.ts';
import type { Partition, Role } from './ids.ts';
import type { Logger } from './logger.ts';
import type { PluginMetrics } from './plugin-metrics.ts';
import type { Rng } from './rng.ts';
import type { ParameterSchema, Parameters } from './schema.ts';

/** Version of this contract. The host refuses a definition whose major version differs. Experimental while it is 0. */
export const PLUGIN_API_VERSION = '0.1';

/** Kinds of definitions. */
export type PluginKind = 'worker-selection' | 'hint-policy' | 'request-classifier';

/** Marks a definition: a string key, so that definitions made with two copies of the package fit each other. */
export interface Branded<K extends PluginKind> {
  readonly '~pointsman': { readonly kind: K; readonly apiVersion: string };
}

/** `partition`: one instance per partition and role (classifiers: per partition); `shared`: one per configured instance. A reload makes others. */
export type Scope = 'partition' | 'shared';

/**
 * Where a plugin runs. `in-process`: on the router's own thread. `thread`: on a thread of its own, where an endless loop costs
 * nobody but the plugin; each call then takes some 0.1 ms longer.
 */
export type Isolation = 'in-process' | 'thread';

/** Every isolation, in the order error messages list them. */
export const ISOLATIONS: readonly Isolation[] = Object.freeze(['in-process', 'thread']);

/** What every `create` is given. */
export interface CreateBase<P> {
  /** Parsed parameters. */
  readonly parameters: P;
  readonly clock: Clock;
  /** Seeded for this instance: use it instead of Math.random, so that decisions can be replayed. */
  readonly rng: Rng;
  readonly log: Logger;
  readonly metrics: PluginMetrics;
}

/** What `create` is given for one partition and role. */
export interface CreatePartition {
  readonly partition: Partition;
  readonly role: Role;
  /** Tokens per KV block in this partition. */
  readonly blockSize: number;
}

/** What `create` is given: with scope `shared` without partition, role and block size. */
export type CreateContext<S extends ParameterSchema, X extends Scope = 'partition'> = X extends 'partition'
  ? CreateBase<Parameters<S>> & CreatePartition
  : CreateBase<Parameters<S>>;

/** The context with its type parameters erased: what the host hands over. */
export type AnyCreateContext = CreateBase<unknown> & CreatePartition;

/** What a policy may promise beyond its own work: `kv-copy` = it credits, or sends, KV copies that are not there yet. */
export type Commitment = 'kv-copy';

/** Every commitment, in the order error messages list them. */
export const COMMITMENTS: readonly Commitment[] = Object.freeze(['kv-copy']);

/** How a definition declares its commitments. */
export interface CommitmentOptions<C extends Commitment, S extends ParameterSchema> {
  /** Upper bound; shapes the types. */
  readonly commitments?: readonly C[];
  /** Whether an instance with these parameters keeps them; absent = always. */
  readonly commitsWhen?: (parameters: Parameters<S>) => boolean;
}

/** Members that every definition may have. */
export interface CommonOptions<S extends ParameterSchema, X extends Scope> {
  /** `[A-Za-z0-9_.-]+`, not `default`, unique among everything loaded. */
  readonly type: string;
  /** Schema of the YAML `parameters`; without one the plugin takes none. */
  readonly parameters?: S;
  readonly scope?: X;
}
