// The imperative way to offer policies: a module exports `register(registry)` instead of definitions.
import type { AnyCreateContext, Commitment, Isolation } from './define.ts';
import type { AnyHintPolicy, DefaultHost, HintInput } from './hint-policy.ts';
import type { AnyClassifierCreateContext, RequestClassifier } from './request-classifier.ts';
import type { WorkerSelectionPolicy } from './worker-selection.ts';

/** Makes worker-selection policies with parameters already read. */
export interface WorkerSelectionFactory {
  readonly exclusiveAffinity?: boolean;
  readonly commitments?: readonly Commitment[];
  create(context: AnyCreateContext): WorkerSelectionPolicy<Commitment>;
}

/** Makes hint policies with parameters already read. */
export interface HintPolicyFactory {
  readonly inputs?: readonly HintInput[];
  readonly actions?: readonly string[];
  readonly commitments?: readonly Commitment[];
  /** As of `defineHintPolicy`. */
  readonly isolation?: Isolation;
  create(context: AnyCreateContext): AnyHintPolicy;
}

/** Makes request classifiers with parameters already read. */
export interface RequestClassifierFactory {
  /** As of a definition. */
  readonly isolation?: Isolation;
  create(context: AnyClassifierCreateContext): RequestClassifier;
}

/** Handed to a module's `register`. A provider gets the raw parameters and throws when they are wrong. */
export interface PluginRegistry {
  registerWorkerSelection(type: string, provider: (parameters: unknown) => WorkerSelectionFactory): void;
  registerHintPolicy(
    type: string,
    provider: (parameters: unknown) => HintPolicyFactory,
    defaultHosts?: readonly DefaultHost[],
  ): void;
  registerRequestClassifier(type: string, provider: (parameters: unknown) => RequestClassifierFactory): void;
}
