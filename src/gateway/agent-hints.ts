// What an agent says of its own request, from callers whose agent hints are honoured: `nvext.agent_hints`, and headers that win over it.
import { didYouMean } from '../config/index.ts';
import type { AgentHintsRecord } from '../observe/index.ts';
import { booleanField, integerField, invalidField, type JsonObject, objectField } from './request-fields.ts';
import type { TrustedFields } from './router-only-fields.ts';

const MAX_U32 = 0xffffffff;
const MAX_I32 = 0x7fffffff;

const PRIORITY = 'x-dynamo-request-priority';
const STRICT_PRIORITY = 'x-dynamo-request-strict-priority';
const EXPECTED_OUTPUT = 'x-pointsman-expected-output-tokens';
const SPECULATIVE = 'x-pointsman-speculative-prefill';

const MEMBERS = ['osl', 'priority', 'strict_priority', 'speculative_prefill'];

/** Agent hints of a request. */
export interface AgentHints {
  /** Output tokens that it expects, ≥ 1; null = not said. */
  readonly expectedOutputTokens: number | null;
  /** An i32; higher is more important. Null = not said. */
  readonly priority: number | null;
  /** Tier in the router's queue, ≥ 0; higher goes first. */
  readonly strictPriority: number;
  /** Whether its next turn's prompt is to be computed once it is answered. */
  readonly speculativePrefill: boolean;
}

/** No hints. */
export const NO_AGENT_HINTS: AgentHints = {
  expectedOutputTokens: null,
  priority: null,
  strictPriority: 0,
  speculativePrefill: false,
};

/** The hints of a request. @throws PointsmanError PM_REQUEST_INVALID naming the field or header. */
export function readAgentHints({ headers, nvext }: Pick<TrustedFields, 'headers' | 'nvext'>): AgentHints {
  const at = 'nvext.agent_hints';
  const hints = objectField(nvext, 'agent_hints', at);
  if (hints === null && !hasHintHeader(headers)) return NO_AGENT_HINTS;
  const body = hints ?? {};
  refuseMisspelt(body, at);
  const integer = (name: string, header: string, min: number, max: number): number | null =>
    headers[header] === undefined
      ? integerField(body, name, min, max, `${at}.${name}`)
      : integerHeader(headers[header], header, min, max);
  const speculative = headers[SPECULATIVE];
  return {
    expectedOutputTokens: integer('osl', EXPECTED_OUTPUT, 1, MAX_U32),
    priority: integer('priority', PRIORITY, -MAX_I32 - 1, MAX_I32),
    strictPriority: integer('strict_priority', STRICT_PRIORITY, 0, MAX_U32) ?? 0,
    speculativePrefill:
      speculative === undefined
        ? (booleanField(body, 'speculative_prefill', `${at}.speculative_prefill`) ?? false)
        : booleanHeader(speculative, SPECULATIVE),
  };
}

/** What a decision record says of the hints; null = none were sent. */
export function agentHintsRecord(hints: AgentHints): AgentHintsRecord | null {
  if (hints === NO_AGENT_HINTS) return null;
  return {
    priority: hints.priority,
    strict_priority: hints.strictPriority,
    expected_output_tokens: hints.expectedOutputTokens,
    speculative_prefill: hints.speculativePrefill,
  };
}

/** A misspelt hint would silently not count. Members that are near to none of ours are other routers', which agents may send as well. */
function refuseMisspelt(body: JsonObject, at: string): void {
  for (const name of Object.keys(body)) {
    if (MEMBERS.includes(name)) continue;
    const hint = didYouMean(name, MEMBERS);
    if (hint !== '') throw invalidField(`${at}.${name.slice(0, 40)}`, `is no agent hint${hint}`);
  }
}

function hasHintHeader(headers: TrustedFields['headers']): boolean {
  return [PRIORITY, STRICT_PRIORITY, EXPECTED_OUTPUT, SPECULATIVE].some(
    (name) => headers[name] !== undefined,
  );
}

function integerHeader(text: string, header: string, min: number, max: number): number | null {
  const value: JsonObject = { [header]: /^-?\d{1,10}$/.test(text) ? Number(text) : text };
  return integerField(value, header, min, max);
}

function booleanHeader(text: string, header: string): boolean {
  const value = text.toLowerCase();
  if (value === 'true' || value === '1') return true;
  if (value === 'false' || value === '0') return false;
  throw invalidField(header, 'must be true or false');
}
