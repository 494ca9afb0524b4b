// Judges what one hint policy returned: taken whole or dropped whole.
import { errorText } from '../plugin/index.ts';
import { copyPayload, type HintPayload, PayloadFault } from './hint-payload.ts';
import { type KeepHashes, keepTogether } from './kept-hashes.ts';
import { absorbPromise, describeValue } from './selection-errors.ts';
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
export type DropReason = Exclude<
  NonNullable<HintPolicyResult['reason']>,
  'tripped' | 'restarting' | 'no_copy_source'
>;

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

/** What there is to say of an output, filled by {@link judgeOutput} for {@link refusalText}. */
export interface NamedActions {
  /** `type@version` of each action. */
  names: readonly string[];
  /** What is wrong with it in words, where its names are not. */
  fault: string;
}

const NOTHING: readonly CheckedAction[] = Object.freeze([]);

const NAME = /^[^\s@]{1,128}$/;

/**
 * The actions of an output, or why it is dropped. Never throws, whatever the output does when read.
 * @param named is told what a refused output names, or what is wrong with one that is not well formed
 * @param keep where hash lists go
 */
export function judgeOutput(
  output: unknown,
  limits: OutputLimits,
  named?: NamedActions,
  keep: KeepHashes = keepTogether,
): readonly CheckedAction[] | DropReason {
  if (isThenable(output)) {
    absorbPromise(output);
    if (named) named.fault = 'buildHints returned a promise; it returns its actions at once';
    return 'promise';
  }
  let at = -1;
  try {
    if (!Array.isArray(output)) throw new PayloadFault(`buildHints returned ${describeValue(output)}`);
    const length = output.length;
    if (length === 0) return NOTHING;
    if (length > limits.room) {
      if (named) named.fault = `${length} actions; the envelope takes ${limits.room} more`;
      return 'no_room';
    }
    // A list of one has room for one: pushed to, an empty list takes room for many.
    let actions: CheckedAction[] | null = null;
    let bytes = 0;
    for (at = 0; at < length; at += 1) {
      const action = takeAction(output[at], keep);
      bytes += action.bytes;
      if (bytes > limits.roomBytes) {
        if (named)
          named.fault = `payloads of more than ${limits.roomBytes} bytes, which is all the envelope takes`;
        return 'no_room';
      }
      if (actions === null) actions = [action];
      else actions.push(action);
    }
    if (actions === null) return NOTHING;
    const reason = outsideOf(actions, limits);
    if (reason === null) return actions;
    if (named) named.names = actions.map(nameOf);
    return reason;
  } catch (thrown) {
    // A getter or proxy that throws, or a payload that is not JSON: all the same to the envelope.
    if (named) named.fault = malformedText(at, thrown);
    return 'malformed';
  }
}

/** Which of the sets lacks an action; null = none does. */
function outsideOf(
  actions: readonly CheckedAction[],
  { declared, accepted }: OutputLimits,
): DropReason | null {
  if (declared !== null && isOutside(actions, declared)) return 'undeclared_action';
  if (accepted !== null && isOutside(actions, accepted)) return 'unsupported_action';
  return null;
}

function isOutside(actions: readonly CheckedAction[], set: ReadonlySet<string>): boolean {
  for (const action of actions) if (!set.has(nameOf(action))) return true;
  return false;
}

/** The name made last: nearly every action is of the same type as the one before, and a text made anew must be hashed anew. */
const lastNamed = { type: 'none', version: '0', name: 'none@0' };

function nameOf({ type, version }: CheckedAction): string {
  if (type !== lastNamed.type || version !== lastNamed.version) {
    lastNamed.type = type;
    lastNamed.version = version;
    lastNamed.name = `${type}@${version}`;
  }
  return lastNamed.name;
}

/** Of what a plugin's own getter threw; it may be as long as it likes. */
const MOST_TEXT = 200;

/** @param at position of the action; -1 = it is no list */
function malformedText(at: number, thrown: unknown): string {
  const why = thrown instanceof PayloadFault ? thrown.message : `reading it threw: ${errorText(thrown)}`;
  const where = at < 0 ? '' : `action ${at + 1}: `;
  return `${where}${why.slice(0, MOST_TEXT)}; expected a list of { type, version, payload }`;
}

/** Names listed in a refusal. */
const MOST_NAMES = 16;

/** A refusal in words, for the log: what is wrong, or the first action of a wrong name, and what would have been taken. */
export function refusalText(
  reason: DropReason,
  { names, fault }: NamedActions,
  { declared, accepted }: Pick<OutputLimits, 'declared' | 'accepted'>,
): string {
  if (reason !== 'undeclared_action' && reason !== 'unsupported_action') return fault;
  const set = reason === 'undeclared_action' ? declared : accepted;
  const taken = [...(set ?? [])];
  const more = taken.length > MOST_NAMES ? ` and ${taken.length - MOST_NAMES} more` : '';
  const list = taken.length === 0 ? 'none' : `${taken.slice(0, MOST_NAMES).join(', ')}${more}`;
  const taker = reason === 'undeclared_action' ? 'the policy declares' : 'the rank accepts';
  return `action ${names.find((name) => set?.has(name) === false)}; ${taker} ${list}`;
}

/** Also for a text that cannot be a name. */
const NO_NAME = ', not a text of 1 to 128 characters without blanks and @';

function takeAction(action: unknown, keep: KeepHashes): CheckedAction {
  if (typeof action !== 'object' || action === null) throw new PayloadFault(`it is ${describeValue(action)}`);
  const type: unknown = Reflect.get(action, 'type');
  const version: unknown = Reflect.get(action, 'version');
  if (typeof type !== 'string' || !(type === lastNamed.type || NAME.test(type)))
    throw new PayloadFault(`its type is ${describeValue(type)}${NO_NAME}`);
  if (typeof version !== 'string' || !(version === lastNamed.version || NAME.test(version)))
    throw new PayloadFault(`its version is ${describeValue(version)}${NO_NAME}`);
  const spent = { bytes: 0, keep };
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
