// Lets a model's token source ask the model's own workers, and tells which engines' way of rendering chats a model's files follow.
import type { RouterConfig } from '../config/index.ts';
import type { TokensAsker } from '../engines/index.ts';
import type { Fleet } from '../fleet/index.ts';
import type { EngineTokenizer, RenderStyle } from '../tokens/index.ts';

/**
 * Workers as tokenizers: all of a model that take requests and whose dialect can.
 * @param fleet read at each question; null = it does not exist yet.
 * @param config read at each question, for the name that the engine knows.
 */
export function workersAsTokenizers(
  fleet: () => Pick<Fleet, 'workers'> | null,
  asker: TokensAsker,
  config: () => RouterConfig,
): EngineTokenizer {
  return {
    engines(model) {
      const servedAs = config().models.get(model)?.servedAs ?? model;
      const workers = fleet()?.workers() ?? [];
      return workers
        .filter(({ spec, state }) => spec.model === model && state === 'ready')
        .filter((worker) => asker.canAsk(worker))
        .map((worker) => ({
          id: String(worker.spec.id),
          tokenize: (question, signal) => asker.ask(worker, servedAs, question, signal),
        }));
    },
  };
}

const STYLES: ReadonlyMap<string, RenderStyle> = new Map([
  ['vllm', 'vllm'],
  ['sglang', 'sglang'],
  ['llamacpp', 'llamacpp'],
]);

/** The way that all configured workers of a model share; `plain` where they do not, or where it is not known. */
export function renderStyleOf(config: RouterConfig, model: string): RenderStyle {
  const dialects = new Set(
    config.workers.filter((worker) => worker.model === model).map(({ dialect }) => dialect),
  );
  const [only] = dialects;
  return dialects.size === 1 && only !== undefined ? (STYLES.get(only) ?? 'plain') : 'plain';
}
