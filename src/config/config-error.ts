// Every problem of a configuration in one error.
import { PointsmanError } from '../plugin/index.ts';
import type { ConfigProblem, ConfigSource } from './types.ts';

/** A configuration that cannot be used. `message` is the first problem, rendered; {@link ConfigError.report} shows all. */
export class ConfigError extends PointsmanError {
  readonly problems: readonly ConfigProblem[];
  readonly source: ConfigSource;

  /** @param problems at least one; errors first are shown first */
  constructor(source: ConfigSource, problems: readonly ConfigProblem[]) {
    const first = problems.find((problem) => problem.severity === 'error') ?? problems[0];
    const more = problems.length - 1;
    const text = first === undefined ? `${source.file}: not usable` : source.render(first);
    super('PM_CONFIG_INVALID', more > 0 ? `${text} (and ${more} more)` : text, {
      details: { file: source.file, problems: problems.length },
    });
    this.name = 'ConfigError';
    this.problems = problems;
    this.source = source;
  }

  /** All problems, one below the other. */
  report(options: { readonly excerpt?: boolean } = {}): string {
    return this.problems.map((problem) => this.source.render(problem, options)).join('\n');
  }

  // The base recognises every Pointsman error by its brand; this one must also have problems.
  static override [Symbol.hasInstance](value: unknown): boolean {
    return (
      PointsmanError[Symbol.hasInstance](value) && 'problems' in Object(value) && 'source' in Object(value)
    );
  }
}
