// What a start refuses although the file is well formed: parts that configuration can name and this version does not have,
// workers that no fleet takes, tokenizers that do not load. As problems with positions, so that `serve` and `check` say the same.
import type { ConfigProblem, RouterConfig } from '../config/index.ts';
import { requireDialect } from '../engines/index.ts';
import { Fleet, parseCapabilities, workerSpecOf } from '../fleet/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { createTokenSource, type TokenSource } from '../tokens/index.ts';

/** Every problem of these kinds, for a configuration that will not be started; nothing stays open. */
export async function startProblems(config: RouterConfig, clock: Clock): Promise<ConfigProblem[]> {
  const maxPromptTokens = (): number => config.limits.promptTokens;
  const { sources, problems } = await startTokenSources(config, (model) => {
    const setting = config.models.get(model)?.tokens ?? { source: 'estimate' };
    return createTokenSource({ model, setting, maxPromptTokens, metrics: NO_METRICS, clock });
  });
  await Promise.all([...sources.values()].map((source) => source.close()));
  return [...workerProblems(config), ...problems];
}

/** Problems of workers: dialects, advertisements that stand in the file, ids and ranks that no fleet takes together. */
export function workerProblems(config: RouterConfig): ConfigProblem[] {
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  return config.workers.flatMap((worker) => {
    const { capabilities, dialect, path } = worker;
    let advertised: Parameters<typeof requireDialect>[1];
    return [
      problemOf(() => {
        advertised = typeof capabilities === 'string' ? capabilities : parseCapabilities(capabilities);
      }, [...path, 'capabilities']),
      problemOf(() => requireDialect(dialect, advertised), [...path, 'dialect']),
      problemOf(() => void fleet.add(workerSpecOf(worker, hasher)), path),
    ].filter((problem) => problem !== null);
  });
}

/**
 * Makes and starts the token source of every model.
 * @param create makes one; may throw what it cannot offer.
 * @returns the sources that started, and a problem for each that did not.
 */
export async function startTokenSources(
  config: RouterConfig,
  create: (model: string) => TokenSource,
): Promise<{ sources: Map<string, TokenSource>; problems: ConfigProblem[] }> {
  const sources = new Map<string, TokenSource>();
  const problems: ConfigProblem[] = [];
  await Promise.all(
    [...config.models.keys()].map(async (name) => {
      const path = ['models', name, 'tokens'];
      try {
        const source = create(name);
        sources.set(name, source);
        await source.start();
      } catch (thrown) {
        problems.push(asProblem(thrown, path));
      }
    }),
  );
  return { sources, problems };
}

function problemOf(attempt: () => void, path: ConfigProblem['path']): ConfigProblem | null {
  try {
    attempt();
    return null;
  } catch (thrown) {
    return asProblem(thrown, path);
  }
}

function asProblem(thrown: unknown, path: ConfigProblem['path']): ConfigProblem {
  if (!(thrown instanceof PointsmanError)) throw thrown;
  return { severity: 'error', code: thrown.code, path, anchor: 'value', message: thrown.message };
}
