import type { ConfigProblem } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** The policies and hints of a configuration do not resolve. Holds every problem found; nothing was started. */
export class ResolutionError extends PointsmanError {
  /** Errors, and the warnings found beside them. */
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const errors = problems.filter((problem) => problem.severity === 'error');
    const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    super(
      'PM_CONFIG_INVALID',
      `the policies cannot be set up: ${errors[0]?.message ?? 'unknown problem'}${more}`,
    );
    this.name = 'ResolutionError';
    this.problems = problems;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof PointsmanError && 'problems' in value;
  }
}
