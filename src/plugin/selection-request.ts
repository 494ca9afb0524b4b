import type { WorkerId } from './ids.ts';
import type { SessionContext } from './session.ts';

/** A worker, or with a rank exactly one of its ranks. */
export interface WorkerTarget {
  readonly workerId: WorkerId;
  /** null = any rank of the worker. */
  readonly rank: number | null;
}

/** What a worker-selection policy always knows of the request. null = not given. */
export interface SelectionRequest {
  readonly promptTokens: number;
  /** ceil(prompt tokens / block size). */
  readonly requestBlocks: number;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Whether this request counts toward prefill load. */
  readonly tracksPrefillTokens: boolean;
  readonly session: SessionContext | null;
  /** Where the session went before; advice, and it may be missing from the candidates. */
  readonly affinityTarget: WorkerTarget | null;
  /**
   * The worker the request must go to, by a pin or by an eligible affinity target that the policy is exclusive about; the host keeps
   * to it whatever a policy answers.
   */
  readonly pinnedWorker: WorkerTarget | null;
  readonly expectedOutputTokens: number | null;
  /** Larger goes first. */
  readonly priority: number;
  readonly strictPriority: number;
  /** Sampling temperature asked for by a trusted caller. */
  readonly temperatureOverride: number | null;
}
