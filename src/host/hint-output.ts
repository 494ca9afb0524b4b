// Judges what one hint policy returned: taken whole or dropped whole.
import type { HintPayload } from './hint-payload.ts';
import { copyPayload } from './hint-payload.ts';
import { absorbPromise } from './selection-errors.ts';
import type { HintPolicyResult } from './types.ts';

/** An action out of its policy's hands, not yet numbered. */
export interface CheckedAction {
  readonly type: string;
  readonly version: string;
  readonly payload: HintPayload;
  /** Size of the payload, in bytes as hint-payload.ts counts them. */
  readonly bytes: number;
}

/** Why an output is dropped. */
export type DropReason = Exclude<NonNullable<HintPolicyResult['reason']>, 'tripped' | 'restarting'>;

/** What an output is judged by. */
export interface OutputLimits {
  /** Actions the envelope still takes. */
  readonly room: number;
  /** Bytes of payloads it still takes. */
  readonly roomBytes: number;
  /** `type@version`s the policy declared; null = any. */
  readonly declared: ReadonlySet<string> | null;
  /** `type@version`s the rank accepts; null = it did not say. */
  readonly accepted: ReadonlySet<string> | null;
}

/** What an output named, filled by {@link judgeOutput} for {@link refusalText}. */
export interface NamedActions {
  /** `type@version` of each action. */
  names: readonly string[];
}

const NOTHING: readonly CheckedAction[] = Object.freeze([]);

const NAME = /^[^\s@]{1,128}$/;

/**
 * The actions of an output, or why it is dropped. Never throws, whatever the output does when read.
 * @param named is told what an output names that is well formed
 */
export function judgeOutput(
  output: unknown,
  limits: OutputLimits,
  named?: NamedActions,
): readonly CheckedAction[] | DropReason {
  if (isThenable(output)) {
    absorbPromise(output);
    return 'promise';
  }
  try {
    if (!Array.isArray(output)) return 'malformed';
    const length = output.length;
    if (length === 0) return NOTHING;
    if (length > limits.room) return 'no_room';
    const actions: CheckedAction[] = [];
    let bytes = 0;
    for (let at = 0; at < length; at += 1) {
      const action = takeAction(output[at]);
      bytes += action.bytes;
      if (bytes > limits.roomBytes) return 'no_room';
      actions.push(action);
    }
    const names = actions.map((action) => `${action.type}@${action.version}`);
    if (named) named.names = names;
    if (names.some((name) => limits.declared?.has(name) === false)) return 'undeclared_action';
    if (names.some((name) => limits.accepted?.has(name) === false)) return 'unsupported_action';
    return actions;
  } catch {
    // A getter or proxy that throws, or a payload that is not JSON: all the same to the envelope.
    return 'malformed';
  }
}

/** Names listed in a refusal. */
const MOST_NAMES = 16;

/** A refusal by name in words, for the log: the first such action, and what would have been taken. Null for other reasons. */
export function refusalText(
  reason: DropReason,
  { names }: NamedActions,
  { declared, accepted }: Pick<OutputLimits, 'declared' | 'accepted'>,
): string | null {
  if (reason !== 'undeclared_action' && reason !== 'unsupported_action') return null;
  const set = reason === 'undeclared_action' ? declared : accepted;
  const taken = [...(set ?? [])];
  const more = taken.length > MOST_NAMES ? ` and ${taken.length - MOST_NAMES} more` : '';
  const list = taken.length === 0 ? 'none' : `${taken.slice(0, MOST_NAMES).join(', ')}${more}`;
  const taker = reason === 'undeclared_action' ? 'the policy declares' : 'the rank accepts';
  return `action ${names.find((name) => set?.has(name) === false)}; ${taker} ${list}`;
}

function takeAction(action: unknown): CheckedAction {
  if (typeof action !== 'object' || action === null) throw new TypeError('an action is not an object');
  const type: unknown = Reflect.get(action, 'type');
  const version: unknown = Reflect.get(action, 'version');
  if (typeof type !== 'string' || !NAME.test(type)) throw new TypeError('an action has no type');
  if (typeof version !== 'string' || !NAME.test(version)) throw new TypeError('an action has no version');
  const spent = { bytes: 0 };
  const payload = copyPayload(Reflect.get(action, 'payload'), spent);
  return { type, version, payload, bytes: spent.bytes };
}

function isThenable(value: unknown): boolean {
  try {
    return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function';
  } catch {
    return false;
  }
}
