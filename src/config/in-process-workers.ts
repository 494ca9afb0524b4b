// Workers that are no server but an engine in the router's process: what they have in place of a url.
import type { FileValue } from './schema.ts';
import type { ConfigPath, ConfigProblem, ProblemAnchor } from './types.ts';

type FileWorker = FileValue['workers'][number];

/** Dialect of a worker on node-llama-cpp. */
const IN_PROCESS = 'llamacpp-node';
/** Keys that say what such a worker is made of. */
const OWN_KEYS = ['gguf', 'sequences', 'context_tokens', 'max_waiting'] as const;
/** Tokens of KV memory, and requests that share it, where nothing is said. */
const CONTEXT_TOKENS = 16_384;
const SEQUENCES = 4;
/** Tokens per block where the model's configuration says nothing. */
export const IN_PROCESS_BLOCK_SIZE = 16;
/** Blocks of a sequence: with fewer no prompt would fit beside its answer. */
const LEAST_BLOCKS = 2;

/** An engine in the router's process. */
export interface InProcessEngine {
  /** Absolute path of the model. */
  readonly gguf: string;
  /** Requests that run at the same time, each in a sequence of its own. */
  readonly sequences: number;
  /** KV memory in tokens, of all sequences together. */
  readonly contextTokens: number;
  /** Requests that may wait for a sequence. */
  readonly maxWaiting: number;
}

/** Whether a worker runs in the router's process. */
export function isInProcess(worker: Pick<FileWorker, 'dialect'>): boolean {
  return worker.dialect === IN_PROCESS;
}

/**
 * The engine of a worker that passed the checks; null = it is a server.
 * @param absolute makes a path of the file absolute.
 */
export function inProcessEngine(
  worker: FileWorker,
  absolute: (path: string) => string,
): InProcessEngine | null {
  if (!isInProcess(worker) || worker.gguf === null) return null;
  return {
    gguf: absolute(worker.gguf),
    sequences: worker.sequences ?? SEQUENCES,
    contextTokens: worker.context_tokens ?? CONTEXT_TOKENS,
    maxWaiting: worker.max_waiting ?? 256,
  };
}

/**
 * Name of a worker in place of a url: its model and its id, so that it stays the same engine when workers before it leave the file;
 * without an id, which of several with the same model it is.
 */
export function inProcessName(workers: readonly FileWorker[], index: number): string {
  const { gguf, id } = workers[index] ?? { gguf: null, id: null };
  const name = `${IN_PROCESS}:${encodeURI(gguf ?? '')}`;
  if (id !== null) return `${name}#worker-${id}`;
  const earlier = workers
    .slice(0, index)
    .filter((other) => isInProcess(other) && other.gguf === gguf && other.id === null).length;
  return `${name}${earlier === 0 ? '' : `#${earlier + 1}`}`;
}

/** Keys that one kind of worker needs and the other does not have. @param blockSize of its model; null = the default. */
export function checkInProcess(
  worker: FileWorker,
  blockSize: number | null,
  path: ConfigPath,
  report: (path: ConfigPath, message: string, anchor?: ProblemAnchor, code?: ConfigProblem['code']) => void,
): void {
  if (!isInProcess(worker)) {
    for (const key of OWN_KEYS) {
      if (worker[key] !== null) report([...path, key], `is read only with dialect: ${IN_PROCESS}`, 'key');
    }
    if (worker.url !== null) return;
    const url = 'is required: a url such as http://127.0.0.1:9000, without credentials, query or fragment';
    report([...path, 'url'], url, 'parent', 'PM_CONFIG_MISSING');
    return;
  }
  if (worker.gguf === null) {
    const gguf = `is required with dialect: ${IN_PROCESS}: the path of a GGUF model`;
    report([...path, 'gguf'], gguf, 'parent', 'PM_CONFIG_MISSING');
  }
  const tokens = worker.context_tokens ?? CONTEXT_TOKENS;
  const sequences = worker.sequences ?? SEQUENCES;
  const needed = sequences * LEAST_BLOCKS * (blockSize ?? IN_PROCESS_BLOCK_SIZE);
  if (tokens < needed) {
    const room = `must be at least ${needed}: ${LEAST_BLOCKS} blocks for each of ${sequences} sequences, or take fewer sequences`;
    report([...path, 'context_tokens'], room);
  }
  const why = `with dialect: ${IN_PROCESS}, which runs in this process`;
  if (worker.url !== null) report([...path, 'url'], `has no meaning ${why}`, 'key');
  if (Object.keys(worker.kv_events).length > 0)
    report([...path, 'kv_events'], `has no meaning ${why} and hands its events over there`, 'key');
  if (worker.ranks.count !== 1 || worker.ranks.first !== 0)
    report([...path, 'ranks'], `must be { first: 0, count: 1 } ${why} as one rank of several sequences`);
  if (worker.role !== 'aggregated')
    report([...path, 'role'], `must be aggregated ${why} and hands no KV over`);
}
