// Grammar of `worker_selection`: a role entry is a bare name or a mapping, hints are a list, instances have names.
// Which types and instances exist is the host's to say; parameters stay raw for the plugin's own schema.
import { z } from 'zod';
import { forwardIssues } from './issues.ts';
import {
  describeValue,
  duration,
  isRecord,
  list,
  mapping,
  or,
  orNull,
  raw,
  shaped,
  text,
  word,
} from './values.ts';

const POLICY_NAME = /^[A-Za-z0-9_.-]{1,128}$/;

/** A type or instance name: letters, digits, `_`, `.`, `-`. */
const policyName = () =>
  shaped(
    { type: 'string', pattern: POLICY_NAME.source, description: 'a type or instance name' },
    text('a name of letters, digits, "_", "." and "-"').refine((name) => POLICY_NAME.test(name), {
      error: (issue) =>
        `expected a name of letters, digits, "_", "." and "-", found ${describeValue(issue.input)}`,
    }),
  );

/** Where a plugin runs, and how long its answers from a thread are waited for. */
const isolationKeys = {
  isolation: orNull(word(['in-process', 'thread'])),
  deadline: orNull(duration(1, 60_000)),
};

/** Why the same keys do not exist for worker selection. */
const noIsolation = {
  isolation:
    'worker selection cannot be isolated, as selecting and booking are one synchronous step; remove the key, hint policies and the request classifier take it',
  deadline:
    'worker selection has no deadline, as selecting and booking are one synchronous step; remove the key',
};

const hint = (remedy?: (found: unknown) => string) =>
  mapping(
    { type: policyName(), name: orNull(policyName()), parameters: or(raw(), {}), ...isolationKeys },
    remedy === undefined ? {} : { remedy },
  );

/** In a list a bare name is the mistake to expect, as role entries allow one. */
const listedHint = () =>
  hint((found) =>
    typeof found === 'string' && POLICY_NAME.test(found) ? `; write - { type: ${found} }` : '',
  );

const hints = () =>
  z.array(listedHint(), {
    error: (issue) => `expected a list of hint policies, found ${describeValue(issue.input)}`,
  });

const roleMapping = mapping(
  {
    type: orNull(policyName()),
    instance: orNull(policyName()),
    parameters: orNull(raw()),
    on_commit_failure: or(word(['degrade', 'release']), 'degrade'),
    hints: hints().nullish(),
  },
  { refused: noIsolation },
);

/** A role entry: `name`, `{ type, parameters }` or `{ instance }`. */
const roleEntry = () => shaped([policyName(), roleMapping], nameOrMapping(roleMapping));

const nameOrMapping = <M extends z.ZodType>(whole: M) =>
  z.unknown().transform((value, context) => {
    const bare = typeof value === 'string';
    if (!bare && !isRecord(value)) {
      context.addIssue({
        code: 'custom',
        message: `expected a policy name or a mapping, found ${describeValue(value)}`,
      });
      return z.NEVER;
    }
    if (bare) {
      const name = policyName().safeParse(value);
      if (name.success) return { bare: name.data };
      forwardIssues(name.error.issues, context);
      return z.NEVER;
    }
    const result = whole.safeParse(value);
    if (result.success) return result.data;
    forwardIssues(result.error.issues, context);
    return z.NEVER;
  });

const instance = () =>
  mapping({ name: policyName(), type: policyName(), parameters: or(raw(), {}) }, { refused: noIsolation });

/** The whole section. */
export const workerSelection = () =>
  mapping({
    aggregated: orNull(roleEntry()),
    prefill: orNull(roleEntry()),
    decode: orNull(roleEntry()),
    encode: orNull(roleEntry()),
    instances: list(instance(), 'instances'),
  });

/** Hints as the older spelling has them, where a bare name stands for a type without parameters. */
const olderHints = () =>
  z.preprocess(
    (value) =>
      Array.isArray(value) ? value.map((one) => (typeof one === 'string' ? { type: one } : one)) : value,
    hints(),
  );

/** An older spelling: hints by role. */
export const hintPolicies = () =>
  mapping({
    aggregated: orNull(olderHints()),
    prefill: orNull(olderHints()),
    decode: orNull(olderHints()),
    encode: orNull(olderHints()),
  });

/** A still older one: a hint policy behind those of every role. */
export const kvHintPolicy = () => hint();

/** How long a request waits for its classification at most, unless said otherwise; ms. */
export const MAX_WAIT_MS = 60_000;

const classifierMapping = mapping({
  type: policyName(),
  parameters: or(raw(), {}),
  max_wait: or(duration(1, 3_600_000), MAX_WAIT_MS),
  ...isolationKeys,
});

/** Who decides when a request enters the queue: `name`, or `{ type, parameters }`. */
export const requestClassifier = () =>
  shaped([policyName(), classifierMapping], nameOrMapping(classifierMapping));
