// What a start refuses although the file is well formed: parts that configuration can name and this version does not have,
// advertisements that cannot be used, and tokenizers that do not load. As problems with positions, so that `serve` and `check`
// say the same.
import type { ConfigProblem, RouterConfig } from '../config/index.ts';
import { requireDialect } from '../engines/index.ts';
import { parseCapabilities } from '../fleet/index.ts';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { createTokenSource, type TokenSource } from '../tokens/index.ts';

/** What token sources are made with. */
export interface TokenSourceParts {
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Tokenizer threads per model. */
  readonly threads: number;
}

/** Every problem of a start, by starting and stopping what can have one. */
export async function startProblems(config: RouterConfig, clock: Clock): Promise<ConfigProblem[]> {
  const { sources, problems } = await startTokenSources(config, { metrics: NO_METRICS, clock, threads: 1 });
  await Promise.all([...sources.values()].map((source) => source.close()));
  return [...workerProblems(config), ...problems];
}

/** Problems of workers' dialects and of the advertisements that stand in the file. */
export function workerProblems(config: RouterConfig): ConfigProblem[] {
  return config.workers.flatMap(({ capabilities, dialect, path }) => {
    const problems: ConfigProblem[] = [];
    const attempt = <T>(key: string, make: () => T): T | null => {
      try {
        return make();
      } catch (thrown) {
        problems.push(asProblem(thrown, [...path, key]));
        return null;
      }
    };
    const advertised =
      typeof capabilities === 'string'
        ? capabilities
        : attempt('capabilities', () => parseCapabilities(capabilities));
    if (advertised !== null) attempt('dialect', () => requireDialect(dialect, advertised));
    return problems;
  });
}

/**
 * Makes and starts the token source of every model.
 * @returns the sources made, started or not, and a problem for each that did not start, in the models' order.
 */
export async function startTokenSources(
  config: RouterConfig,
  parts: TokenSourceParts,
): Promise<{ sources: Map<string, TokenSource>; problems: ConfigProblem[] }> {
  const sources = new Map<string, TokenSource>();
  const problems = await Promise.all(
    [...config.models.values()].map(async ({ name, tokens }) => {
      try {
        const source = createTokenSource({
          model: name,
          setting: tokens,
          maxPromptTokens: () => config.limits.promptTokens,
          ...parts,
        });
        sources.set(name, source);
        await source.start();
        return [];
      } catch (thrown) {
        return [asProblem(thrown, ['models', name, 'tokens'])];
      }
    }),
  );
  return { sources, problems: problems.flat() };
}

function asProblem(thrown: unknown, path: ConfigProblem['path']): ConfigProblem {
  if (!(thrown instanceof PointsmanError)) throw thrown;
  return { severity: 'error', code: thrown.code, path, anchor: 'value', message: thrown.message };
}
