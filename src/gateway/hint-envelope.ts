// Reads a hint envelope that a trusted caller sent (protocol 0.1). Well formed or nothing: half an envelope is none.
import { type HintJson, type KvHint, type KvHintAction, MAX_HINT_ACTIONS } from '../plugin/index.ts';
import { isObject } from './request-fields.ts';

const MAX_NAME = 256;
const MAX_DEPTH = 32;

/** The envelope in a parsed JSON value with only the members the protocol names, or null when it is not well formed. */
export function readHintEnvelope(value: unknown): KvHint | null {
  if (!isObject(value) || value.protocol_version !== '0.1' || !isName(value.message_id)) return null;
  const list = value.actions;
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_HINT_ACTIONS) return null;
  const actions: KvHintAction[] = [];
  for (const entry of list) {
    const action = readAction(entry);
    if (action === null) return null;
    actions.push(action);
  }
  return { protocol_version: '0.1', message_id: value.message_id, actions };
}

function readAction(value: unknown): KvHintAction | null {
  if (!isObject(value)) return null;
  const { action_id, action_type, action_version, payload } = value;
  if (!isName(action_id) || !isName(action_type) || !isName(action_version)) return null;
  return isHintObject(payload) ? { action_id, action_type, action_version, payload } : null;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_NAME;
}

function isHintObject(value: unknown): value is { readonly [key: string]: HintJson } {
  return isObject(value) && Object.values(value).every((member) => isHintJson(member, 1));
}

function isHintJson(value: unknown, depth: number): value is HintJson {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'number':
    case 'bigint':
      return true;
    default:
      break;
  }
  if (value === null) return true;
  if (depth >= MAX_DEPTH) return false;
  const members: readonly unknown[] = Array.isArray(value)
    ? value
    : isObject(value)
      ? Object.values(value)
      : [];
  return members.every((member) => isHintJson(member, depth + 1));
}
