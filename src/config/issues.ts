// zod's issues as configuration problems: which node each points at, which code it carries.
import type { z } from 'zod';
import type { ConfigPath, ConfigProblem } from './types.ts';

/** What the schema's own issues carry beside their text. */
export interface IssueFacts {
  readonly missing?: boolean;
  readonly unknownKey?: boolean;
}

/** The problems of one issue: one, or one per unknown key. */
export function problemsOf(issue: z.core.$ZodIssue): readonly ConfigProblem[] {
  const path = plainPath(issue.path);
  if (issue.code === 'unrecognized_keys') {
    // The mapping's error text has one line per key.
    const messages = issue.message.split('\n');
    return issue.keys.map((key, index) => unknownKey([...path, key], messages[index] ?? 'unknown key'));
  }
  const facts: IssueFacts = issue.code === 'custom' ? (issue.params ?? {}) : {};
  if (facts.unknownKey) return [unknownKey(path, issue.message)];
  return [
    {
      severity: 'error',
      code: facts.missing ? 'PM_CONFIG_MISSING' : 'PM_CONFIG_VALUE',
      path,
      anchor: facts.missing ? 'parent' : 'value',
      message: issue.message,
    },
  ];
}

/** Hands the issues of an inner schema on from within a transform. */
export function forwardIssues(
  issues: readonly z.core.$ZodIssue[],
  context: {
    addIssue(issue: { code: 'custom'; path: (string | number)[]; message: string; params: IssueFacts }): void;
  },
): void {
  for (const problem of issues.flatMap(problemsOf)) {
    const params = {
      missing: problem.code === 'PM_CONFIG_MISSING',
      unknownKey: problem.code === 'PM_CONFIG_UNKNOWN_KEY',
    };
    context.addIssue({ code: 'custom', path: [...problem.path], message: problem.message, params });
  }
}

function unknownKey(path: ConfigPath, message: string): ConfigProblem {
  return { severity: 'error', code: 'PM_CONFIG_UNKNOWN_KEY', path, anchor: 'key', message };
}

function plainPath(path: readonly PropertyKey[]): ConfigPath {
  return path.map((step) => (typeof step === 'symbol' ? String(step) : step));
}
