// Collects configuration problems, so that a start reports all of them at once.
import type { ConfigPath, ConfigProblem, ProblemAnchor } from '../config/index.ts';
import { type ErrorCode, errorText, PointsmanError } from '../plugin/index.ts';
import type { ParameterFault } from './parameters.ts';

/** Problems in the order found. */
export class ProblemList {
  readonly problems: ConfigProblem[] = [];

  error(code: ErrorCode, path: ConfigPath, anchor: ProblemAnchor, message: string): void {
    this.problems.push({ severity: 'error', code, path, anchor, message });
  }

  warning(code: ErrorCode, path: ConfigPath, anchor: ProblemAnchor, message: string): void {
    this.problems.push({ severity: 'warning', code, path, anchor, message });
  }

  /** Adds faults of parameters that stand under `path`. */
  parameters(
    severity: ConfigProblem['severity'],
    path: ConfigPath,
    faults: readonly ParameterFault[],
    policy: string,
  ): void {
    for (const fault of faults) {
      this.problems.push({
        severity,
        code: 'PM_POLICY_PARAMETERS',
        path: [...path, 'parameters', ...fault.path],
        anchor: fault.anchor,
        message: `${policy}: ${fault.message}`,
      });
    }
  }

  get hasErrors(): boolean {
    return this.problems.some((problem) => problem.severity === 'error');
  }

  get warnings(): readonly ConfigProblem[] {
    return this.problems.filter((problem) => problem.severity === 'warning');
  }
}

/** Reports a `create` that failed, with what the plugin threw. */
export function reportCreation(problems: ProblemList, path: ConfigPath, thrown: unknown): void {
  // What a client would be told hides the failure itself.
  const failure =
    thrown instanceof PointsmanError && thrown.code === 'PM_PARTITION_NOT_READY' ? thrown.cause : thrown;
  const cause =
    failure instanceof Error && failure.cause !== undefined ? `: ${errorText(failure.cause)}` : '';
  const code = failure instanceof PointsmanError ? failure.code : 'PM_PLUGIN_THREW';
  problems.error(code, path, 'key', `${errorText(failure)}${cause}`);
}
