// Where a model's token ids come from, out of what its section says and what its workers are.
import { resolve } from 'node:path';
import type { TokensSetting } from './fleet-types.ts';
import { isInProcess } from './in-process-workers.ts';
import type { FileValue } from './schema.ts';

/** Model of the first worker in this process that serves a model of the file; null = there is none. */
export function ggufOf({ models, workers }: FileValue, model: string): string | null {
  const onlyModel = Object.keys(models).length === 1 ? model : null;
  return workers.find((worker) => isInProcess(worker) && (worker.model ?? onlyModel) === model)?.gguf ?? null;
}

/** An engine that takes longer for the ids of a text is not worth the wait. */
const TOKENIZE_TIMEOUT_MS = 5_000;
const TOKENIZE_CONCURRENCY = 16;

/**
 * A tokenizer without a source means `local`, and an engine in this process has one in its file; nothing at all means that the
 * engine is asked.
 */
export function buildTokens(
  value: FileValue['models'][string]['tokens'],
  folder: string,
  gguf: string | null,
): TokensSetting {
  const tokenizer = value.tokenizer ?? (value.source === 'estimate' ? null : gguf);
  const source = tokenizer === null ? (value.source ?? 'engine') : 'local';
  if (source === 'estimate') return { source };
  if (source === 'engine') {
    return {
      source,
      timeoutMs: value.timeout ?? TOKENIZE_TIMEOUT_MS,
      concurrency: value.concurrency ?? TOKENIZE_CONCURRENCY,
    };
  }
  return {
    source,
    renderAs: value.render_as,
    tokenizer: resolve(folder, tokenizer ?? ''),
    template: value.template === null ? null : resolve(folder, value.template),
  };
}
