// How a worker hands KV over, and the labels by which topology rules are kept.
import type { Worker, WorkerHandoff } from './types.ts';

const BY_ANSWER: WorkerHandoff = { kind: 'nixl', address: null, engineId: null, tpSize: 1, ppSize: 1 };

/** How a worker hands KV over: as configured, else as its engine advertises, else by the answer of the prefill. */
export function handoffOf(worker: Pick<Worker, 'spec' | 'capabilities'>): WorkerHandoff {
  return worker.spec.handoff ?? worker.capabilities?.handoff ?? BY_ANSWER;
}

/** The taint of everybody at one place of a topology level, as the Rust router names it. */
export function topologyTaint(domain: string, value: string): string {
  return `dynamo.topology/${domain}=${value}`;
}
