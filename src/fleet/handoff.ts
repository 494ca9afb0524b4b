// How a worker hands KV over.
import type { Worker, WorkerHandoff } from './types.ts';

const BY_ANSWER: WorkerHandoff = { kind: 'nixl', address: null, engineId: null, tpSize: 1, ppSize: 1 };

/** How a worker hands KV over: as configured, else as its engine advertises, else by the answer of the prefill. */
export function handoffOf(worker: Pick<Worker, 'spec' | 'capabilities'>): WorkerHandoff {
  return worker.spec.handoff ?? worker.capabilities?.handoff ?? BY_ANSWER;
}
