// What definitions promise beyond their own work, per configured instance, and whether the promises of one role fit together.
import type { ConfigPath } from '../config/index.ts';
import { COMMITMENTS, type Commitment, errorText } from '../plugin/index.ts';
import type { ParameterFault } from './parameters.ts';
import type { ProblemList } from './problem-list.ts';
import { absorbPromise, describeValue } from './selection-errors.ts';

/** What a definition says about commitments. */
export interface DeclaredCommitments {
  readonly commitments?: readonly Commitment[];
  commitsWhen?(parameters: unknown): boolean;
}

/** Whether an instance with these parameters keeps the commitment `kv-copy`, or what is wrong with its answer. */
export function commitsKvCopy(declared: DeclaredCommitments, parameters: unknown): boolean | ParameterFault {
  if (!declared.commitments?.includes('kv-copy')) return false;
  if (declared.commitsWhen === undefined) return true;
  const fault = (what: string): ParameterFault => ({
    path: [],
    anchor: 'key',
    message: `commitsWhen ${what}`,
  });
  try {
    const answer: unknown = declared.commitsWhen(parameters);
    if (typeof answer === 'boolean') return answer;
    absorbPromise(answer);
    return fault(`must answer true or false, got ${describeValue(answer)}`);
  } catch (thrown) {
    return fault(`threw: ${errorText(thrown)}`);
  }
}

/** What is wrong with how a definition declares commitments, or null. */
export function checkCommitments(value: object, label: string): string | null {
  const commitments: unknown = Reflect.get(value, 'commitments') ?? [];
  const known: readonly unknown[] = COMMITMENTS;
  if (!Array.isArray(commitments) || !commitments.every((one) => known.includes(one))) {
    return `${label}: commitments must be a list of ${COMMITMENTS.join(', ')}`;
  }
  const when: unknown = Reflect.get(value, 'commitsWhen');
  if (when !== undefined && typeof when !== 'function') return `${label}: commitsWhen must be a function`;
  return null;
}

/** A role as far as commitments go. */
export interface CommittingRole {
  readonly role: string;
  readonly selection: { readonly type: string; readonly commits: boolean };
  readonly hints: readonly { readonly name: string; readonly prepared: { readonly sends: boolean } }[];
  readonly path: ConfigPath;
}

/** A credit for copies that nobody, or more than one, sends would be false: one sender, no more and no less. */
export function checkOneSender(
  { role, selection, hints, path }: CommittingRole,
  lists: boolean,
  problems: ProblemList,
): void {
  if (!selection.commits) return;
  const senders = hints.filter((hint) => hint.prepared.sends).map((hint) => hint.name);
  if (senders.length === 1) return;
  const found = senders.length === 0 ? 'none does' : `${senders.join(' and ')} do`;
  const remedy = senders.length === 0 ? 'list the built-in kv_fetch' : 'keep one, for example kv_fetch';
  problems.error(
    'PM_COMMIT_SENDER',
    lists ? [...path, 'hints'] : path,
    'key',
    `worker-selection policy ${selection.type} of role ${role} commits KV copies, so exactly one of its hint policies must send them, but ${found}; ${remedy}`,
  );
}
