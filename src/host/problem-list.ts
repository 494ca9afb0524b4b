// Collects configuration problems, so that a start reports all of them at once.
import type { ConfigPath, ConfigProblem, ProblemAnchor } from '../config/index.ts';
import type { ErrorCode } from '../plugin/index.ts';
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
